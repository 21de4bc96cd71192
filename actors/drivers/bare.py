"""The bare driver: one loop that sends into coroutines. For exploration campaigns; two to three times faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import UsageError

if TYPE_CHECKING:
    from actors.kernel import Kernel
    from actors.process import Task


NOT_OURS = (
    "it awaits something that is not its context's, so the kernel cannot tell when it goes on"
)


def run(kernel: Kernel) -> None:
    """Step a kernel from its first choice to the end of its teardown."""
    kernel.switch = None
    kernel.begin()
    _loop(kernel, kernel.select())
    kernel.invariants.run_end_checks()
    kernel.lifecycle.tear_down()
    kernel.current = None
    _loop(kernel, kernel.select())


def _loop(kernel: Kernel, task: Task | None) -> None:
    while task is not None:
        try:
            coro = task.coro
            if coro is None:
                coro = task.begin()
            coro.send(None)
        except StopIteration as stop:
            kernel.lifecycle.task_done(task, stop.value)
            task = kernel.select()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            kernel.lifecycle.task_failed(task, error)
            task = kernel.select()
        else:
            if (
                kernel.baton is task
            ):  # a parked task has handed the baton on; this one awaited something else
                kernel.lifecycle.task_failed(task, UsageError(NOT_OURS))
                coro.close()
                task = kernel.select()
            else:
                task = kernel.baton
