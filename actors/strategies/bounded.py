"""Bounded exhaustive search: all schedules with at most a given number of delays, or of preemptions.

Delay bounding (Emmi, Qadeer, Rakamaric, POPL 2011): the plain order is first in, first out; a delay
passes over the option that would be next. Preemption bounding counts only switches away from a task
that could have gone on. Runs come in the order of their cost: the plain one, then all with one
deviation, then all with two.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal

from actors.process import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.footprint import Footprint
    from actors.strategies.base import Option

Cost = Literal["delay", "preemption"]
Deviations = tuple[tuple[int, int], ...]
"""The choices of a run that are not the cheapest: (number of the choice, rank of the option taken)."""


class Bounded:
    """One run after another over a bounded space; `exhausted` when it is used up.

    `bound` is the greatest cost of a run. Choices besides the schedule count too, an option n at cost n: defaults
    come first.
    """

    seed: int | None = None
    footprint: Footprint | None = None

    def __init__(self, cost: Cost = "delay", bound: int = 2) -> None:
        self.name = f"{cost}-bounded"
        self.cost = cost
        self.bound = bound
        self.exhausted = False
        self._levels: list[deque[Deviations]] = [deque() for _ in range(bound + 1)]
        self._levels[0].append(())
        self._plan: dict[int, int] = {}
        self._deviations: Deviations = ()
        self._costs: list[tuple[int, ...]] = []
        self._spent = 0
        self._last = ""

    def begin(self) -> None:
        """Take the cheapest run that is left."""
        for level in self._levels:
            if level:
                self._deviations = level.popleft()
                break
        self._plan = dict(self._deviations)
        self._costs = []
        self._spent = 0
        self._last = ""

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The option that costs nothing, but where the plan says otherwise."""
        order, costs = self._ranked(kind, options)
        rank = min(self._plan.get(len(self._costs), 0), len(order) - 1)
        self._costs.append(costs)
        self._spent += costs[rank]
        chosen = order[rank]
        if kind == "task":
            self._last = options[chosen].label
        return chosen

    def _ranked(self, kind: str, options: Sequence[Option]) -> tuple[list[int], tuple[int, ...]]:
        """The options from cheap to dear, and what each costs."""
        count = len(options)
        if self.cost == "delay" or kind != "task" or not isinstance(options[0], Task):
            return list(range(count)), tuple(range(count))
        going_on = [at for at in range(count) if options[at].label == self._last]
        if not going_on:
            return list(range(count)), (0,) * count
        others = [at for at in range(count) if at != going_on[0]]
        return [going_on[0], *others], (0, *([1] * len(others)))

    def end(self) -> None:
        """Plan what goes one deviation further than this run, after its last one."""
        begin = self._deviations[-1][0] + 1 if self._deviations else 0
        for at in range(begin, len(self._costs)):
            for rank, cost in enumerate(self._costs[at]):
                if rank and self._spent + cost <= self.bound:
                    self._levels[self._spent + cost].append((*self._deviations, (at, rank)))
        self.exhausted = not any(self._levels)

    def parameters(self) -> dict[str, int | str | float]:
        """The bound."""
        return {"bound": self.bound}
