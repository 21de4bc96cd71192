"""Pods ready for a cycle, and the events of the cluster while popped pods are in flight.

Upstream: `pkg/scheduler/backend/queue/active_queue.go`. Everything here is guarded by one lock
there (activeQ.lock); `pop` and `done` take no other.

Gate 127016. Unfixed, a pod that is popped while its UID is in flight gets a second marker; the
first can never be removed and keeps every later event. Fixed, the second copy is thrown away.

Gate 141645 (proposed). Upstream an update of a pod in flight leaves only events behind, and once a
binding cycle has ended the flight after Permit, nothing says that the pod is still on its way. With
the proposal the ledger also knows the latest object of each pod in flight, and `end_cycle` drops a
pod's events while its identity stays in flight until `done`. In its form "deletions-too" (proposed
here) the ledger also knows that a pod in flight was deleted, or bound by another scheduler: upstream one
that fails just then is put back, and waits in the pool, bound or gone, until the flush (D11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from controlplane.api.go_heap import Heap
from controlplane.scheduler.framework.events import POP_FROM_BACKOFF_Q, ClusterEvent
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.queue.backoff_queue import BackoffQueue
from controlplane.scheduler.queue.ledger import Entry, Ledger
from controlplane.scheduler.queue.metrics import QueueMetrics

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.gates import FixGates

POD_POPPED = "PodPopped"

NOT_IN_FLIGHT = (
    "in flight Pod isn't found in the scheduling queue. "
    "If you see this error log, it's likely a bug in the scheduler"
)


class NotInFlightError(Exception):
    """The ledger knows no marker for the pod; the text is upstream's log line."""


class ActiveQueue:
    """The active heap and the in-flight ledger."""

    __slots__ = (
        "_discards",
        "_keeps_latest",
        "_notes_leaving",
        "backoff_q",
        "binding",
        "closed",
        "discarded",
        "heap",
        "hints_enabled",
        "in_flight",
        "ledger",
        "left",
        "metrics",
        "pop_from_backoff",
        "scheduling_cycle",
    )

    def __init__(
        self,
        less: Callable[[QueuedPodInfo, QueuedPodInfo], bool],
        backoff_q: BackoffQueue,
        metrics: QueueMetrics,
        *,
        hints_enabled: bool,
        pop_from_backoff: bool,
        fixes: FixGates,
    ) -> None:
        self._discards = fixes.fixed("127016")
        self._keeps_latest = fixes.fixed("141645")
        self._notes_leaving = fixes.variant("141645") == "deletions-too"
        self.left: dict[str, None] = {}
        """UIDs in flight that were deleted, or bound by another scheduler, meanwhile."""
        self.heap: Heap[QueuedPodInfo] = Heap(lambda info: info.key, less)
        self.backoff_q = backoff_q
        self.metrics = metrics
        self.hints_enabled = hints_enabled
        self.pop_from_backoff = pop_from_backoff
        self.in_flight: dict[str, Entry] = {}
        self.binding: dict[str, Pod | None] = {}
        """Pods whose events are dropped but which are still being bound, with their latest object."""
        self.ledger = Ledger()
        self.scheduling_cycle = 0
        self.closed = False
        self.discarded: list[str] = []
        """Keys of popped pods that were thrown away because their UID was in flight."""

    def can_pop(self) -> bool:
        """Return whether `pop` would find a pod; the error-backoff heap never counts."""
        return len(self.heap) > 0 or (self.pop_from_backoff and len(self.backoff_q.heap) > 0)

    def add(self, info: QueuedPodInfo, event: str) -> None:
        """Make the pod ready for a cycle."""
        self.heap.push(info)
        self.metrics.incoming("active", event)

    def pop(self) -> QueuedPodInfo | None:
        """Take the next pod and mark it in flight; None when nothing can be popped."""
        while self.can_pop():
            info = self.heap.pop()
            if info is None:
                info = self.backoff_q.pop()
                if info is None:
                    return None
                self.metrics.incoming("active", POP_FROM_BACKOFF_Q)
            if self._fly(info):
                return info
        return None

    def take(self, key: str) -> QueuedPodInfo | None:
        """Take this pod, as `pop` would; None when it is not active."""
        info = self.heap.remove(key)
        return info if info is not None and self._fly(info) else None

    def _fly(self, info: QueuedPodInfo) -> bool:
        """Mark a popped pod in flight; False when it is a second copy, which is thrown away."""
        info.attempts += 1
        if self.hints_enabled:
            if info.uid in self.in_flight and self._discards:
                self.discarded.append(info.key)
                return False
            self.metrics.inflight(POD_POPPED, 1)
            self.in_flight[info.uid] = self.ledger.push_pod(info.uid)
        self.scheduling_cycle += 1
        profile = info.pod.spec.scheduler_name
        for plugin in info.rejector_plugins():
            self.metrics.unschedulable(plugin, profile, -1)
        return True

    def done(self, uid: str) -> None:
        """End the pod's cycle: forget the pod, and the in-flight events that no other pod needs."""
        self.left.pop(uid, None)
        entry = self.in_flight.pop(uid, None)
        if entry is None:
            self.binding.pop(uid, None)
            return
        ledger = self.ledger
        ledger.remove(entry)
        while (front := ledger.front) is not None and front.event is not None:
            ledger.remove(front)
            self.metrics.inflight(front.event.label, -1)
        self.metrics.inflight(POD_POPPED, -1)

    def end_cycle(self, uid: str) -> None:
        """The pod may be bound: its events are needed no longer."""
        entry = self.in_flight.get(uid)
        left = uid in self.left
        self.done(uid)
        if entry is not None and self._keeps_latest:
            self.binding[uid] = entry.new
            if left:
                self.left[uid] = None

    def leave(self, uid: str) -> None:
        """The pod needs no node any longer, whatever comes of its flight."""
        if self._notes_leaving and (uid in self.in_flight or uid in self.binding):
            self.left[uid] = None

    def latest(self, uid: str) -> Pod | None:
        """The newest object heard of since the pod was popped; None when there was none."""
        entry = self.in_flight.get(uid)
        if entry is None:
            return self.binding.get(uid)
        found: Pod | None = entry.new
        return found

    def add_event(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Record an event for the pods in flight."""
        self.ledger.push_event(event, old, new)
        self.metrics.inflight(event.label, 1)

    def add_event_if_any_in_flight(self, event: ClusterEvent, old: Any, new: Any) -> bool:
        """Record an event when at least one pod is in flight."""
        if not self.in_flight:
            return False
        self.add_event(event, old, new)
        return True

    def add_events_if_in_flight(self, old: Pod, new: Pod, events: list[ClusterEvent]) -> bool:
        """Record events of an update of a pod that is in flight itself."""
        entry = self.in_flight.get(new.uid)
        if entry is None:
            if new.uid not in self.binding:
                return False
            self.binding[new.uid] = new
            return True
        if self._keeps_latest:
            entry.new = new
        for event in events:
            self.add_event(event, old, new)
        return True

    def events_for(self, uid: str) -> list[Entry]:
        """Events that happened since the pod was popped; raises NotInFlightError."""
        marker = self.in_flight.get(uid)
        if marker is None:
            raise NotInFlightError(NOT_IN_FLIGHT)
        out: list[Entry] = []
        entry = marker.next
        while entry is not None:
            if entry.event is not None:
                out.append(entry)
            entry = entry.next
        return out
