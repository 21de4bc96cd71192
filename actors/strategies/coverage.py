"""Coverage-guided search: runs that showed something new are changed a little and run again.

What a run covers is which task, at which point, ran right after which other actor's, and which
message was read before which. A run that covers something new is kept; later runs follow a kept one,
with some blocks of its choices drawn anew. After the feedback strategy of P (PChecker, Feedback).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from actors.process import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.footprint import Footprint
    from actors.strategies.base import Option

KEPT = 200
"""The number of runs that are kept at most; the oldest are given up."""
FRESH = 0.2
"""The share of runs that follow none."""
BLOCK = 12.0
"""Mean length of a block that is drawn anew."""
BLOCKS = 3.0
"""Mean number of such blocks."""


class Coverage:
    """A random walk at first, then one along what earlier runs did. It learns from run to run."""

    name = "coverage"
    footprint: Footprint | None = None
    exhausted = False

    def __init__(self, seed: int = 0) -> None:
        self.seed: int | None = seed
        self._random = Random(f"{seed}:coverage").random
        self.covered: dict[str, None] = {}
        self._kept: list[list[int]] = []
        self._parent: list[int] = []
        self._anew: dict[int, None] = {}
        self._taken: list[int] = []
        self._seen: dict[str, None] = {}
        self._last = ""

    def begin(self) -> None:
        """Choose what to follow, and where not to."""
        self._taken = []
        self._seen = {}
        self._last = ""
        self._parent = []
        self._anew = {}
        if not self._kept or self._random() < FRESH:
            return
        self._parent = self._kept[int(self._random() * len(self._kept))]
        for _ in range(1 + self._geometric(BLOCKS)):
            start = int(self._random() * max(1, len(self._parent)))
            for at in range(start, start + 1 + self._geometric(BLOCK)):
                self._anew[at] = None

    def _geometric(self, mean: float) -> int:
        count = 0
        while self._random() > 1 / mean:
            count += 1
        return count

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The followed run's choice, or one drawn uniformly."""
        at = len(self._taken)
        if at < len(self._parent) and at not in self._anew:
            index = min(self._parent[at], len(options) - 1)
        else:
            index = int(self._random() * len(options))
        self._taken.append(index)
        chosen = options[index]
        if kind == "task" and isinstance(chosen, Task):
            now = f"{chosen.actor.name}/{chosen.point}"
            if self._last:
                self._seen[f"{self._last} > {now}"] = None
            self._last = now
        elif kind == "message":
            self._seen[f"{self._last} reads {chosen.label}"] = None
        return index

    def end(self) -> None:
        """Keep the run if it showed something new."""
        new = [token for token in self._seen if token not in self.covered]
        if new:
            self.covered.update(dict.fromkeys(new))
            self._kept.append(self._taken)
            del self._kept[:-KEPT]

    def parameters(self) -> dict[str, int | str | float]:
        """None."""
        return {}
