"""Ctrl-C while something runs: the first ends it in order, the second at once."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from controlplane.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STATUS = 130
"""The exit status of an interrupted command: 128 plus the number of SIGINT, as in shells."""
REASON = "interrupted"


class Interruption:
    """Return whether an interruption was requested."""

    def __init__(self) -> None:
        self.came = False


@contextmanager
def interruptible(stop: Callable[[], None] | None = None) -> Iterator[Interruption]:
    """Turn the first Ctrl-C into a call of `stop`; the second raises KeyboardInterrupt wherever it comes.

    Where signals are not heard (another thread than the main one), nothing changes.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return

    def heard(_number: int, _frame: object) -> None:
        interruption.came = True
        signal.signal(signal.SIGINT, before)
        if stop is not None:
            stop()

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, before)


def tell(what: str) -> None:
    """Say that this is what was reached."""
    output.complain(f"controlplane: interrupted: {what}")
