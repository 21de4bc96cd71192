"""Exploration: run one scenario under many schedules until something breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from actors import collector
from actors.strategies import RandomWalk, Replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.strategies.base import Strategy
    from actors.world import Driver, RunResult, World

    Build = Callable[[Strategy], World]


@frozen
class Finding:
    """A schedule that broke something: its number, the seed of its strategy, and the run."""

    schedule: int
    seed: int
    result: RunResult = field(repr=False)
    world: World = field(repr=False)


@frozen
class Exploration:
    """The result of a campaign: schedules run, distinct ones, steps in all, runs per verdict, and the findings.

    Two runs are distinct when their causal classes differ, where footprints were noted; else when
    anything at all differs. `exhausted`: the strategy has nothing left to try.
    """

    schedules: int
    steps: int
    verdicts: dict[str, int]
    findings: tuple[Finding, ...]
    classes: tuple[str, ...] = field(default=(), repr=False)
    exhausted: bool = False
    reached: dict[str, int] = field(factory=dict, repr=False)
    """In how many runs each thing happened that should happen in some (`World.sometimes`)."""

    @property
    def distinct(self) -> int:
        """Return the number of distinct schedules."""
        return len(self.classes)


def explore(
    build: Build,
    schedules: int,
    *,
    seed: int = 0,
    strategy: Callable[[int], Strategy] = RandomWalk,
    driver: Driver = "bare",
    stop_at_first: bool = True,
    until_ns: int | None = None,
    check_every: int = 0,
    progress: Callable[[int], None] | None = None,
    over: Callable[[], bool] | None = None,
) -> Exploration:
    """Build and run a world `schedules` times, with strategy seeds `seed`, `seed + 1`, ...

    A strategy that learns from run to run, or enumerates, is one object: let `strategy` answer with it
    every time.

    A run that does not end well (a broken invariant, a deadlock, a livelock, an exception) is a
    finding. Of every `check_every` schedules one is run again; if its trace differs, something besides
    the choices decided, and that is a finding with verdict "diverged". `over` is asked after each
    schedule whether that is enough. The garbage collector leaves alone what exists now, and looks after
    each schedule, which throws nearly everything away.
    """
    findings: list[Finding] = []
    verdicts: dict[str, int] = {}
    traces: dict[str, None] = {}
    steps = 0
    done = 0
    exhausted = False
    reached: dict[str, int] = {}
    with collector.frozen():
        for number in range(schedules):
            answering = strategy(seed + number)
            world = build(answering)
            result = world.run(driver, until_ns=until_ns)
            done += 1
            steps += result.steps
            if result.verdict != "abandoned":
                traces[result.causal_class or result.trace_hash] = None
            verdicts[result.verdict] = verdicts.get(result.verdict, 0) + 1
            for name in result.reached:
                reached[name] = reached.get(name, 0) + 1
            if progress is not None:
                progress(done)
            if check_every and number % check_every == 0 and result.verdict != "abandoned":
                again = build(Replay(result.choices, marks=result.marks))
                repeated = again.run(driver, until_ns=until_ns)
                if repeated.verdict == "diverged":
                    findings.append(Finding(number + 1, seed + number, repeated, again))
                    verdicts["diverged"] = verdicts.get("diverged", 0) + 1
                    if stop_at_first:
                        break
                del again, repeated
            if not result.ok and result.verdict != "abandoned":
                findings.append(Finding(number + 1, seed + number, result, world))
                if stop_at_first:
                    break
            exhausted = answering.exhausted
            if exhausted or (over is not None and over()):
                break
            del world, result
            collector.sweep()
    return Exploration(done, steps, verdicts, tuple(findings), tuple(traces), exhausted, reached)
