"""The result of a search so far: counts, and every different failure once, in its shortest run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from actors.shrink import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actors import ChoiceList, Exploration
    from controlplane.scenarios.engine.plan import Plan, Settings

MANY = 1_000
"""Stands for the lines of a run without a plan: it is told by its choices."""
Identity = tuple[str, str]


@frozen
class Failing:
    """A failure and the shortest run that showed it. Schedules count from 1; it was first seen in `first`."""

    first: int
    schedule: int
    seed: int
    verdict: str
    reason: str
    choices: ChoiceList = field(repr=False)
    times: int = 1
    lines: tuple[str, ...] = ()
    """The perturbation plan of the run, if it had one of its own."""
    settings: Settings = ()
    """The values of the varied options in the run."""

    @property
    def identity(self) -> Identity:
        """The identity of a failure, independent of the run's details."""
        return failure(self.verdict, self.reason)

    @property
    def length(self) -> tuple[int, int]:
        """What makes a run short: few lines of a plan (none: many), then few choices."""
        lines = sum(each.count("\n") + 1 for each in self.lines)
        return lines or MANY, len(self.choices)

    def plan(self, searched: Plan) -> Plan:
        """The description of the run, given that of the search."""
        under = searched.under(self.settings)
        return under.with_lines(self.lines) if self.lines else under

    def later_by(self, schedules: int) -> Failing:
        """The same in a search that had tried this number of schedules before."""
        return evolve(self, first=self.first + schedules, schedule=self.schedule + schedules)

    def and_also(self, other: Failing) -> Failing:
        """Both as one: the run under the shorter plan, else the shorter run, the earlier of two equally long."""
        shorter = min(self, other, key=lambda each: each.length)
        return evolve(shorter, first=min(self.first, other.first), times=self.times + other.times)


@frozen
class Seen:
    """The result of some schedules."""

    schedules: int
    steps: int
    verdicts: Mapping[str, int]
    reached: Mapping[str, int]
    classes: tuple[str, ...]
    failing: tuple[Failing, ...]
    exhausted: bool = False

    @classmethod
    def of(
        cls,
        found: Exploration,
        lines_of: Callable[[int], tuple[str, ...]] = lambda _seed: (),
        settings: Settings = (),
    ) -> Seen:
        """The result of an exploration with these settings; `lines_of` tells the perturbation plan of a seed."""
        failing: dict[Identity, Failing] = {}
        for each in found.findings:
            result = each.result
            one = Failing(
                each.schedule,
                each.schedule,
                each.seed,
                result.verdict,
                result.reason,
                result.choices,
                lines=lines_of(each.seed),
                settings=settings,
            )
            _note(failing, one)
        return cls(
            found.schedules,
            found.steps,
            found.verdicts,
            found.reached,
            found.classes,
            tuple(failing.values()),
            found.exhausted,
        )


def _note(failing: dict[Identity, Failing], one: Failing) -> None:
    known = failing.get(one.identity)
    failing[one.identity] = one if known is None else known.and_also(one)


class Tally:
    """The sum of what was seen, in the order of the schedules."""

    def __init__(self, seen: Iterable[Seen] = ()) -> None:
        self.schedules = 0
        self.steps = 0
        self.verdicts: dict[str, int] = {}
        self.reached: dict[str, int] = {}
        self.classes: dict[str, None] = {}
        self.exhausted = False
        self._failing: dict[Identity, Failing] = {}
        for each in seen:
            self.add(each)

    def _repr_html_(self) -> str:
        """Return what was found as notebooks show it: the counts, and a row for each different failure."""
        from controlplane.logs.notebooks import table

        told = f"<p>{self.schedules:,} schedules, {len(self.classes):,} distinct, {self.steps:,} steps</p>"
        if not self.failing:
            return f"{told}<p>nothing broke</p>"
        rows = [
            (each.times, each.first, each.seed, f"{each.verdict}: {each.reason}")
            for each in self.failing
        ]
        return told + table(("times", "first in", "shortest seed", "what"), rows)

    @property
    def failing(self) -> tuple[Failing, ...]:
        """Every different failure once, the first one first."""
        return tuple(sorted(self._failing.values(), key=lambda each: each.first))

    @property
    def failures(self) -> int:
        """The number of different failures."""
        return len(self._failing)

    @property
    def shortest(self) -> Failing | None:
        """The failure with the shortest run; None when nothing failed."""
        return min(self.failing, key=lambda each: each.length, default=None)

    def add(self, seen: Seen) -> None:
        """Add the result of the next schedules."""
        for one in seen.failing:
            _note(self._failing, one.later_by(self.schedules))
        self.schedules += seen.schedules
        self.steps += seen.steps
        self.classes.update(dict.fromkeys(seen.classes))
        self.exhausted = self.exhausted or seen.exhausted
        for counts, more in ((self.verdicts, seen.verdicts), (self.reached, seen.reached)):
            for name, times in more.items():
                counts[name] = counts.get(name, 0) + times
