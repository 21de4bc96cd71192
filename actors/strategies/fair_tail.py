"""A fair end for any strategy: from some step on, the task that is ready longest goes first.

A strategy may starve a task for ever, so a run without end under it proves nothing: two tasks that wake each other
go round in circles while the third, which would end that, never gets its turn. With a fair tail a run without end
does prove something. The first phase looks for safety violations, the second must come to an end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import Abandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.footprint import Footprint
    from actors.strategies.base import Option, Strategy

NEVER = 1 << 62
LOOK_EVERY = 4_096
"""The number of choices after which `over` is asked again."""
SCHEDULE = ("task", "message")
"""The kinds of choices that the tail answers; what users and faults draw stays the strategy's."""


class FairTail:
    """A strategy whose schedule becomes first in, first out: after a step, or amid an instant that does not end."""

    def __init__(
        self,
        strategy: Strategy,
        after: int | None = None,
        *,
        within: int | None = None,
        over: Callable[[], bool] | None = None,
    ) -> None:
        """Wrap a strategy.

        Args:
            strategy: it answers until the schedule is to be fair.
            after: the step of the run from which on the schedule is fair; None: no such step.
            within: the number of steps in one instant of virtual time after which the rest of that instant is
                fair. The world has to call `time_passes` whenever time moves on.
            over: asked now and then amid a run; when it is true, the run is abandoned (`Abandoned`), so that a
                schedule that never ends does not outlive its search.
        """
        self.name = strategy.name
        self._strategy = strategy
        self._told_after = after
        self._after = NEVER if after is None else after
        self._within = NEVER if within is None else within
        self._over = over
        self._until_look = LOOK_EVERY
        self._step = 0
        self._fair_from = min(self._after, self._within)

    @property
    def inner(self) -> Strategy:
        """The strategy that answers until the schedule is fair."""
        return self._strategy

    @property
    def seed(self) -> int | None:
        """The strategy's."""
        return self._strategy.seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        self._strategy.seed = seed

    @property
    def footprint(self) -> Footprint | None:
        """The record of each step that the strategy reads."""
        return self._strategy.footprint

    @footprint.setter
    def footprint(self, footprint: Footprint | None) -> None:
        self._strategy.footprint = footprint

    @property
    def exhausted(self) -> bool:
        """Return whether the strategy has run its whole space."""
        return self._strategy.exhausted

    @exhausted.setter
    def exhausted(self, exhausted: bool) -> None:
        self._strategy.exhausted = exhausted

    def begin(self) -> None:
        """A run starts."""
        self._step = 0
        self._fair_from = min(self._after, self._within)
        self._strategy.begin()

    def time_passes(self, _until_ns: int = 0) -> None:
        """Virtual time moves on: the next instant begins."""
        self._fair_from = min(self._after, self._step + self._within)

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The strategy's answer; the oldest option's where the schedule is fair."""
        self._step = step
        self._until_look -= 1
        if not self._until_look:
            self._until_look = LOOK_EVERY
            if self._over is not None and self._over():
                raise Abandoned("the search is over")
        if step > self._fair_from and kind in SCHEDULE:
            return 0
        return self._strategy.choose(kind, options, step)

    def end(self) -> None:
        """The run is over."""
        self._strategy.end()

    def parameters(self) -> dict[str, int | str | float]:
        """The strategy's, and where the tail begins."""
        found = dict(self._strategy.parameters())
        if self._told_after is not None:
            found["fair_after"] = self._told_after
        return found
