"""A finding made short: the few decisions that matter, and the nearest run in which all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from actors import EventLog, Replay, collector
from actors.footprint import Footprint
from actors.shrink import RUNS, Shrunk, identity, shrink
from actors.strategies.demote import Demote, Retell
from controlplane.scenarios.engine.execution import Execution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors import ChoiceList, Recording, RunResult, Strategy
    from controlplane.scenarios.engine.plan import Plan

__all__ = ["RUNS", "Short", "shorten"]


@frozen
class Short:
    """A finding in its shortest form. `failing` repeats it; `passing` is the nearest run that ends well, if any."""

    plan: Plan
    shrunk: Shrunk
    failing: Execution
    passing: Execution | None

    def recording(self) -> Recording:
        """The short form as something that can be replayed."""
        return self.failing.recording()


def shorten(
    plan: Plan, found: ChoiceList, *, runs: int = RUNS, over: Callable[[], bool] = lambda: False
) -> Short:
    """Shrink a failing run of a plan, given its choices.

    At most about `runs` runs are taken, and none once it is `over`, but for those that show the result.
    """

    def run(strategy: Strategy) -> RunResult:
        collector.sweep()
        log = EventLog(keep=plan.scenario.reads_log)
        return Execution(plan, strategy, log=log).execute("bare")

    with collector.frozen():
        shrunk = shrink(run, found, runs=runs, over=over)
    failing = _watched(plan, Replay(shrunk.result.choices, marks=None))
    return Short(plan, shrunk, failing, _nearest(plan, shrunk, over))


def _watched(plan: Plan, strategy: Replay | Demote | Retell) -> Execution:
    """A run with its whole log, and with what every step touched."""
    strategy.footprint = Footprint(keep=True)
    run = Execution(plan, strategy, log=EventLog())
    run.execute("bare")
    return run


def _nearest(plan: Plan, shrunk: Shrunk, over: Callable[[], bool]) -> Execution | None:
    """Of the runs with one decision taken back, the one that ends well and parts from the failing run last."""
    best: Execution | None = None
    longest = -1
    for strategy in _with_one_less(shrunk):
        if over():
            break
        run = _watched(plan, strategy)
        if run.result.ok and identity(run.result) != identity(shrunk.result):
            common = first_difference(run.result.choices, shrunk.result.choices)
            if common > longest:
                best, longest = run, common
    return best


def _with_one_less(shrunk: Shrunk) -> Iterator[Demote | Retell]:
    for dropped in shrunk.demotions:
        kept = [each for each in shrunk.demotions if each != dropped]
        yield Demote(kept, shrunk.data)
    if shrunk.remark:
        values = [choice.value for choice in shrunk.result.choices]
        for at, value in enumerate(values):
            if value:
                yield Retell([*values[:at], 0, *values[at + 1 :]])
    elif not shrunk.demotions:
        for kind, numbers in shrunk.data.items():
            for at, number in enumerate(numbers):
                if number:
                    less = (*numbers[:at], 0, *numbers[at + 1 :])
                    yield Demote((), {**shrunk.data, kind: less})


def first_difference(one: ChoiceList, other: ChoiceList) -> int:
    """The index of the first choice in which two runs differ; the length of the shorter, if in none."""
    shorter = min(len(one), len(other))
    for at in range(shorter):
        if one[at] != other[at]:
            return at
    return shorter
