"""Opportunistic batching: the scores of one pod's cycle serve the next, equal pods.

Upstream: `pkg/scheduler/framework/runtime/batch.go` (KEP-5598). Only pods that fill their node use
it: the node taken last must refuse the next pod, so that the other scores still hold.

A kept list of nodes stays until it is used up or replaced: a pod that cannot use it counts a flush, and the
next one may count another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from controlplane.scheduler.framework.node_search import NodeHeap

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.interface import Filters
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo


class Attempted(Protocol):
    """The parts of an attempt that batching reads."""

    info: QueuedPodInfo
    state: CycleState
    started: int
    cycle: int

    @property
    def pod(self) -> Pod:
        """The pod."""


MAX_AGE = 500_000_000
"""Nanoseconds for which a kept result is used."""

NO_HINT = "no_hint"
HINT_USED = "hint_used"
HINT_NOT_USED = "hint_not_used"


class Batch:
    """Data kept of the last successful cycle of a profile."""

    __slots__ = (
        "_created",
        "_heap",
        "_last_cycle",
        "_last_node",
        "_make_heap",
        "_signature",
        "attempts",
        "flushes",
    )

    def __init__(self) -> None:
        self._signature: str | None = None
        self._heap: NodeHeap | None = None
        self._make_heap: Callable[[], NodeHeap] | None = None
        self._created = 0
        self._last_cycle = -1
        self._last_node = ""
        self.attempts: dict[str, int] = {}
        """Result -> how many attempts had it (batch_attempts_total)."""
        self.flushes: dict[str, int] = {}
        """Reason -> how often the kept result could not be used (batch_cache_flushed_total)."""

    @property
    def used(self) -> int:
        """Pods placed through a hint."""
        return self.attempts.get(HINT_USED, 0)

    def node_hint(self, filters: Filters, attempt: Attempted) -> str:
        """The node to try first, "" without a hint. PreFilter has run."""
        if self._make_heap is None:
            _count(self.attempts, NO_HINT)
            return ""
        reason = self._unusable(filters, attempt)
        if reason:
            _count(self.flushes, reason)
            _count(self.attempts, NO_HINT)
            return ""
        if self._heap is None:
            self._heap = self._make_heap()
        hint = self._heap.pop()
        if not len(self._heap):
            self._make_heap = self._heap = None
        return hint

    def _unusable(self, filters: Filters, attempt: Attempted) -> str:
        if attempt.cycle != self._last_cycle + 1:
            return "pod_skipped"
        signature = attempt.info.pod_signature
        if signature is None or signature != self._signature:
            return "pod_incompatible"
        if attempt.started - self._created > MAX_AGE:
            return "expired"
        node = filters.handle.snapshot.get(self._last_node)
        if node is None:
            return "node_missing"
        status = filters.run_filter(attempt.state, attempt.pod, node)
        if status is None or not status.is_rejected:
            return "node_not_full"
        return ""

    def store(
        self, attempt: Attempted, hint: str, chosen: str, make_heap: Callable[[], NodeHeap] | None
    ) -> None:
        """Remember a success. `make_heap` gives the scored nodes, the chosen one taken out; None: none are left."""
        self._last_cycle = attempt.cycle
        self._last_node = chosen
        if hint == chosen:
            _count(self.attempts, HINT_USED)
            return
        if hint:
            _count(self.attempts, HINT_NOT_USED)
        signature = attempt.info.pod_signature
        self._heap = None
        self._make_heap = None
        if signature is not None and make_heap is not None:
            self._signature = signature
            self._make_heap = make_heap
            self._created = attempt.started
        else:
            _count(self.flushes, "empty_list" if make_heap is None else "pod_not_batchable")


def _count(counts: dict[str, int], key: str) -> None:
    counts[key] = counts.get(key, 0) + 1
