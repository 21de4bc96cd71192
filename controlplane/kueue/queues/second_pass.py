"""Workloads that hold quota and must be placed once more: delayed topology, failed nodes.

They come back after a delay that doubles with each attempt. Follows `pkg/cache/queue/second_pass_queue.go`.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.tree import Tree
from controlplane.kueue.workload.info import Info
from controlplane.kueue.workload.status import key_of, needs_second_pass

SECOND: Final = 1_000_000_000
_LONGEST: Final = 30 * SECOND


class SecondPass:
    """Workloads that wait for their delay, and those that are ready."""

    __slots__ = ("_ready", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}
        self._ready: dict[str, Info] = {}

    def wait(self, workload: Tree) -> bool:
        """Let a workload wait; False if it does already."""
        key = key_of(workload)
        if key in self._waiting:
            return False
        self._waiting[key] = None
        return True

    def make_ready(self, info: Info) -> bool:
        """End the wait; False if the workload no longer waits or needs no second pass."""
        waits = info.key in self._waiting
        self._waiting.pop(info.key, None)
        if waits and needs_second_pass(info.obj):
            self._ready[info.key] = info
            return True
        return False

    def ready(self) -> list[Info]:
        """All that are ready."""
        return list(self._ready.values())

    def take_ready(self) -> list[Info]:
        """Take all that are ready."""
        ready = list(self._ready.values())
        self._ready.clear()
        return ready

    def delete(self, key: str) -> None:
        """Drop a workload."""
        self._ready.pop(key, None)
        self._waiting.pop(key, None)


def delay(attempt: int) -> int:
    """The wait before an attempt, counted from 1, in nanoseconds."""
    return min(SECOND << min(attempt - 1, 10), _LONGEST) if attempt > 0 else 0
