"""Ctrl-C or SIGTERM while something runs: the first ends it in order, the second at once."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from controlplane.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM)
REASON = "interrupted"


class Interruption:
    """A request to end, once it has come."""

    def __init__(self) -> None:
        self.signal = 0

    @property
    def came(self) -> bool:
        """Return whether an interruption was requested."""
        return self.signal != 0

    @property
    def status(self) -> int:
        """Return the exit status of an interrupted command: 128 plus the number of the signal, as in shells."""
        return 128 + self.signal


@contextmanager
def interruptible(stop: Callable[[], None] | None = None) -> Iterator[Interruption]:
    """Turn the first Ctrl-C or SIGTERM into a call of `stop`; the second ends the command wherever it comes.

    Where signals are not heard (another thread than the main one), nothing changes.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def heard(number: int, _frame: object) -> None:
        interruption.signal = number
        restore()
        if stop is not None:
            stop()

    for number in SIGNALS:
        signal.signal(number, heard)
    try:
        yield interruption
    finally:
        restore()


def tell(what: str) -> None:
    """Say that this is what was reached."""
    output.complain(f"controlplane: interrupted: {what}")
