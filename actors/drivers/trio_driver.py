"""The Trio driver: every task of every actor is a Trio task; the baton passes through `trio.lowlevel.reschedule`.

Only public interfaces are used. A parked actor task cannot be cancelled by Trio: a cancellation
from outside (Ctrl-C, an enclosing scope) asks the kernel to stop, which ends the run at the next
step boundary and tears it down in actor order.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from actors.kernel import Kernel
    from actors.task import Task


class TrioDriver:
    """Runs one kernel inside a Trio task."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._nursery: trio.Nursery | None = None
        self._main: trio.lowlevel.Task | None = None
        self._cancel: Callable[[], None] | None = None

    async def run(self) -> None:
        """Step the kernel from its first choice to the end of its teardown."""
        kernel = self._kernel
        kernel.switch = self._switch
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._main = current_task()
                kernel.begin()
                await self._drive()
                kernel.run_end_checks()
                kernel.tear_down()
                kernel.current = None
                await self._drive()
        finally:
            del kernel.switch
            self._nursery = None
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _drive(self) -> None:
        """Hand the baton to the first task and sleep until somebody finds nothing left to do."""
        chosen = self._kernel.select()
        if chosen is None:
            return
        self._wake(chosen)
        await wait_task_rescheduled(self._stop)

    def _stop(self, _raise_cancel: Any) -> Abort:
        self._kernel.finish("stopped", "cancelled from outside")
        return Abort.FAILED

    def _wake(self, chosen: Task | None) -> None:
        if chosen is None:
            assert self._main is not None
            reschedule(self._main)
        elif chosen.handle is None:
            assert self._nursery is not None
            self._nursery.start_soon(self._body, chosen, name=chosen.label)
        else:
            reschedule(chosen.handle)

    @types.coroutine
    def _switch(self, _task: Task, chosen: Task | None) -> Generator[Any, Any, Any]:
        self._wake(chosen)
        yield from wait_task_rescheduled(_cannot_abort).__await__()

    async def _body(self, task: Task) -> None:
        kernel = self._kernel
        task.handle = current_task()
        try:
            task.coro = task.body()
            result = await task.coro
        except BaseException as error:
            kernel.task_failed(task, error)
        else:
            kernel.task_done(task, result)
        self._wake(kernel.select())


def _cannot_abort(_raise_cancel: Any) -> Abort:
    return Abort.FAILED
