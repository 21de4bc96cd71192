"""A binding cycle that is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.framework.waiting import WaitingPod

if TYPE_CHECKING:
    from collections.abc import Callable


class Binding:
    """A binding cycle that can still be stopped from outside."""

    __slots__ = ("_cause", "_closed", "_wake", "waiting")

    def __init__(
        self, waiting: WaitingPod | None = None, wake: Callable[[], None] | None = None
    ) -> None:
        """`wake` is called when it is stopped in PreBind."""
        self.waiting = waiting
        self._wake = wake
        self._cause = ""
        self._closed = False

    @property
    def cause(self) -> str:
        """Return the reason for the stop in PreBind; "" when it was not stopped."""
        return self._cause

    def cancel(self, cause: str) -> bool:
        """Stop it in PreBind; False when it is past that."""
        if self._closed:
            return False
        self._cause = self._cause or cause
        if self._wake is not None:
            self._wake()
        return True

    def mark_prebound(self) -> bool:
        """PreBind is done: from here on it cannot be stopped. False when it was stopped before."""
        if self._cause:
            return False
        self._closed = True
        return True
