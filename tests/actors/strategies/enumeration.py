"""All schedules, one after the other: what reductions are measured against."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import World


class Enumerate:
    """Takes every option of every choice in turn, depth first."""

    name = "enumerate"
    seed = None

    def __init__(self) -> None:
        self.footprint = None
        self.exhausted = False
        self._stack: list[list[int]] = []
        self._depth = 0

    def begin(self) -> None:
        self._depth = 0

    def choose(self, kind: str, options: Any, step: int) -> int:
        if self._depth == len(self._stack):
            self._stack.append([0, len(options)])
        index, count = self._stack[self._depth]
        assert count == len(options)
        self._depth += 1
        return index

    def end(self) -> None:
        while self._stack and self._stack[-1][0] + 1 == self._stack[-1][1]:
            self._stack.pop()
        if self._stack:
            self._stack[-1][0] += 1
        else:
            self.exhausted = True

    def parameters(self) -> dict[str, Any]:
        return {}


class Probe:
    """Draws every choice, and multiplies how many options there were.

    The mean of that product over many runs is the number of all schedules (Knuth, "Estimating the
    efficiency of backtrack programs", 1975).
    """

    name = "probe"
    seed = None
    footprint = None
    exhausted = False

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self.product = 1

    def begin(self) -> None:
        """Nothing to reset: a probe is for one run."""

    def choose(self, kind: str, options: Any, step: int) -> int:
        self.product *= len(options)
        return int(self._draw.random() * len(options))

    def end(self) -> None:
        """Nothing to close."""

    def parameters(self) -> dict[str, Any]:
        return {}


def estimated(make: Callable[[Any], World], probes: int = 100) -> float:
    """About how many schedules a world has."""
    draw = Random("probes")
    total = 0
    for _ in range(probes):
        probe = Probe(draw)
        make(probe).run("bare")
        total += probe.product
    return total / probes
