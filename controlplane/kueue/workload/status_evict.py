"""Eviction and finish of a Workload.

Setters change a `status.working_copy`. Follows `pkg/workload/evict` and `pkg/workload/finish`.
"""

from __future__ import annotations

from attrs import frozen

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.kueue.workload.status import (
    BLOCKED_ON_GATES,
    EVICTED,
    FINISHED,
    condition,
    event_text,
    find,
    set_condition,
    status_of,
)

__all__ = ["Eviction", "finish", "prepare_eviction"]


@frozen
class Eviction:
    """An eviction, for the event and the metrics."""

    cluster_queue: str
    reason: str
    cause: str
    message: str
    first: bool
    """Return of the counter from 0: counted once per Workload, reason and cause."""

    @property
    def event(self) -> tuple[str, str, str]:
        """Type, reason and message of the event."""
        name = f"EvictedDueTo{self.reason}"
        if self.reason == "Deactivated" and self.cause:
            name = f"{name}DueTo{self.cause}"
        return "Normal", name, event_text(self.message)


def prepare_eviction(
    workload: Tree, reason: str, message: str, now: int, *, cause: str = ""
) -> Eviction | None:
    """Evict a Workload: the condition, checks back to Pending, gates closed, the eviction counted.

    Args:
        workload: A working copy; it keeps its quota until the pods are gone.
        reason: Reason of the eviction.
        message: Text of condition and event.
        now: Current time.
        cause: Underlying cause; part of the reason of a deactivation.

    Returns:
        The eviction to report, None for a Workload without admission.
    """
    shown = f"{reason}DueTo{cause}" if reason == "Deactivated" and cause else reason
    status = workload["status"]
    set_condition(workload, condition(workload, EVICTED, shown, message, now))
    for name in ("clusterName", "nominatedClusterNames", "unhealthyNodes"):
        status.pop(name, None)
    if status.get("admissionChecks"):
        status["admissionChecks"] = [_reset(each, now) for each in status["admissionChecks"]]
    blocked = find(workload, BLOCKED_ON_GATES)
    if blocked is not None and blocked["status"] == "True":
        new = condition(workload, BLOCKED_ON_GATES, shown, message, now, status=False)
        set_condition(workload, new)
    for gate in status.get("preemptionGates") or ():
        gate["position"] = "Closed"
        gate["lastTransitionTime"] = format_time(now)
    first = _count(workload, reason, cause)
    admission = status_of(workload).get("admission")
    if admission is None:
        return None
    return Eviction(admission["clusterQueue"], reason, cause, message, first)


def _reset(check: Tree, now: int) -> Tree:
    if check.get("state") == "Pending":
        return check
    reset = {
        "name": check["name"],
        "state": "Pending",
        "message": f"Reset to Pending after eviction. Previously: {check.get('state', '')}",
        "lastTransitionTime": format_time(now),
    }
    if check.get("requeueAfterSeconds") is not None:
        reset["requeueAfterSeconds"] = check["requeueAfterSeconds"]
    if check.get("state") == "Retry":
        reset["retryCount"] = (check.get("retryCount") or 0) + 1
    return reset


def _count(workload: Tree, reason: str, cause: str) -> bool:
    stats = workload["status"].setdefault("schedulingStats", {})
    evictions = stats.setdefault("evictions", [])
    for each in evictions:
        if each.get("reason") == reason and each.get("underlyingCause", "") == cause:
            each["count"] = (each.get("count") or 0) + 1
            return bool(each["count"] == 1)
    evictions.append({"reason": reason, "underlyingCause": cause, "count": 1})
    return True


def finish(workload: Tree, reason: str, message: str, now: int) -> bool:
    """Finish a Workload; its quota counts no more."""
    return set_condition(workload, condition(workload, FINISHED, reason, message, now))
