"""All schedules, one after the other: what reductions are measured against."""

from __future__ import annotations

from typing import Any


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
