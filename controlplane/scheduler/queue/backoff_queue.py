"""Pods serving backoff: one heap for rejected pods, one for pods that failed with an error.

Upstream: `pkg/scheduler/backend/queue/backoff_queue.go`.
"""

from __future__ import annotations

from collections.abc import Callable

from controlplane.api.go_heap import Heap
from controlplane.api.times import SECOND
from controlplane.gates import FixGates
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.queue.metrics import QueueMetrics

NO_BACKOFF = -1
"""Expiry of a pod that serves no backoff: before every real time."""

DEFAULT_INITIAL_BACKOFF = 1 * SECOND
DEFAULT_MAX_BACKOFF = 10 * SECOND

Less = Callable[[QueuedPodInfo, QueuedPodInfo], bool]


def backoff_duration(count: int, initial: int, maximum: int) -> int:
    """Backoff in nanoseconds after `count` failures in a row: doubling, capped."""
    if count == 0 or maximum == 0:
        return 0
    shift = count - 1
    return maximum if initial > maximum >> shift else initial << shift


class BackoffQueue:
    """The two backoff heaps seen as one queue."""

    __slots__ = (
        "_counts_attempts",
        "error_heap",
        "heap",
        "initial_backoff",
        "max_backoff",
        "metrics",
        "window_aligned",
    )

    def __init__(
        self,
        less: Less,
        metrics: QueueMetrics,
        *,
        initial_backoff: int = DEFAULT_INITIAL_BACKOFF,
        max_backoff: int = DEFAULT_MAX_BACKOFF,
        pop_from_backoff: bool = True,
        fixes: FixGates | None = None,
    ) -> None:
        self._counts_attempts = not (fixes or FixGates()).fixed("128748")
        self.metrics = metrics
        self.initial_backoff = initial_backoff
        self.max_backoff = max_backoff
        self.window_aligned = pop_from_backoff

        def by_expiry(a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
            return self.expiration(a) < self.expiration(b)

        def by_expiry_then_sort(a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
            ends_a, ends_b = self.expiration(a), self.expiration(b)
            return less(a, b) if ends_a == ends_b else ends_a < ends_b

        self.heap: Heap[QueuedPodInfo] = Heap(
            _key, by_expiry_then_sort if pop_from_backoff else by_expiry
        )
        self.error_heap: Heap[QueuedPodInfo] = Heap(_key, by_expiry)

    def __len__(self) -> int:
        return len(self.heap) + len(self.error_heap)

    def __contains__(self, key: object) -> bool:
        return key in self.heap or key in self.error_heap

    def get(self, key: str) -> QueuedPodInfo | None:
        """The entry under `namespace/name`, or None."""
        return self.heap.get(key) or self.error_heap.get(key)

    def align(self, time: int) -> int:
        """Round down to the ordering window (one second), when windows are in use."""
        return time - time % SECOND if self.window_aligned else time

    def expiration(self, info: QueuedPodInfo) -> int:
        """Return the end of the backoff of `info`; computed once per attempt.

        Gate 128748 (issue 128744). Unfixed, every attempt doubles it: a pod that failed through a
        broken network waits longest when it is rejected afterwards. Fixed, errors in a row and
        rejections are counted apart.
        """
        if info.backoff_expiration is None:
            count = info.consecutive_errors_count or info.unschedulable_count
            if self._counts_attempts:
                count = info.attempts
            duration = backoff_duration(count, self.initial_backoff, self.max_backoff)
            if duration == 0:
                return NO_BACKOFF
            info.backoff_expiration = self.align(info.timestamp + duration)
        return info.backoff_expiration

    def is_backing_off(self, info: QueuedPodInfo, now: int) -> bool:
        """Return whether the pod still has to wait; a pod whose backoff ends in this second has."""
        return not self.expiration(info) < self.align(now)

    def add(self, info: QueuedPodInfo, event: str) -> None:
        """Put the pod in the heap that fits its last failure."""
        home, other = self.heap, self.error_heap
        if not info.has_rejectors:
            home, other = other, home
        home.push(info)
        # Found in the other heap means that it was added twice; upstream logs an error
        # and does not count it as incoming.
        if other.remove(info.key) is None:
            self.metrics.incoming("backoff", event)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take the pod out of whichever heap holds it."""
        from_heap = self.heap.remove(key)
        from_errors = self.error_heap.remove(key)
        return from_heap or from_errors

    def fix(self, info: QueuedPodInfo) -> None:
        """Restore the order after the entry's object was replaced."""
        home = self.heap if info.key in self.heap else self.error_heap
        home.push(info)

    def pop(self) -> QueuedPodInfo | None:
        """Take the first rejected pod, whatever is left of its backoff."""
        return self.heap.pop()

    def pop_completed(self, now: int) -> list[QueuedPodInfo]:
        """Take every pod whose backoff is over, rejected pods first."""
        out: list[QueuedPodInfo] = []
        while (info := self.pop_one_completed(now)) is not None:
            out.append(info)
        return out

    def pop_one_completed(self, now: int) -> QueuedPodInfo | None:
        """Take one pod whose backoff is over, rejected pods first; None when there is none."""
        for heap in (self.heap, self.error_heap):
            info = heap.peek()
            if info is not None and not self.is_backing_off(info, now):
                return heap.pop()
        return None

    def next_release(self) -> int | None:
        """The earliest time at which `pop_completed` would return something; None when empty."""
        times = [self.expiration(info) for h in (self.heap, self.error_heap) if (info := h.peek())]
        if not times:
            return None
        earliest = min(times)
        return earliest + SECOND - earliest % SECOND if self.window_aligned else earliest + 1


def _key(info: QueuedPodInfo) -> str:
    return info.key
