"""Conditions of a Workload: what they say, and how they are set.

A setter changes the dictionary that it is given, which must be a `working_copy`, and returns whether the
conditions changed. Times are nanoseconds since the epoch. Follows `pkg/workload/workload.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.api.times import MILLISECOND, SECOND, format_time, parse_time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import ADMISSION_GATED_BY
from controlplane.kueue.workload.domains import domains_of

__all__ = [
    "active_quota_reservation",
    "condition",
    "find",
    "has_admission_gate",
    "has_quota_reservation",
    "is_active",
    "is_admissible",
    "is_admitted",
    "is_evicted",
    "is_finished",
    "is_on_hold",
    "is_true",
    "key_of",
    "needs_second_pass",
    "queue_order_time",
    "queued_wait",
    "remove_condition",
    "set_condition",
    "set_quota_reservation",
    "state_of",
    "status_of",
    "sync_admitted",
    "total_execution_time",
    "unset_quota_reservation",
    "working_copy",
]

QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
FINISHED: Final = "Finished"
PODS_READY: Final = "PodsReady"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
BLOCKED_ON_GATES: Final = "BlockedOnPreemptionGates"
WAITING_FOR_REPLACEMENTS: Final = "WaitingForReplacementPods"

PENDING_STATE: Final = "pending"
RESERVED_STATE: Final = "quotaReserved"
ADMITTED_STATE: Final = "admitted"
FINISHED_STATE: Final = "finished"

_CONDITION_BYTES: Final = 32 * 1024
_EVENT_BYTES: Final = 1024


def condition_text(message: str) -> str:
    """The message of a condition, cut to 32 KiB."""
    return _cut(message, _CONDITION_BYTES)


def event_text(message: str) -> str:
    """The message of an event, cut to 1 KiB."""
    return _cut(message, _EVENT_BYTES)


def _cut(message: str, limit: int) -> str:
    data = message.encode()
    if len(data) <= limit:
        return message
    return data[: limit - 4].decode(errors="ignore") + " ..."


# -- reading ---------------------------------------------------------------------------------------


def status_of(workload: Tree) -> Tree:
    """The status, empty when absent."""
    return workload.get("status") or EMPTY_MAP


def key_of(workload: Tree) -> str:
    """`namespace/name`, by which queues and the cache know a Workload."""
    metadata = workload["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def find(workload: Tree, kind: str) -> Tree | None:
    """The condition of a type, None when there is none."""
    for each in status_of(workload).get("conditions") or ():
        if each["type"] == kind:
            found: Tree = each
            return found
    return None


def is_true(workload: Tree, kind: str) -> bool:
    """Return whether a condition is True."""
    found = find(workload, kind)
    return found is not None and found["status"] == "True"


def is_active(workload: Tree) -> bool:
    """Return whether the Workload may run: `spec.active`, true when absent."""
    return (workload.get("spec") or EMPTY_MAP).get("active") is not False


def is_admitted(workload: Tree) -> bool:
    """Return whether the Workload is admitted."""
    return is_true(workload, ADMITTED)


def is_evicted(workload: Tree) -> bool:
    """Return whether the Workload is evicted (it may still hold its quota)."""
    return is_true(workload, EVICTED)


def is_finished(workload: Tree) -> bool:
    """Return whether the Workload is finished."""
    return is_true(workload, FINISHED)


def has_quota_reservation(workload: Tree) -> bool:
    """Return whether the Workload holds quota."""
    return is_true(workload, QUOTA_RESERVED)


def active_quota_reservation(workload: Tree) -> bool:
    """Return whether the quota of the Workload counts as used."""
    return has_quota_reservation(workload) and not is_finished(workload) and is_active(workload)


def is_on_hold(workload: Tree) -> bool:
    """Return whether the job integration keeps the Workload out of the queue."""
    found = find(workload, QUOTA_RESERVED)
    return found is not None and found["status"] == "False" and found.get("reason") == "OnHold"


def has_admission_gate(workload: Tree, gates: Gates) -> bool:
    """Return whether the annotation `admission-gated-by` names a controller."""
    annotations = workload["metadata"].get("annotations") or EMPTY_MAP
    return bool(annotations.get(ADMISSION_GATED_BY)) and gates.enabled("AdmissionGatedBy")


def is_admissible(workload: Tree, gates: Gates) -> bool:
    """Return whether the Workload belongs into the queue."""
    return not (
        has_admission_gate(workload, gates)
        or is_finished(workload)
        or not is_active(workload)
        or has_quota_reservation(workload)
        or is_on_hold(workload)
        or is_true(workload, WAITING_FOR_REPLACEMENTS)
    )


def state_of(workload: Tree) -> str:
    """The stage of life: pending, quotaReserved, admitted or finished."""
    for kind, state in (
        (FINISHED, FINISHED_STATE),
        (ADMITTED, ADMITTED_STATE),
        (QUOTA_RESERVED, RESERVED_STATE),
    ):
        if is_true(workload, kind):
            return state
    return PENDING_STATE


def lost_its_quota(old_state: str, new_state: str) -> bool:
    """Return whether a Workload went from reserved or admitted back to pending."""
    return old_state in {RESERVED_STATE, ADMITTED_STATE} and new_state == PENDING_STATE


def evicted_with(workload: Tree, reason: str) -> Tree | None:
    """The condition Evicted if it is True with exactly this reason."""
    found = find(workload, EVICTED)
    if found is None or found["status"] != "True" or found.get("reason") != reason:
        return None
    return found


def is_evicted_by_deactivation(workload: Tree) -> bool:
    """Return whether the Workload was evicted because it was deactivated."""
    return is_evicted(workload) and _evicted_reason(workload).startswith("Deactivated")


def is_evicted_by_kueue_deactivation(workload: Tree) -> bool:
    """Return whether Kueue itself deactivated the evicted Workload."""
    return is_evicted(workload) and _evicted_reason(workload).startswith("DeactivatedDueTo")


def _evicted_reason(workload: Tree) -> str:
    reason: str = (find(workload, EVICTED) or EMPTY_MAP).get("reason", "")
    return reason


def has_pending_topology(workload: Tree) -> bool:
    """Return whether a pod set waits for its delayed topology assignment."""
    return any(
        each.get("topologyAssignment") is None and each.get("delayedTopologyRequest") == "Pending"
        for each in _assignments(workload)
    )


def _assignments(workload: Tree) -> list[Tree]:
    admission = status_of(workload).get("admission") or EMPTY_MAP
    return admission.get("podSetAssignments") or []


def _uses_unhealthy_node(workload: Tree) -> bool:
    unhealthy = {each["name"] for each in status_of(workload).get("unhealthyNodes") or ()}
    if not unhealthy or not is_admitted(workload):
        return False
    return any(
        values[-1] in unhealthy
        for each in _assignments(workload)
        if each.get("topologyAssignment") is not None
        for values, _ in domains_of(each["topologyAssignment"])
    )


def all_checks_ready(workload: Tree) -> bool:
    """Return whether every admission check in the status is Ready."""
    return all(
        each.get("state") == "Ready" for each in status_of(workload).get("admissionChecks") or ()
    )


def needs_second_pass(workload: Tree) -> bool:
    """Return whether the scheduler must place the Workload, which holds quota, once more."""
    if (
        is_finished(workload)
        or is_evicted(workload)
        or not has_quota_reservation(workload)
        or is_on_hold(workload)
    ):
        return False
    delayed = (
        bool(status_of(workload).get("admissionChecks"))
        and all_checks_ready(workload)
        and has_pending_topology(workload)
        and not is_admitted(workload)
    )
    return delayed or _uses_unhealthy_node(workload)


def time_of(found: Mapping[str, Any]) -> int:
    """The last transition of a condition, 0 when it has none."""
    text = found.get("lastTransitionTime")
    return parse_time(text) if text else 0


def created_at(workload: Tree) -> int:
    """Creation time, 0 when absent."""
    text = workload["metadata"].get("creationTimestamp")
    return parse_time(text) if text else 0


def queue_order_time(workload: Tree, gates: Gates, *, by_eviction: bool = True) -> int:
    """The time by which a Workload is ordered in its queue.

    Args:
        workload: The Workload.
        gates: Feature gates.
        by_eviction: A Workload evicted by the PodsReady timeout goes by the time of its eviction
            (`requeuingStrategy.timestamp: Eviction`).
    """
    if by_eviction and (found := evicted_with(workload, "PodsReadyTimeout")) is not None:
        return time_of(found)
    if (found := evicted_with(workload, "AdmissionCheck")) is not None:
        return time_of(found)
    if not gates.enabled("PrioritySortingWithinCohort"):
        preempted = find(workload, PREEMPTED)
        if (
            preempted is not None
            and preempted["status"] == "True"
            and preempted.get("reason") == "InCohortReclaimWhileBorrowing"
        ):
            return time_of(preempted) + MILLISECOND
    return created_at(workload)


def queued_wait(workload: Tree, now: int) -> int:
    """Nanoseconds since the Workload was queued: since Requeued changed, else since its creation."""
    requeued = find(workload, REQUEUED)
    return now - (created_at(workload) if requeued is None else time_of(requeued))


def total_execution_time(workload: Tree) -> int | None:
    """Nanoseconds that a finished Workload was admitted, over all admissions; None if it does not apply."""
    admitted, finished = find(workload, ADMITTED), find(workload, FINISHED)
    if admitted is None or finished is None:
        return None
    if admitted["status"] != "True" or finished["status"] != "True":
        return None
    past = status_of(workload).get("accumulatedPastExecutionTimeSeconds") or 0
    return past * SECOND + time_of(finished) - time_of(admitted)


# -- writing ---------------------------------------------------------------------------------------


def working_copy(workload: Tree) -> Tree:
    """A Workload whose status may be changed by the setters; everything else is shared."""
    status = dict(status_of(workload))
    for name in ("conditions", "admissionChecks", "preemptionGates"):
        if status.get(name) is not None:
            status[name] = [dict(each) for each in status[name]]
    if status.get("requeueState") is not None:
        status["requeueState"] = dict(status["requeueState"])
    if status.get("schedulingStats") is not None:
        stats = dict(status["schedulingStats"])
        stats["evictions"] = [dict(each) for each in stats.get("evictions") or ()]
        status["schedulingStats"] = stats
    return {**workload, "status": status}


def condition(
    workload: Tree, kind: str, reason: str, message: str, now: int, *, status: bool = True
) -> Tree:
    """A condition of this generation of the Workload."""
    made: Tree = {
        "type": kind,
        "status": "True" if status else "False",
        "reason": reason,
        "message": condition_text(message),
        "lastTransitionTime": format_time(now),
    }
    if generation := workload["metadata"].get("generation"):
        made["observedGeneration"] = generation
    return made


def set_condition(workload: Tree, new: Tree) -> bool:
    """Set a condition; its time changes only with its status (`meta.SetStatusCondition`)."""
    conditions = workload["status"].setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old["type"] != new["type"]:
            continue
        merged = dict(new)
        if old["status"] == new["status"]:
            merged["lastTransitionTime"] = old.get("lastTransitionTime")
            if merged["lastTransitionTime"] is None:
                del merged["lastTransitionTime"]
        if merged == old:
            return False
        conditions[index] = merged
        return True
    conditions.append(new)
    return True


def remove_condition(workload: Tree, kind: str) -> bool:
    """Remove a condition."""
    old = workload["status"].get("conditions") or []
    kept = [each for each in old if each["type"] != kind]
    if len(kept) == len(old):
        return False
    workload["status"]["conditions"] = kept
    return True


def set_quota_reservation(workload: Tree, admission: Tree, now: int) -> bool:
    """Reserve quota: the admission, QuotaReserved=True, and the conditions that it ends."""
    workload["status"]["admission"] = admission
    text = f"Quota reserved in ClusterQueue {admission['clusterQueue']}"
    changed = set_condition(
        workload, condition(workload, QUOTA_RESERVED, QUOTA_RESERVED, text, now)
    )
    for kind in (EVICTED, PREEMPTED, BLOCKED_ON_GATES):
        old = find(workload, kind)
        if old is not None and old["status"] == "True":
            text = f"Previously: {old.get('message', '')}"
            new = condition(workload, kind, QUOTA_RESERVED, text, now, status=False)
            changed = set_condition(workload, new) or changed
    return changed


def unset_quota_reservation(
    workload: Tree, reason: str, message: str, now: int, gates: Gates
) -> bool:
    """Release quota: no admission, QuotaReserved=False, and Admitted in step."""
    new = condition(workload, QUOTA_RESERVED, reason, message, now, status=False)
    changed = set_condition(workload, new)
    if workload["status"].pop("admission", None) is not None:
        changed = True
    return sync_admitted(workload, now, gates) or changed


def sync_admitted(workload: Tree, now: int, gates: Gates) -> bool:
    """Set Admitted by quota, checks and topology; time spent admitted is added up when it ends."""
    reserved, ready = has_quota_reservation(workload), all_checks_ready(workload)
    placed = not has_pending_topology(workload)
    old = find(workload, ADMITTED)
    admitted = is_admitted(workload)
    observed = gates.enabled("UnadmittedWorkloadsObservability")
    if observed:
        untouched = old is None and find(workload, QUOTA_RESERVED) is None
        if untouched and not gates.enabled("UnadmittedWorkloadsExplicitStatus"):
            return False
    elif admitted == (reserved and ready and placed):
        return False
    reason, text = _admitted_reason(reserved, ready, placed, observed)
    now_admitted = reason == ADMITTED
    if admitted and not now_admitted and old is not None:
        status = workload["status"]
        past = status.get("accumulatedPastExecutionTimeSeconds") or 0
        status["accumulatedPastExecutionTimeSeconds"] = past + _whole_seconds(now - time_of(old))
    return set_condition(
        workload, condition(workload, ADMITTED, reason, text, now, status=now_admitted)
    )


def _admitted_reason(reserved: bool, ready: bool, placed: bool, observed: bool) -> tuple[str, str]:
    if not reserved:
        if not ready and not observed:
            return (
                "NoReservationUnsatisfiedChecks",
                "The workload has no reservation and not all checks ready",
            )
        return "NoReservation", "The workload has no reservation"
    if not ready:
        return (
            "UnsatisfiedAdmissionChecks" if observed else "UnsatisfiedChecks",
            "The workload has not all checks ready",
        )
    if not placed:
        return "PendingDelayedTopologyRequests", "There are pending delayed topology requests"
    return ADMITTED, "The workload is admitted"


def _whole_seconds(duration: int) -> int:
    """Seconds of a duration, cut toward zero."""
    return duration // SECOND if duration >= 0 else -(-duration // SECOND)


def set_requeued(workload: Tree, reason: str, message: str, now: int, *, status: bool) -> bool:
    """Set Requeued; False keeps the Workload out of the queue."""
    return set_condition(
        workload, condition(workload, REQUEUED, reason, message, now, status=status)
    )


def set_preempted(workload: Tree, reason: str, message: str, now: int) -> bool:
    """Set Preempted=True; this condition carries no observed generation."""
    new = condition(workload, PREEMPTED, reason, message, now)
    new.pop("observedGeneration", None)
    return set_condition(workload, new)


def set_deactivation_target(workload: Tree, reason: str, message: str, now: int) -> bool:
    """Ask for deactivation: the workload controller sets `spec.active` to false."""
    return set_condition(workload, condition(workload, DEACTIVATION_TARGET, reason, message, now))


def set_blocked_on_gates(workload: Tree, reason: str, message: str, now: int) -> bool:
    """Set BlockedOnPreemptionGates=True."""
    return set_condition(workload, condition(workload, BLOCKED_ON_GATES, reason, message, now))


def has_closed_preemption_gate(workload: Tree) -> bool:
    """Return whether a preemption gate of the spec is closed; one without a state is."""
    positions = {
        each["name"]: each.get("position")
        for each in status_of(workload).get("preemptionGates") or ()
    }
    return any(
        positions.get(each["name"], "Closed") == "Closed"
        for each in workload["spec"].get("preemptionGates") or ()
    )
