"""Order of static pods with one full name: one after the other, in the order in which they came.

Upstream: allowStaticPodStart of pkg/kubelet/pod_workers.go. A file that changes is a pod with another uid and
the same full name: it waits until nothing of the one before is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controlplane.api.times import SECOND

BACK_OFF: Final = 10 * SECOND
"""The time after which a pod that may not start yet asks again; up to half as long comes on top."""


class StaticOrder:
    """The queues of one node, by full name."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[str]] = {}
        self._started: dict[str, str] = {}

    def queue(self, name: str, uid: str) -> None:
        """A pod of this name is seen for the first time."""
        self._waiting.setdefault(name, []).append(uid)

    def may_start(self, name: str, uid: str, is_over: Callable[[str], bool]) -> bool:
        """Return whether it is this one's turn, which it takes then. `is_over` knows whose end was asked for."""
        started = self._started.get(name)
        if started is not None:
            return started == uid
        waiting = self._waiting.get(name, [])
        while waiting:
            if not is_over(waiting[0]):
                if waiting[0] != uid:
                    return False
                waiting.pop(0)
                break
            waiting.pop(0)
        if not waiting:
            self._waiting.pop(name, None)
        self._started[name] = uid
        return True

    def started(self, name: str) -> str | None:
        """The pod that has the name at present."""
        return self._started.get(name)

    def ended(self, name: str, uid: str) -> None:
        """Nothing of this pod is left: the next one may start."""
        if self._started.get(name) == uid:
            del self._started[name]
