"""A fair end for any strategy: from some step on, the task that is ready longest goes first.

A strategy may starve a task for ever, so a run without end under it proves nothing. With a fair tail it does: the first
phase looks for safety violations, the second must come to an end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.footprint import Footprint
    from actors.strategies.base import Option, Strategy

SCHEDULE = ("task", "message")
"""The kinds of choices that the tail answers; what users and faults draw stays the strategy's."""


class FairTail:
    """A strategy up to step `after`, then first in, first out."""

    def __init__(self, strategy: Strategy, after: int) -> None:
        self.name = strategy.name
        self._strategy = strategy
        self._after = after

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
        self._strategy.begin()

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The strategy's answer; later the oldest option's."""
        if step > self._after and kind in SCHEDULE:
            return 0
        return self._strategy.choose(kind, options, step)

    def end(self) -> None:
        """The run is over."""
        self._strategy.end()

    def parameters(self) -> dict[str, int | str | float]:
        """The strategy's, and where the tail begins."""
        return {**self._strategy.parameters(), "fair_after": self._after}
