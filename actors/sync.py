"""Waiting for other tasks of the same actor: events and conditions, built on parking.

Trio's own primitives must not be used inside actors: each reschedules tasks behind the kernel's
back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.process import Port, Task


class Condition:
    """Waiters sleep until notified. Like Go's sync.Cond: re-check what you wait for after waking."""

    __slots__ = ("_kernel", "waiters")

    def __init__(self, kernel: Port) -> None:
        self._kernel = kernel
        self.waiters: list[tuple[Task, int]] = []
        """Who waits, longest waiting first, each with the number of its wait. To be looked at only."""

    async def wait(
        self, timeout_ns: int | None = None, *, idle: bool = False, point: str = "wait"
    ) -> bool:
        """Sleep until notified, or for `timeout_ns`. False when the time limit ended it."""
        kernel = self._kernel
        task = kernel.running()
        task.point = point
        task.idle = idle
        wait_no = kernel.parked(task, point)
        self.waiters.append((task, wait_no))
        if timeout_ns is not None:
            kernel.arm(task, wait_no, kernel.now + timeout_ns, idle=idle, value=kernel.TIMED_OUT)
        ended_by = await kernel.park()
        if ended_by is kernel.TIMED_OUT:
            self.waiters = [waiter for waiter in self.waiters if waiter[0] is not task]
            return False
        return True

    def notify_all(self) -> None:
        """Wake all waiters, longest waiting first."""
        if not self.waiters:
            return
        waiters, self.waiters = self.waiters, []
        for task, wait_no in waiters:
            self._wake(task, wait_no)

    def notify(self) -> None:
        """Wake the longest waiting one."""
        while self.waiters:
            task, wait_no = self.waiters.pop(0)
            if self._wake(task, wait_no):
                return

    def _wake(self, task: Task, wait_no: int) -> bool:
        kernel = self._kernel
        if kernel.footprint is not None:
            kernel.footprint.woke(task.label)
        return kernel.wake(task, wait_no)


class Event:
    """A flag: waiting returns at once when it is set. Waiting is a step either way."""

    __slots__ = ("_condition", "_kernel", "_set")

    def __init__(self, kernel: Port) -> None:
        self._kernel = kernel
        self._condition = Condition(kernel)
        self._set = False

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it and wake everybody."""
        self._set = True
        self._condition.notify_all()

    def clear(self) -> None:
        """Unset it."""
        self._set = False

    async def wait(
        self, timeout_ns: int | None = None, *, idle: bool = False, point: str = "wait"
    ) -> bool:
        """Wait until it is set; False when `timeout_ns` passed first."""
        if self._set:
            kernel = self._kernel
            task = kernel.running()
            task.point = point
            kernel.make_ready(task, kernel.step)
            await kernel.park()
            return True
        return await self._condition.wait(timeout_ns, idle=idle, point=point)
