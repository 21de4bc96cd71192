"""The Trio driver: every task of every actor is a Trio task; the baton passes through `trio.lowlevel.reschedule`.

With a pacer, the driver waits in real time whenever nothing is ready; see `actors.pace`.

Only public interfaces are used. A parked actor task cannot be cancelled by Trio: a cancellation
from outside (Ctrl-C, an enclosing scope) asks the kernel to stop, which ends the run at the next
step boundary and tears it down in actor order.
"""

from __future__ import annotations

import math
import types
from typing import TYPE_CHECKING, Any

import trio
from trio.lowlevel import (
    Abort,
    cancel_shielded_checkpoint,
    current_task,
    reschedule,
    wait_task_rescheduled,
)

from actors.drivers.bare import NOT_OURS
from actors.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from actors.kernel import Kernel
    from actors.pace import Pacer
    from actors.process import Task


class TrioDriver:
    """Runs one kernel inside a Trio task."""

    def __init__(self, kernel: Kernel, pace: Pacer | None = None) -> None:
        self._kernel = kernel
        self._pace = pace
        self._nudge = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._main: trio.lowlevel.Task | None = None
        self._switching = False

    async def run(self) -> None:
        """Step the kernel from its first choice to the end of its teardown."""
        kernel = self._kernel
        kernel.switch = self._switch
        if self._pace is not None:
            self._begin_pace(kernel, self._pace)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._main = current_task()
                kernel.begin()
                await self._drive()
                kernel.invariants.run_end_checks()
                kernel.lifecycle.tear_down()
                kernel.current = None
                await self._drive()
        finally:
            del kernel.switch
            kernel.look_outside = None
            self._nursery = None
        await trio.lowlevel.checkpoint_if_cancelled()

    def _begin_pace(self, kernel: Kernel, pace: Pacer) -> None:
        assert kernel.inlet is not None
        kernel.pace = pace
        kernel.look_outside = self._look_outside
        kernel.inlet.entry_time = pace.entry_time
        kernel.inlet.on_put = self._end_wait
        pace.attach(trio.current_time, self._end_wait, kernel.now)

    async def _drive(self) -> None:
        """Hand the baton to the first task and sleep until nothing is left to do, or to do yet."""
        kernel = self._kernel
        while True:
            chosen = kernel.select()
            if chosen is not None:
                self._wake(chosen)
                await wait_task_rescheduled(self._stop)
            if self._pace is None or kernel.verdict is not None:
                return
            await self._wait(self._pace)

    async def _wait(self, pace: Pacer) -> None:
        """Wait in real time until the next timer is due, input waits, or the pace was changed."""
        try:
            with trio.move_on_after(math.inf if pace.wait_s is None else pace.wait_s):
                await self._nudge.wait()
        except trio.Cancelled:
            # Delivered again once the run has been torn down in order, see the end of `run`.
            self._stop(None)
        self._nudge = trio.Event()

    def _end_wait(self) -> None:
        self._nudge.set()

    def _stop(self, _raise_cancel: Any) -> Abort:
        reason = "cancelled from outside"
        if self._pace is not None and self._kernel.inlet is not None:
            self._kernel.inlet.stop(reason)
        else:
            self._kernel.finish("stopped", reason)
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
        self._switching = True
        yield from wait_task_rescheduled(_cannot_abort).__await__()

    @types.coroutine
    def _look_outside(self) -> Generator[Any, Any, Any]:
        self._switching = True
        yield from cancel_shielded_checkpoint().__await__()

    @types.coroutine
    def _guarded(self, coro: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run an actor's coroutine, and refuse whatever it awaits that does not park it in the kernel."""
        send = coro.send
        value = None
        while True:
            try:
                trap = send(value)
            except StopIteration as stop:
                return stop.value
            if not self._switching:
                coro.close()
                raise UsageError(NOT_OURS)
            self._switching = False
            value = yield trap

    async def _body(self, task: Task) -> None:
        kernel = self._kernel
        task.handle = current_task()
        try:
            result = await self._guarded(task.begin())
        except BaseException as error:
            kernel.lifecycle.task_failed(task, error)
        else:
            kernel.lifecycle.task_done(task, result)
        self._wake(kernel.select())


def _cannot_abort(_raise_cancel: Any) -> Abort:
    return Abort.FAILED
