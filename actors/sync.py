"""Waiting for other tasks of the same actor: events, conditions and signals, built on parking.

Trio's own primitives must not be used inside actors: each reschedules tasks behind the kernel's
back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.process import Port, Task


class Condition:
    """Waiters sleep until notified. Like Go's sync.Cond: re-check what you wait for after waking."""

    __slots__ = ("_kernel", "_name", "_waiters")

    def __init__(self, kernel: Port) -> None:
        self._kernel = kernel
        self._waiters: list[tuple[Task, int]] | tuple[()] = ()
        self._name = kernel.condition_name()

    def touch(self, *, write: bool) -> None:
        """Tell the footprint of the running step (runtime only)."""
        footprint = self._kernel.footprint
        if footprint is not None:
            name = self._name
            footprint.shared(name if isinstance(name, str) else f"condition {name}", write=write)

    @property
    def waiters(self) -> Sequence[tuple[Task, int]]:
        """The waiting tasks, longest waiting first, each with the number of its wait."""
        if self._kernel.footprint is not None:
            self.touch(write=False)
        return self._waiters

    async def wait(
        self, timeout_ns: int | None = None, *, idle: bool = False, point: str = "wait"
    ) -> bool:
        """Sleep until notified, or for `timeout_ns`. False when the time limit ended it."""
        kernel = self._kernel
        task = kernel.running()
        task.point = point
        task.idle = idle
        if kernel.footprint is not None:
            self.touch(write=True)
        wait_no = kernel.parked(task, point)
        waiters = self._waiters
        if waiters:
            waiters.append((task, wait_no))
        else:
            self._waiters = [(task, wait_no)]
        if timeout_ns is not None:
            kernel.timers.arm(
                task, wait_no, kernel.now + timeout_ns, idle=idle, value=kernel.TIMED_OUT
            )
        ended_by = await kernel.park()
        if ended_by is kernel.TIMED_OUT:
            if kernel.footprint is not None:
                self.touch(write=True)
            self._waiters = [waiter for waiter in self._waiters if waiter[0] is not task]
            return False
        return True

    def notify_all(self) -> None:
        """Wake all waiters, longest waiting first."""
        waiters = self._waiters
        if self._kernel.footprint is not None:
            self.touch(write=bool(waiters))
        if not waiters:
            return
        self._waiters = ()
        for task, wait_no in waiters:
            self._wake(task, wait_no)

    def notify(self) -> None:
        """Wake the longest waiting one."""
        if self._kernel.footprint is not None:
            self.touch(write=bool(self._waiters))
        while self._waiters:
            task, wait_no = self._waiters.pop(0)
            if self._wake(task, wait_no):
                return

    def _wake(self, task: Task, wait_no: int) -> bool:
        kernel = self._kernel
        if kernel.footprint is not None:
            kernel.footprint.woke(task.label)
        return kernel.wake(task, wait_no)


class Signal:
    """A condition with memory, for the loop that makes a pass whenever something has happened.

    A notification that comes while the loop is not waiting (before its first wait, or during a pass) is kept:
    the next wait returns at once, which is a step. Several such notifications count as one. A Condition has no
    memory; it is right only where the state that is waited for is read in the same step as the wait begins.
    Upstream's counterpart is a Go channel with a buffer of one. One task waits.
    """

    __slots__ = ("_condition", "_kernel", "_notified")

    def __init__(self, kernel: Port) -> None:
        self._kernel = kernel
        self._condition = Condition(kernel)
        self._notified = False

    def notify(self) -> None:
        """Let the waiting task go on, or the next wait return at once."""
        self._condition.touch(write=True)
        self._notified = True
        self._condition.notify_all()

    async def wait(
        self, timeout_ns: int | None = None, *, idle: bool = False, point: str = "wait"
    ) -> bool:
        """Sleep until notified since the last wait; False when `timeout_ns` passed first."""
        self._condition.touch(write=True)
        if self._notified:
            kernel = self._kernel
            task = kernel.running()
            task.point = point
            kernel.make_ready(task, kernel.step)
            await kernel.park()
        elif not await self._condition.wait(timeout_ns, idle=idle, point=point):
            return False
        self._notified = False
        return True


class Event:
    """A flag: waiting returns at once when it is set. Waiting is a step either way."""

    __slots__ = ("_condition", "_kernel", "_set")

    def __init__(self, kernel: Port) -> None:
        self._kernel = kernel
        self._condition = Condition(kernel)
        self._set = False

    def is_set(self) -> bool:
        """Return whether it is set."""
        self._condition.touch(write=False)
        return self._set

    def set(self) -> None:
        """Set the event and wake all waiting tasks."""
        self._condition.touch(write=True)
        self._set = True
        self._condition.notify_all()

    def clear(self) -> None:
        """Unset it."""
        self._condition.touch(write=True)
        self._set = False

    async def wait(
        self, timeout_ns: int | None = None, *, idle: bool = False, point: str = "wait"
    ) -> bool:
        """Wait until it is set; False when `timeout_ns` passed first."""
        if self._set:
            kernel = self._kernel
            self._condition.touch(write=False)
            task = kernel.running()
            task.point = point
            kernel.make_ready(task, kernel.step)
            await kernel.park()
            return True
        return await self._condition.wait(timeout_ns, idle=idle, point=point)
