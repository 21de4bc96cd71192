"""The shortest conversation that still shows a difference: fewer requests, then smaller ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import evolve

from tests.differential.comparing import Verdict
from tests.differential.corpus import Conversation
from tests.differential.mutating import nodes, without

Json = Any
Judge = Callable[[Conversation], Verdict]

LIMIT: Final = 250
"""Conversations that one shrinking asks at most."""

_QUOTES: Final = ("'", '"')


def shrunk(found: Verdict, judge: Judge) -> Verdict:
    """Return the verdict on the smallest conversation found that differs like the given one."""
    return _Shrinking(found, judge).run()


def _kind(found: Verdict) -> str:
    """The difference to keep: the place in the answer, and the beginning of a text that differs."""
    place, _, difference = found.cause.partition(": ")
    text = difference.partition(" ")[2]
    return f"{place} {text[:40] if text[:1] in _QUOTES else difference.partition(' ')[0]}"


class _Shrinking:
    def __init__(self, found: Verdict, judge: Judge) -> None:
        self.best = found
        self._judge = judge
        self._kind = _kind(found)
        self._asked = 0

    def run(self) -> Verdict:
        if self.best.wrong:
            last = self.best.wrong[0][0]
            self._try(self.best.told.steps[: last + 1])
        self._fewer()
        self._smaller()
        return self.best

    def _try(self, steps: tuple[Json, ...]) -> bool:
        """Ask a smaller conversation; keep it if it differs alike."""
        if self._asked >= LIMIT or not steps:
            return False
        self._asked += 1
        found = self._judge(evolve(self.best.told, steps=steps))
        if found.dropped or found.agrees or _kind(found) != self._kind:
            return False
        self.best = found
        return True

    def _fewer(self) -> None:
        size = max(1, len(self.best.told.steps) // 2)
        while size:
            at = len(self.best.told.steps) - size
            while at >= 0:
                steps = self.best.told.steps
                self._try(steps[:at] + steps[at + size :])
                at = min(at - 1, len(self.best.told.steps) - size)
            size //= 2

    def _smaller(self) -> None:
        for index in range(len(self.best.told.steps)):
            for part in ("query", "headers", "body"):
                self._part(index, part)

    def _part(self, index: int, part: str) -> None:
        """Take away what is not needed of one part of a request, the largest pieces first."""
        again = True
        while again and self._asked < LIMIT:
            again = False
            step = self.best.told.steps[index]
            paths = [path for path, _ in nodes(step.get(part), ()) if path]
            for path in sorted(paths, key=len):
                steps = list(self.best.told.steps)
                steps[index] = {**step, part: without(step[part], path)}
                if self._try(tuple(steps)):
                    again = True
                    break
