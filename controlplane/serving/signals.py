"""The signals by which a program that serves or follows a cluster is asked to end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["stop_on_signal"]


async def stop_on_signal(
    stop: Callable[[str], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call `stop` with the name of the first SIGINT or SIGTERM. Outside of the main thread no signal is heard."""
    try:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for number in signals:
                stop(signal.Signals(number).name)
                return
    except RuntimeError:  # not the main thread: no signal handler can be set
        task_status.started()
