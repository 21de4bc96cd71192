"""A finding made short: the few decisions that matter, and the nearest run in which all is well."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from attrs import frozen

from actors import EventLog, Replay, collector
from actors.footprint import Footprint
from actors.shrink import FAULT, RUNS, Shrunk, identity, shrink
from actors.strategies.demote import Demote, Retell
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.plans.language import (
    AT_MOST_S,
    EVENT,
    HOLD,
    Pattern,
    Perturbation,
)
from controlplane.scenarios.search.planning import messages_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from actors import ChoiceList, Recording, RunResult, Strategy
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.plans.passing import Passing

__all__ = ["RUNS", "Short", "shorten"]


@frozen
class Short:
    """A finding in its shortest form. `failing` repeats it; `passing` is the nearest run that ends well, if any."""

    plan: Plan
    shrunk: Shrunk
    failing: Execution
    passing: Execution | None
    lines: tuple[str, ...] = ()
    """The perturbation plan that breaks the same with the default schedule; () when none is known."""

    def recording(self) -> Recording:
        """The short form as something that can be replayed."""
        return self.failing.recording()


def shorten(
    plan: Plan,
    found: ChoiceList,
    *,
    runs: int = RUNS,
    over: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda _runs: None,
) -> Short:
    """Shrink a failing run of a plan, given its choices.

    At most about `runs` runs are taken, and none once it is `over`, but for those that show the result.
    `progress` is called with the number of runs before each.
    """
    taken = 0

    def run(strategy: Strategy) -> RunResult:
        nonlocal taken
        progress(taken)
        taken += 1
        collector.sweep()
        log = EventLog(keep=plan.scenario.reads_log)
        return Execution(plan, strategy, log=log).execute("bare")

    with collector.frozen():
        plan, found = _with_fewer_lines(plan, found)
        shrunk = shrink(run, found, runs=runs, over=over)
        lines = plan.options["plan"] or as_lines(plan, shrunk, over)
    failing = _watched(plan, Replay(shrunk.result.choices, marks=None))
    return Short(plan, shrunk, failing, _nearest(plan, shrunk, over), lines)


def _with_fewer_lines(plan: Plan, found: ChoiceList) -> tuple[Plan, ChoiceList]:
    """Drop each line of the plan without which the run, with the same draws, fails in the same way."""
    lines = [line for each in plan.options["plan"] for line in each.splitlines()]
    if len(lines) < 2:
        return plan, found
    replay = Retell([choice.value for choice in found])
    wanted = identity(Execution(plan, replay, log=EventLog(keep=False)).execute("bare"))
    for line in tuple(lines):
        fewer = [each for each in lines if each is not line]
        under = plan.with_lines(("\n".join(fewer),) if fewer else ())
        result = Execution(
            under, Demote((), replay.data), log=EventLog(keep=False), faultless=True
        ).execute("bare")
        if fewer and identity(result) == wanted:
            plan, found, lines = under, result.choices, fewer
    return plan, found


SINGLES, PAIRED = 40, 6
"""How many orders are tried alone, and how many of the first of them in pairs."""


def as_lines(plan: Plan, shrunk: Shrunk, over: Callable[[], bool]) -> tuple[str, ...]:
    """Express a finding as "B waits until A has passed": () when no one or two such lines break the same by themselves.

    Of the messages of the failing run and of the run with the same draws and the default schedule, those that
    passed in another order are candidates: the one that was first in the default run is held until the other one.
    """
    if not shrunk.demotions or any(shrunk.data.get(FAULT, ())):
        return ()
    draws = Demote((), shrunk.data)
    orders = inversions(
        _trace(plan, draws), _trace(plan, Replay(shrunk.result.choices, marks=None))
    )[:SINGLES]
    wanted = identity(shrunk.result)
    first = orders[:PAIRED]
    tried = [(one,) for one in orders] + list(combinations(first, 2))
    for rules in tried:
        if over():
            break
        lines = ("\n".join(str(each) for each in rules),)
        run = Execution(plan.with_lines(lines), draws, log=EventLog(keep=False))
        if identity(run.execute("bare")) == wanted:
            return lines
    return ()


def _trace(plan: Plan, strategy: Strategy) -> list[Passing]:
    return messages_of(Execution(plan, strategy, log=EventLog(keep=False)))


def inversions(calm: Sequence[Passing], failing: Sequence[Passing]) -> list[Perturbation]:
    """Return the holds that would turn the order of one run's messages into that of another one.

    Those about one object come first, and of these those whose messages were nearest to each other.
    """
    before, after = _places(calm), _places(failing)
    common = [key for key in before if key in after]
    found: list[tuple[int, int, Perturbation]] = []
    for at, one in enumerate(common):
        for other in common[at + 1 : at + 1 + REACH]:
            if after[other] < after[one] and other[0] != EVENT:
                related = int(one[4] != other[4])
                rule = Perturbation(
                    HOLD, _pattern(one), _until(other, one, calm, before), AT_MOST_S
                )
                found.append((related, before[other] - before[one], rule))
    found.sort(key=lambda each: each[:2])
    return [rule for _, _, rule in found]


REACH = 40
"""How far apart two messages of the default run may be to be looked at as a pair."""
_Key = tuple[str, str, str, str, str, int]


def _places(trace: Sequence[Passing]) -> dict[_Key, int]:
    """Where each message stands, by what it is and for the how many-th time."""
    counts: dict[tuple[str, ...], int] = {}
    found: dict[_Key, int] = {}
    for at, each in enumerate(trace):
        named = each.key
        counts[named] = counts.get(named, 0) + 1
        found[(*named, counts[named])] = at
    return found


def _pattern(key: _Key) -> Pattern:
    return Pattern(*key)


def _until(key: _Key, held: _Key, calm: Sequence[Passing], places: dict[_Key, int]) -> Pattern:
    """The pattern of what ends a hold: it counts what passes from the hold's beginning."""
    passed = sum(each.key == key[:5] for each in calm[: places[held]])
    return Pattern(*key[:5], max(1, key[5] - passed))


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
