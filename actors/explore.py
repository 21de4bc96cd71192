"""Exploration: run one scenario under many schedules until something breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from actors import collector
from actors.branching import Leaf
from actors.strategies import RandomWalk, Replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.branching import Branches
    from actors.choices import ChoiceList
    from actors.log import Marks
    from actors.strategies.base import Strategy
    from actors.world import Driver, RunResult, World

    Build = Callable[[Strategy], World]

DIVERGED = "diverged"


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
    branches: Branches | None = None,
) -> Exploration:
    """Build and run a world `schedules` times, with strategy seeds `seed`, `seed + 1`, ...

    A strategy that learns from run to run, or enumerates, is one object: let `strategy` answer with it
    every time.

    A run that does not end well (a broken invariant, a deadlock, a livelock, an exception) is a
    finding. Of every `check_every` schedules one is run again; if its trace differs, something besides
    the choices decided, and that is a finding with verdict "diverged". `over` is asked after each
    schedule whether that is enough. The garbage collector leaves alone what exists now, and looks after
    each schedule, which throws nearly everything away.

    With `branches`, which the strategy forks, each leaf of a run counts as a schedule. One that broke something is
    repeated from its choices, which shows that they alone decided, before it counts as a finding.
    """

    def again(choices: ChoiceList, marks: Marks | None = None) -> tuple[RunResult, World]:
        replayed = build(Replay(choices, marks=marks))
        return replayed.run(driver, until_ns=until_ns), replayed

    findings: list[Finding] = []
    verdicts: dict[str, int] = {}
    traces: dict[str, None] = {}
    steps = 0
    done = 0
    number = 0
    exhausted = False
    reached: dict[str, int] = {}
    with collector.frozen():
        while done < schedules:
            answering = strategy(seed + number)
            world = build(answering)
            result, leaves = _run(world, driver, until_ns, branches, schedules - done)
            first = done + 1
            for leaf in leaves:
                done += 1
                steps += leaf.steps
                verdicts[leaf.verdict] = verdicts.get(leaf.verdict, 0) + 1
                if leaf.identity:
                    traces[leaf.identity] = None
                for name in leaf.reached:
                    reached[name] = reached.get(name, 0) + 1
                if progress is not None:
                    progress(done)
            repeated = [
                Finding(at, seed + number, *again(leaf.choices))
                for at, leaf in enumerate(leaves[:-1], first)
                if leaf.choices is not None
            ]
            found = [each for each in repeated if not each.result.ok]
            if check_every and number % check_every == 0 and not result.abandoned:
                checked = Finding(done, seed + number, *again(result.choices, result.marks))
                found += [checked] if checked.result.verdict == DIVERGED else []
            diverged = sum(each.result.verdict == DIVERGED for each in found)
            if diverged:
                verdicts[DIVERGED] = verdicts.get(DIVERGED, 0) + diverged
            findings += found
            if result.broken:
                findings.append(Finding(done, seed + number, result, world))
            number += 1
            exhausted = answering.exhausted
            if exhausted or (stop_at_first and findings) or (over is not None and over()):
                break
            del world, result, repeated, found
            collector.sweep()
    return Exploration(done, steps, verdicts, tuple(findings), tuple(traces), exhausted, reached)


def _run(
    world: World, driver: Driver, until_ns: int | None, branches: Branches | None, room: int
) -> tuple[RunResult, list[Leaf]]:
    """Run a world: its result, and the leaves of the run and its forks, its own one last; at most `room` of them."""
    if branches is None:
        result = world.run(driver, until_ns=until_ns)
        return result, [Leaf.of(result)]
    branches.begin(room)
    try:
        result = world.run(driver, until_ns=until_ns)
    except BaseException:
        branches.interrupted()
        raise
    return result, branches.gathered(result)
