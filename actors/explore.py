"""Exploration: run one scenario under many schedules until something breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from actors import collector
from actors.strategies import RandomWalk

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
    """What a campaign saw: schedules run, distinct traces, steps in all, runs per verdict, and the findings."""

    schedules: int
    distinct: int
    steps: int
    verdicts: dict[str, int]
    findings: tuple[Finding, ...]


def explore(
    build: Build,
    schedules: int,
    *,
    seed: int = 0,
    strategy: Callable[[int], Strategy] = RandomWalk,
    driver: Driver = "bare",
    stop_at_first: bool = True,
    until_ns: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Exploration:
    """Build and run a world `schedules` times, with strategy seeds `seed`, `seed + 1`, ...

    A run that does not end well (a broken invariant, a deadlock, a livelock, an exception) is a
    finding. The garbage collector looks at what exists now only once: each schedule throws nearly
    everything away.
    """
    findings: list[Finding] = []
    verdicts: dict[str, int] = {}
    traces: dict[str, None] = {}
    steps = 0
    done = 0
    with collector.frozen():
        for number in range(schedules):
            world = build(strategy(seed + number))
            result = world.run(driver, until_ns=until_ns)
            done += 1
            steps += result.steps
            traces[result.trace_hash] = None
            verdicts[result.verdict] = verdicts.get(result.verdict, 0) + 1
            if progress is not None:
                progress(done)
            if not result.ok:
                findings.append(Finding(number + 1, seed + number, result, world))
                if stop_at_first:
                    break
    return Exploration(done, len(traces), steps, verdicts, tuple(findings))
