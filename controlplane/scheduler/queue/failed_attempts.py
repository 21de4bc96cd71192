"""Failed attempts: a pod that could not be scheduled goes back to a queue, and its flight ends.

Upstream: `AddUnschedulableIfNotPresent` and `determineSchedulingHintForInFlightPod` of
`pkg/scheduler/backend/queue/scheduling_queue.go`.

Point: `scheduler.queue.done` between putting the pod back and the end of its flight. Putting it back holds the
queue's lock; the end of the flight takes only that of the active queue, which Pop takes as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.decisions import Point, Steps
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.queue.active_queue import NotInFlightError
from controlplane.scheduler.queue.metrics import QueueMetrics
from controlplane.scheduler.queue.moves import Moves
from controlplane.scheduler.queue.queueing_hints import QueueingHints, Strategy
from controlplane.scheduler.queue.transfers import Transfers
from controlplane.scheduler.state.pod_info import PodInfo

if TYPE_CHECKING:
    from controlplane.gates import FixGates

DONE: Final = Point("scheduler.queue.done")


class AlreadyQueuedError(Exception):
    """A failed pod cannot be put back because its key is in a queue already."""


class FailedAttempts:
    """Puts failed pods back."""

    def __init__(
        self,
        transfers: Transfers,
        moves: Moves,
        hints: QueueingHints,
        metrics: QueueMetrics,
        fixes: FixGates,
        *,
        groups: bool = False,
    ) -> None:
        self._transfers = transfers
        self._places = transfers.places
        self._moves = moves
        self._hints = hints
        self._metrics = metrics
        self._groups = groups
        self._done_first = fixes.fixed("139450")
        self._keeps_latest = fixes.fixed("141645")
        self.changes = 0
        """The number of changes of `landing`."""
        self.landing = ""
        """UID of the pod that is being put back and whose flight ends in a moment."""
        self.refused = ""
        """The reason why a failed pod could not be put back, the last time that happened."""

    def put_back(
        self, info: QueuedPodInfo, cycle: int, now: int, in_flight_uid: str
    ) -> Steps[None]:
        """Put a pod back and end its flight; Pop may come between the two. Raises AlreadyQueuedError.

        Gate 139450 (issue 139186; D10 of the facts). Unfixed, a pod that a binding cycle puts back
        may be popped in that moment; its UID is still in flight, so Pop takes it for a second copy
        and throws it away. Fixed, its flight ends before it enters a queue.

        Gate 141645 (proposed). Upstream the object that goes into the queue is the one that the
        failure handler read, although an update may have come since. With the proposal it is the
        latest one heard of.
        """
        self.landing = in_flight_uid
        self.changes += 1
        flies = True
        try:
            self._requeue(info, cycle, now, in_flight_uid)
            flies = not self._done_first
            yield DONE
        finally:
            self.landing = ""
            self.changes += 1
            if flies:  # else it has landed, and may be on its next flight by now
                self._places.active_q.done(in_flight_uid)

    def _requeue(self, info: QueuedPodInfo, cycle: int, now: int, uid: str) -> None:
        """Put a pod into the queue that the events during its flight ask for."""
        active_q = self._places.active_q
        if uid in active_q.left:
            active_q.done(uid)
            return
        if self._keeps_latest:
            self._refresh(info, uid)
        where = self._places.name_of(info.key)
        if where:
            self.refused = f"Pod {info.key} is already present in {where}"
            raise AlreadyQueuedError(self.refused)
        if info.has_rejectors:
            info.unschedulable_count += 1
            info.consecutive_errors_count = 0
        else:
            info.consecutive_errors_count += 1
        info.timestamp = now
        info.backoff_expiration = None
        info.was_flushed_from_unschedulable = False
        profile = info.pod.spec.scheduler_name
        for plugin in info.rejector_plugins():
            self._metrics.unschedulable(plugin, profile, 1)
        strategy = self._strategy(info, cycle, uid)
        if self._done_first:
            active_q.done(uid)
        transfers = self._transfers
        where = transfers.requeue(info, strategy, ev.SCHEDULE_ATTEMPT_FAILURE, now)
        transfers.signal(transfers.is_poppable(where))

    def _refresh(self, info: QueuedPodInfo, uid: str) -> None:
        latest = self._places.active_q.latest(uid)
        if latest is None or latest.uid != info.uid:
            return
        info.pod_info = PodInfo(latest)
        signer = self._transfers.signer
        if signer is not None:
            info.pod_signature = signer(latest)

    def _strategy(self, info: QueuedPodInfo, cycle: int, uid: str) -> Strategy:
        """Return the urgency of the next attempt: what happened during the flight may have helped already."""
        if not self._hints.enabled:
            # Something moved while the pod was being scheduled, so do not park it.
            moved = self._moves.move_request_cycle >= cycle
            return Strategy.AFTER_BACKOFF if moved or not info.has_rejectors else Strategy.SKIP
        if not info.has_rejectors:
            return Strategy.AFTER_BACKOFF
        if self._groups and info.pod.spec.scheduling_group is not None:
            return Strategy.AFTER_BACKOFF
        try:
            entries = self._places.active_q.events_for(uid)
        except NotInFlightError:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for entry in entries:
            assert entry.event is not None
            worth = self._hints.worth_requeuing(info, entry.event, entry.old, entry.new)
            if worth == Strategy.SKIP:
                continue
            if worth == Strategy.IMMEDIATELY:
                return worth
            strategy = worth
            if not info.pending_plugins:
                return strategy
        return strategy
