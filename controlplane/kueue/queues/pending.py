"""The workloads of one cluster queue: active in a heap, inadmissible, or in the scheduler's hands.

A workload is in one of the three at most. Follows `pkg/cache/queue/pending_workloads.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from controlplane.api.go_heap import Heap
from controlplane.kueue.workload.info import Info

__all__ = ["PendingWorkloads"]


class PendingWorkloads:
    """The pending workloads of a queue.

    Args:
        less: True if its first argument is tried before the second.
    """

    __slots__ = ("active", "inadmissible", "inflight")

    def __init__(self, less: Callable[[Info, Info], bool]) -> None:
        self.active: Heap[Info] = Heap(lambda info: info.key, less)
        self.inadmissible: dict[str, Info] = {}
        self.inflight: Info | None = None

    def get(self, key: str) -> Info | None:
        """A workload, wherever it is."""
        if self.is_inflight(key):
            return self.inflight
        return self.active.get(key) or self.inadmissible.get(key)

    def is_inflight(self, key: str) -> bool:
        """Return whether the scheduler holds the workload."""
        return self.inflight is not None and self.inflight.key == key

    def forget_inflight(self, key: str) -> None:
        """Forget the workload in the scheduler's hands, if it is this one."""
        if self.is_inflight(key):
            self.inflight = None

    def add_if_absent(self, info: Info) -> bool:
        """Put a workload into the heap unless it is pending already; whether that was done."""
        if self.is_inflight(info.key) or info.key in self.inadmissible or info.key in self.active:
            return False
        self.active.push(info)
        return True

    def activate(self, info: Info) -> bool:
        """Move an inadmissible workload into the heap; False if the heap has it already."""
        if info.key in self.active:
            return False
        self.active.push(info)
        self.inadmissible.pop(info.key, None)
        return True

    def park(self, info: Info) -> None:
        """Move a workload from the heap to the inadmissible ones."""
        self.active.remove(info.key)
        self.inadmissible[info.key] = info

    def remove(self, key: str) -> None:
        """Remove a workload, wherever it is."""
        self.inadmissible.pop(key, None)
        self.active.remove(key)
        self.forget_inflight(key)

    def __iter__(self) -> Iterator[Info]:
        """All of them; the one in the scheduler's hands last."""
        yield from self.active
        yield from self.inadmissible.values()
        if self.inflight is not None:
            yield self.inflight

    def requested(self) -> dict[str, int]:
        """The requests of all of them by resource."""
        amounts: dict[str, int] = {}
        for info in self:
            for pod_set in info.total_requests:
                for name, amount in pod_set.requests.items():
                    amounts[name] = amounts.get(name, 0) + amount
        return amounts
