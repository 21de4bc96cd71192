"""Partial order sampling: random priorities, drawn anew for whatever races with the step just taken.

Yuan, Yang, Gu: Partial Order Aware Concurrency Sampling, CAV 2018. What a waiting step will touch is
taken from what steps from the same point of the same task touched before; of one never seen, that it
touches its actor's memory.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from actors.footprint import Footprint, dependent
from actors.process import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.strategies.base import Option

Accesses = dict[str, bool]


class Pos:
    """Every ready task has a priority; the highest runs, and its rivals draw again."""

    name = "pos"
    exhausted = False

    def __init__(self, seed: int = 0) -> None:
        self.seed: int | None = seed
        self.footprint: Footprint | None = None
        self._touched: dict[tuple[str, str], Accesses] = {}
        self.begin()

    def begin(self) -> None:
        """Draw from the seed again; what steps touch is remembered."""
        self.footprint = Footprint(keep=True)
        self._random = Random(f"{self.seed}:pos").random
        self._data: dict[str, Random] = {}
        self._priority: dict[str, float] = {}
        self._seen = 0

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The option with the highest priority; uniformly, where it is no schedule choice."""
        if kind != "task":
            stream = self._data.get(kind)
            if stream is None:
                stream = self._data[kind] = Random(f"{self.seed}:{kind}")
            return int(stream.random() * len(options))
        self._draw_again(options)
        best, index = -1.0, 0
        for at, option in enumerate(options):
            priority = self._priority.get(option.label)
            if priority is None:
                priority = self._priority[option.label] = self._random()
            if priority > best:
                best, index = priority, at
        return index

    def _draw_again(self, options: Sequence[Option]) -> None:
        footprint = self.footprint
        assert footprint is not None
        taken = footprint.steps[self._seen :]
        self._seen = len(footprint.steps)
        for done in taken:
            self._touched[done.task, done.point] = done.accesses
            self._priority.pop(done.task, None)
            for option in options:
                if option.label in self._priority and isinstance(option, Task):
                    default = {option.actor.name: True}
                    expected = self._touched.get((option.label, option.point), default)
                    if dependent(expected, done.accesses):
                        del self._priority[option.label]

    def end(self) -> None:
        """Nothing to close."""

    def parameters(self) -> dict[str, int | str | float]:
        """None."""
        return {}
