"""Shrinking: from a finding to the few decisions that matter.

A found schedule deviates from first in, first out in hundreds of places, most of them for nothing.
Shrinking runs the scenario again and again, each time with something taken away, and keeps what still
fails in the same way: first what users do and the faults are made shorter and closer to the default, then the
schedule is expressed as demotions (`strategies.demote`), and of these all are dropped that can be.

Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input, 2002 (ddmin).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar

from attrs import field, frozen

from actors.strategies.demote import SCHEDULE, Demote, Demotion, Retell
from actors.strategies.replay import Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from actors.choices import ChoiceList
    from actors.strategies.base import Strategy
    from actors.world import RunResult

    T = TypeVar("T", str, Demotion)
    Run = Callable[[Strategy], RunResult]
    Data = Mapping[str, Sequence[int]]

FAULT = "fault"
"""The kind of choices that faults draw."""
ORDERS = 120
"""Random orders of priority that are tried for a schedule that nothing simpler tells."""
RUNS = 600
"""Runs that shrinking may take."""


@frozen
class Shrunk:
    """A finding in its shortest form.

    `demotions` express the schedule, () with a `remark` when they cannot; `data` the other choices, of users and
    faults; `deviations` is the number of decisions about the schedule and about faults that are left, `operations`
    that of users
    that are not the default ones. `runs` were taken. `result` is the run itself; its choices replay.
    """

    demotions: tuple[Demotion, ...]
    data: dict[str, tuple[int, ...]]
    deviations: int
    operations: int
    runs: int
    result: RunResult = field(repr=False)
    remark: str = ""


def identity(result: RunResult) -> tuple[str, str]:
    """Return the identity of a failure: the verdict, and the invariant that broke or the exception and its place."""
    return failure(result.verdict, result.reason)


def failure(verdict: str, reason: str) -> tuple[str, str]:
    """Return the identity of a failure from the end of a run: two runs with the same answer failed in the same way.

    An exception is identified by its type and the point from which the task ran on, not by the task: the same defect
    may show in any of several equal processes.
    """
    if verdict == "failed":
        place, _, error = reason.partition(
            ": "
        )  # as `actors.lifecycle` writes it: task at point: exception
        name = error.partition(":")[0].strip()
        return verdict, f"{name} at {place.partition(' at ')[2]}"
    name, _, _ = reason.partition(":")
    return verdict, name if verdict in {"violated", "invariant-error"} else ""


class _Budget(Exception):
    """No runs are left."""


class _Shrinker:
    """One finding being shrunk: the best so far, and the runs left."""

    def __init__(
        self, run: Run, wanted: tuple[str, str], runs: int, over: Callable[[], bool]
    ) -> None:
        self._run = run
        self._over = over
        self._wanted = wanted
        self._left = runs
        self.taken = 0
        self.best: RunResult | None = None
        self._tried: dict[object, RunResult | None] = {}

    def fails(self, strategy: Strategy, key: object) -> bool:
        """Return whether the run still fails in the same way. Raises _Budget."""
        if key in self._tried:
            known = self._tried[key]
            self.best = known or self.best
            return known is not None
        if self._left <= 0 or self._over():
            raise _Budget
        self._left -= 1
        self.taken += 1
        result = self._run(strategy)
        same = identity(result) == self._wanted
        self._tried[key] = result if same else None
        if same:
            self.best = result
        return same

    def demoted(self, demotions: Sequence[Demotion], data: Data) -> bool:
        """Return whether these demotions with these other choices still fail."""
        key = (tuple(demotions), tuple((k, tuple(v)) for k, v in sorted(data.items())))
        return self.fails(Demote(demotions, data), key)


def shrink(
    run: Run,
    found: ChoiceList,
    *,
    wanted: tuple[str, str] | None = None,
    runs: int = RUNS,
    over: Callable[[], bool] = lambda: False,
) -> Shrunk:
    """Shrink a failing run, given its choices.

    `run` runs the scenario under a strategy. `wanted` is the failure to keep, by default that of
    `found` replayed. Takes at most about `runs` runs, and no more once it is `over`.
    """
    values = [choice.value for choice in found]
    retold = Retell(values)
    result = run(retold)
    shrinker = _Shrinker(run, wanted or identity(result), runs, over)
    data: dict[str, tuple[int, ...]] = {
        kind: _trimmed(tuple(numbers)) for kind, numbers in retold.data.items()
    }
    best = _Best((), data, result)
    try:
        start = _as_demotions(shrinker, retold, data)
        if start is None:
            fewer = _by_index(shrinker, found, result)
            again = Retell([choice.value for choice in fewer.result.choices])
            run(again)
            data = {kind: _trimmed(tuple(numbers)) for kind, numbers in again.data.items()}
            start = _as_demotions(shrinker, again, data)
            if start is None:
                return fewer
        best.take(start, data, shrinker)
        while True:
            before = (best.demotions, best.data)
            _shrink_data(shrinker, best)
            _drop_demotions(shrinker, best)
            if (best.demotions, best.data) == before:
                break
    except _Budget:
        pass
    struck = _nonzero(best.data.get(FAULT, ()))
    operations = sum(_nonzero(numbers) for numbers in best.data.values()) - struck
    deviations = len(best.demotions) + struck
    return Shrunk(best.demotions, best.data, deviations, operations, shrinker.taken, best.result)


def _nonzero(numbers: Sequence[int]) -> int:
    return sum(1 for number in numbers if number)


class _Best:
    """The shortest form so far."""

    def __init__(
        self, demotions: tuple[Demotion, ...], data: dict[str, tuple[int, ...]], result: RunResult
    ) -> None:
        self.demotions = demotions
        self.data = data
        self.result = result

    def take(
        self,
        demotions: tuple[Demotion, ...],
        data: dict[str, tuple[int, ...]],
        shrinker: _Shrinker,
    ) -> None:
        """This is shorter, and it fails: `shrinker.best` is its run."""
        self.demotions = demotions
        self.data = {kind: numbers for kind, numbers in data.items() if numbers}
        if shrinker.best is not None:
            self.result = shrinker.best


def _trimmed(numbers: tuple[int, ...]) -> tuple[int, ...]:
    end = len(numbers)
    while end and not numbers[end - 1]:
        end -= 1
    return numbers[:end]


def _as_demotions(
    shrinker: _Shrinker, retold: Retell, data: dict[str, tuple[int, ...]]
) -> tuple[Demotion, ...] | None:
    """Demotions that fail in the same way; None when none were found."""
    if shrinker.demoted((), data):
        return ()
    for chosen in _candidates(retold):
        if shrinker.demoted(chosen, data):
            return chosen
    return None


def _candidates(retold: Retell) -> Iterator[tuple[Demotion, ...]]:
    """Ways to tell a schedule, the short ones first: the tasks that were passed over, and how often, are the hint."""
    actors = [Demotion("actor", name) for name in _most_first(retold.actors)]
    tasks = [Demotion("task", name) for name in _most_first(retold.tasks)]
    often = _most_first(retold.passed_over)
    yield from ((one,) for one in actors)
    yield from ((one,) for one in tasks)
    yield tuple(reversed(actors))
    yield tuple(reversed(tasks))
    yield tuple(sorted(retold.passed_over))
    yield tuple(each for each in often if retold.passed_over[each] > 1)
    yield tuple(often[: len(often) // 2])
    yield tuple(often[: len(often) // 4])
    yield from ((one,) for one in often[:60])
    for at, one in enumerate(actors):
        for other in actors[at + 1 :]:
            yield (one, other)
            yield (other, one)
    draw = Random("shrink").random
    for number in range(ORDERS):
        order = sorted(tasks if number % 2 else actors, key=lambda _: draw())
        moment = often[int(draw() * len(often)) :][: number % 3] if often else []
        yield (*order, *moment)


def _most_first(counts: Mapping[T, int]) -> list[T]:
    return sorted(counts, key=lambda each: (-counts[each], each))


def _blocks(length: int) -> Iterator[tuple[int, int]]:
    """Blocks to try, the larger first, the later first."""
    size = 1
    while size * 2 <= length:
        size *= 2
    while size:
        start = length - size
        while start > -size:
            yield max(0, start), start + size
            start -= size
        size //= 2


def _shrink_data(shrinker: _Shrinker, best: _Best) -> None:
    """Make the other choices fewer, then nearer to the defaults: whole blocks first."""
    for kind in sorted(best.data):
        for make in (_without, _zeroed):
            numbers = best.data.get(kind, ())
            for start, end in list(_blocks(len(numbers))):
                numbers = best.data.get(kind, ())
                if start >= len(numbers):
                    continue
                shorter = _trimmed(make(numbers, start, min(end, len(numbers))))
                if shorter == numbers:
                    continue
                data = {**best.data, kind: shorter}
                if shrinker.demoted(best.demotions, data):
                    best.take(best.demotions, data, shrinker)


def _without(numbers: tuple[int, ...], start: int, end: int) -> tuple[int, ...]:
    return numbers[:start] + numbers[end:]


def _zeroed(numbers: tuple[int, ...], start: int, end: int) -> tuple[int, ...]:
    return numbers[:start] + (0,) * (end - start) + numbers[end:]


def _drop_demotions(shrinker: _Shrinker, best: _Best) -> None:
    for start, end in list(_blocks(len(best.demotions))):
        if start >= len(best.demotions):
            continue
        fewer = best.demotions[:start] + best.demotions[end:]
        if shrinker.demoted(fewer, best.data):
            best.take(fewer, best.data, shrinker)


def _by_index(shrinker: _Shrinker, found: ChoiceList, result: RunResult) -> Shrunk:
    """No demotions express it: set as many choices as possible to the default option."""
    values = [choice.value for choice in found]
    kinds = [choice.kind for choice in found]
    best = result
    try:
        for start, end in list(_blocks(len(values))):
            if not any(values[start:end]):
                continue
            tried = [*values[:start], *([0] * (end - start)), *values[end:]]
            if shrinker.fails(Retell(tried), tuple(tried)):
                values = tried
                assert shrinker.best is not None
                best = shrinker.best
    except _Budget:
        pass
    kept = [(kind, value) for kind, value in zip(kinds, values, strict=True) if value]
    data: dict[str, tuple[int, ...]] = {}
    for kind, value in kept:
        if kind not in SCHEDULE:
            data[kind] = (*data.get(kind, ()), value)
    remark = "the schedule could not be expressed as demotions; single choices are left"
    struck = sum(1 for kind, _ in kept if kind in (*SCHEDULE, FAULT))
    return Shrunk((), data, struck, len(kept) - struck, shrinker.taken, best, remark)


def replayed(run: Run, shrunk: Shrunk) -> RunResult:
    """The shrunk run once more, strictly."""
    return run(Replay(shrunk.result.choices))
