"""Opportunistic batching: the scores of one pod's cycle serve the next, equal pods.

Upstream: `pkg/scheduler/framework/runtime/batch.go` (KEP-5598). Only pods that fill their node use
it: the node taken last must refuse the next pod, so that the other scores still hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
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
        "used",
    )

    def __init__(self) -> None:
        self._signature: Hashable | None = None
        self._heap: NodeHeap | None = None
        self._make_heap: Callable[[], NodeHeap] | None = None
        self._created = 0
        self._last_cycle = -1
        self._last_node = ""
        self.used = 0
        """Pods placed through a hint."""
        self.attempts: dict[str, int] = {"no_hint": 0, "hint_used": 0, "hint_not_used": 0}
        """Result -> attempts (batch_attempts_total)."""
        self.flushes: dict[str, int] = {}
        """Reason -> how often the kept result was dropped (batch_cache_flushed_total)."""

    def node_hint(self, filters: Filters, attempt: Attempted) -> str:
        """The node to try first, "" without a hint. PreFilter has run."""
        reason = "" if self._make_heap is None else self._unusable(filters, attempt)
        if reason:
            self._flushed(reason)  # kept until the next success: the next pod may be counted, too
        if reason or self._make_heap is None:
            self.attempts["no_hint"] += 1
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
        """Remember a success. `make_heap` gives the scored nodes, the chosen one taken out."""
        self._last_cycle = attempt.cycle
        self._last_node = chosen
        if hint == chosen:
            self.used += 1
            self.attempts["hint_used"] += 1
            return
        if hint:
            self.attempts["hint_not_used"] += 1
        signature = attempt.info.pod_signature
        self._heap = None
        self._make_heap = None
        if signature is not None and make_heap is not None:
            self._signature = signature
            self._make_heap = make_heap
            self._created = attempt.started
        else:
            self._flushed("empty_list" if make_heap is None else "pod_not_batchable")

    def _flushed(self, reason: str) -> None:
        self.flushes[reason] = self.flushes.get(reason, 0) + 1
