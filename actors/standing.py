"""Waiting until a task reaches a point, and holding it there.

For experiments that aim: a task that reaches a named point is held until the waiting task lets it go. It is a
schedule like
others, for nothing makes a ready task run. Everything else goes on, virtual time too.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from actors.process import NEW

if TYPE_CHECKING:
    from actors.process import Task


class Standing:
    """A wait of `waiter` for a task of an actor to stand at `point` for the `nth` time; then the task is held."""

    __slots__ = ("_passed", "actor", "held", "meant", "nth", "point", "wait_no", "waiter")

    def __init__(self, actor: str, point: str, nth: int, waiter: Task, wait_no: int) -> None:
        self.actor = actor
        self.point = point
        self.nth = nth
        self.waiter = waiter
        self.wait_no = wait_no
        self.meant: dict[str, bool] = {point: True}
        """Of the points that were seen, whether each is one that is asked for."""
        self.held: tuple[Task, int] | None = None
        """The task that stands there, and its wait."""
        self._passed: dict[tuple[int, int], None] = {}

    def _is_meant(self, point: str) -> bool:
        """Return whether a point is the one asked for; `*` stands for anything, `|` between several."""
        known = self.meant.get(point)
        if known is None:
            patterns = self.point.split("|") if "*" in self.point or "|" in self.point else ()
            known = self.meant[point] = any(fnmatchcase(point, each) for each in patterns)
        return known

    def takes(self, task: Task) -> bool:
        """Return whether a ready task has come to the point for the time that was asked for."""
        if (
            self.held is not None
            or task.actor.name != self.actor
            or task.state == NEW
            or not self._is_meant(task.point)
        ):
            return False
        self._passed[task.no, task.cause] = None
        return len(self._passed) >= self.nth
