"""Handling of a pod whose attempt failed.

Upstream: `handleSchedulingFailure` of `pkg/scheduler/schedule_one.go`. The steps are separate
because an actor may be interrupted between any two of them:

    record(attempt)                          rejectors, metrics
    cached = lister.get(...)                 the actor reads its informer
    verdict = judge(attempt, cached, gates)  what to do with the pod
    requeue(verdict, ...)                    puts it back and ends its flight
    nominate(...)                            from here on the pod may already be popped again
    report(...)                              event and status patch
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import attrs

from controlplane.api.resize_policy import resize_waits
from controlplane.decisions import Steps, at_once
from controlplane.scheduler.cycle.attempt import Attempt, Failure
from controlplane.scheduler.framework.api_calls import StatusPatchCall
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.framework.writes import EventIntent, StatusPatch
from controlplane.scheduler.queue.failed_attempts import AlreadyQueuedError
from controlplane.scheduler.queue.scheduling_queue import PriorityQueue
from controlplane.scheduler.state.pod_info import PodInfo

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.gates import FixGates

REASON_UNSCHEDULABLE = "Unschedulable"
REASON_SCHEDULER_ERROR = "SchedulerError"
MAX_EVENT_NOTE = 1024
_CUT = " ..."

DELETED_LOG = "Pod doesn't exist in informer cache"
ASSIGNED_LOG = "Pod has been assigned to node. Abort adding it back to queue."
RECREATED_LOG = (
    "Pod was recreated while handling scheduling failure. Skip requeueing and status updates."
)

GATE_RECREATED_POD = "138324"
NO_STAND_IN = "no-stand-in"
"""The form of 138324 in which preemption, too, takes no recreated pod for the one that failed (D2)."""


class Outcome(Enum):
    """The action of the failure handler for a pod."""

    REQUEUE = "requeue"
    DELETED = "deleted"
    ASSIGNED = "assigned"
    RECREATED = "recreated"


@attrs.frozen
class Verdict:
    """The outcome, what to log, and whose flight has to end."""

    outcome: Outcome
    log: str
    in_flight_uid: str
    """UID whose flight the requeueing ends; "" means that of the object put into the queue."""
    cached: Pod | None = None
    silent: bool = False
    """Report nothing: a resize that waits there has neither event nor condition (KEP-5836)."""

    @property
    def reports(self) -> bool:
        """Return whether nomination, event and status patch follow."""
        return self.outcome is not Outcome.RECREATED and not self.silent


def record(info: QueuedPodInfo, failure: Failure) -> str:
    """Record the plugins that rejected the pod; return the reason for the PodScheduled condition."""
    info.unschedulable_plugins = {}
    info.pending_plugins = {}
    fit = failure.fit_error
    if fit is not None:
        info.unschedulable_plugins = dict(fit.diagnosis.unschedulable_plugins)
        info.pending_plugins = dict(fit.diagnosis.pending_plugins)
    return REASON_UNSCHEDULABLE if failure.is_rejected else REASON_SCHEDULER_ERROR


def judge(
    info: QueuedPodInfo, cached: Pod | None, gates: FixGates, *, resizes: bool = False
) -> Verdict:
    """Decide from what the informer has now under the pod's name: its view, or None.

    Gate 138324. Unfixed, a recreated pod is taken for the one that failed: the new object enters
    the queue and Done is called with the new UID, so that the old one stays in flight for ever
    and every later event is kept for it. As merged ("early-return") the handler stops and ends
    the flight of the popped UID. In its first form ("uid-threading") it goes on with the new
    object, but hints and Done use the popped UID.

    Gate 96582 (issues 96579, 101877). A bind call may succeed although its answer was lost. Unfixed,
    the bound pod is queued again and can never be assumed, for ever. Fixed, it is left alone when
    the informer shows its node.

    With `resizes` (KEP-5836) a pod on a node whose resize waits goes back like any other, in silence.
    """
    if cached is None:
        return Verdict(Outcome.DELETED, DELETED_LOG, info.uid)
    silent = resizes and resize_waits(cached)
    if cached.spec.node_name and not silent and gates.fixed("96582"):
        return Verdict(Outcome.ASSIGNED, ASSIGNED_LOG, info.uid)
    variant = gates.variant(GATE_RECREATED_POD)
    if cached.uid != info.uid and variant in ("early-return", NO_STAND_IN):
        return Verdict(Outcome.RECREATED, RECREATED_LOG, info.uid)
    uid = info.uid if variant == "uid-threading" else ""
    return Verdict(Outcome.REQUEUE, "", uid, cached, silent)


def requeue(queue: PriorityQueue, info: QueuedPodInfo, verdict: Verdict, now: int) -> Steps[str]:
    """Put the pod back (with the object the informer has), or just end its flight.

    Answers an error text to log, "" when all went well.
    """
    if verdict.cached is None:
        queue.done(info.uid)
        return ""
    info.pod_info = PodInfo(verdict.cached)
    uid = verdict.in_flight_uid or None
    try:
        yield from queue.add_unschedulable_if_not_present(
            info, queue.scheduling_cycle, now, in_flight_uid=uid
        )
    except AlreadyQueuedError as already:
        return str(already)
    return ""


def nominate(
    queue: PriorityQueue,
    info: QueuedPodInfo,
    nominating: NominatingInfo | None,
    gates: FixGates,
) -> None:
    """Record in memory where the pod is expected now.

    Gate 72259 (issue 72124). Unfixed, only the API server is updated, and until the update has come
    back the room that is being made for the pod looks free to others. Fixed, the nomination counts
    from here on.
    """
    if nominating is not None and nominating.override and not gates.fixed("72259"):
        return
    queue.add_nominated_pod(info.pod, nominating)


@attrs.frozen
class Report:
    """Writes to the API server: an event and, if anything changed, a status patch."""

    event: EventIntent
    call: StatusPatchCall
    now: int

    @property
    def patch(self) -> StatusPatch | None:
        """Return the patch that the call sends."""
        return self.call.patch(self.now)


def report(pod: Pod, failure: Failure, reason: str, now: int) -> Report:
    """The event and patch about `pod`, the object whose cycle failed."""
    event = EventIntent(
        pod, "Warning", "FailedScheduling", "Scheduling", truncate_note(failure.message)
    )
    call = status_call(pod, reason, failure.message, failure.nominating)
    return Report(event, call, now)


def truncate_note(message: str) -> str:
    """Cut a message to what an Event's note can hold (bytes)."""
    data = message.encode()
    if len(data) <= MAX_EVENT_NOTE:
        return message
    return data[: MAX_EVENT_NOTE - len(_CUT)].decode(errors="ignore") + _CUT


def status_call(
    pod: Pod, reason: str, message: str, nominating: NominatingInfo | None
) -> StatusPatchCall:
    """The call that sets PodScheduled=False and the nomination."""
    wanted = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return StatusPatchCall(pod, wanted, nominating)


def handle(
    queue: PriorityQueue, attempt: Attempt, cached: Pod | None, gates: FixGates, now: int
) -> tuple[Verdict, Report | None]:
    """All steps at once, for drivers without points between them."""
    failure = attempt.failure
    assert failure is not None
    info, pod = attempt.info, attempt.pod
    reason = record(info, failure)
    verdict = judge(info, cached, gates)
    at_once(requeue(queue, info, verdict, now))
    if not verdict.reports:
        return verdict, None
    nominate(queue, info, failure.nominating, gates)
    return verdict, report(pod, failure, reason, now)
