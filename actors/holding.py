"""Holding a task at a point until another task lets it go.

For experiments that aim at one place. It is a schedule like others, for nothing makes a ready task run. Everything else
goes on, virtual time too.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from actors.process import NEW

if TYPE_CHECKING:
    from actors.core import Core
    from actors.process import Task


class Hold:
    """A wait of `waiter` for a task of an actor to reach `point` for the `nth` time; then the task is held there."""

    __slots__ = ("_passed", "actor", "held", "meant", "nth", "point", "wait_no", "waiter")

    def __init__(self, actor: str, point: str, nth: int, waiter: Task, wait_no: int) -> None:
        self.actor = actor
        self.point = point
        self.nth = nth
        self.waiter = waiter
        self.wait_no = wait_no
        self.meant: dict[str, bool] = {point: True}
        """Of the points that were seen, whether each is one of those asked for."""
        self.held: tuple[Task, int] | None = None
        """The task that is held, and its wait."""
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


class Holds:
    """The holds of one run."""

    __slots__ = ("_kernel", "waits")

    def __init__(self, kernel: Core) -> None:
        self._kernel = kernel
        self.waits: list[Hold] = []

    def hold(self) -> None:
        """Hold the tasks that have reached a point for which a wait exists, and notify it."""
        kernel = self._kernel
        for wait in self.waits:
            if wait.held is not None:
                continue
            name, meant = wait.actor, wait.meant
            for task in kernel.ready:
                if task.actor.name == name and meant.get(task.point, True) and wait.takes(task):
                    if kernel.footprint is not None:
                        kernel.footprint.everything()
                    kernel.ready.remove(task)
                    value, error = task.value, task.error
                    where = f"{wait.waiter.label}, at {wait.point}"
                    wait.held = (task, kernel.parked(task, where))
                    task.value, task.error = value, error
                    kernel.wake(wait.waiter, wait.wait_no, cause=task.cause)
                    break

    def let_go(self, wait: Hold) -> None:
        """Let a held task go on; if none has come yet, none will be held."""
        kernel = self._kernel
        if kernel.footprint is not None:
            kernel.footprint.everything()
        if wait in self.waits:
            self.waits.remove(wait)
        if wait.held is not None:
            task, wait_no = wait.held
            kernel.wake(task, wait_no, task.value, task.error)
