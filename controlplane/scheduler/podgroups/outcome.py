"""The outcome of a group's cycle for its members, and the conditions of its PodGroup.

Upstream: `submitPodGroupAlgorithmResult` and `updatePodGroupCondition` of `pkg/scheduler/schedule_one_podgroup.go`,
`PatchPodGroupStatus` of `pkg/scheduler/util/utils.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import format_time
from controlplane.scheduler.cycle.attempt import Attempt, Failure, SchedulingError
from controlplane.scheduler.framework.interface import Code
from controlplane.scheduler.framework.nominating import CLEAR_NOMINATION, NominatingInfo
from controlplane.scheduler.podgroups.model import (
    UNSCHEDULABLE,
    Group,
    GroupResult,
    GroupStatus,
    Member,
)

if TYPE_CHECKING:
    from controlplane.api.scheduling import PodGroup

SCHEDULED: Final = "PodGroupScheduled"
_FIELDS = ("status", "observedGeneration", "lastTransitionTime", "reason", "message")


def attempts(group: Group, result: GroupResult) -> list[Attempt]:
    """The attempt of every member: it has a failure to be handled, or is to be bound.

    Those whose own trial says otherwise than the verdict on the group are given the latter.
    """
    found: list[Attempt] = []
    for at, info in enumerate(group.infos):
        if at < len(result.members):
            member = result.members[at]
        else:
            assert result.status is not None
            member = Member(group.attempt(info, 0))
            member.attempt.failure = _failure(result.status, None)
        attempt = member.attempt
        attempt.info = info
        attempt.failure = _outcome(member, result)
        found.append(attempt)
    return found


def _outcome(member: Member, result: GroupResult) -> Failure | None:
    """Return the failure to handle; None: the member is to be bound."""
    own, status = member.attempt.failure, result.status
    if status is not None and status.code == Code.ERROR:
        if own is not None and own.code == Code.ERROR:
            return Failure(own.code, own.err, CLEAR_NOMINATION)
        return _failure(status, CLEAR_NOMINATION)
    if own is None:
        if status is None:
            return None
        if result.awaits_preemption:
            override = NominatingInfo(override=True, nominated_node_name=member.node_name)
            return _failure(status, override)
        return _not_permitted(member)
    if member.needs_preemption and not result.awaits_preemption:
        return _not_permitted(member)
    return own


def _not_permitted(member: Member) -> Failure:
    """The group is refused although this member has, or would get, a node."""
    said = "" if member.permit is None else member.permit.message
    return _failure(GroupStatus(Code.UNSCHEDULABLE, UNSCHEDULABLE, (said,)), CLEAR_NOMINATION)


def _failure(status: GroupStatus, nominating: NominatingInfo | None) -> Failure:
    return Failure(status.code, SchedulingError(status.message), nominating)


def condition(result: GroupResult) -> dict[str, str]:
    """The condition that tells of the verdict."""
    status = result.status
    if status is None:
        told = {"status": "True", "reason": "Scheduled", "message": ""}
    elif status.is_rejected:
        told = {"status": "False", "reason": "Unschedulable", "message": status.message}
    else:
        told = {"status": "False", "reason": "SchedulerError", "message": status.error}
    return {"type": SCHEDULED, **told}


def status_patch(group: PodGroup, wanted: dict[str, str], now: int) -> dict[str, Any] | None:
    """The strategic merge patch that writes the condition; None when there is nothing to write.

    A group that was scheduled once stays so, whatever later cycles for further pods come to.
    """
    listed = (group.tree.get("status") or {}).get("conditions") or []
    kind = wanted["type"]
    old = next((each for each in listed if each.get("type") == kind), None)
    if old is not None and old.get("status") == "True" and wanted["status"] != "True":
        return None
    new: dict[str, Any] = {**wanted}
    if group.metadata.generation:
        new["observedGeneration"] = group.metadata.generation
    order = [{"type": each.get("type", "")} for each in listed]
    if old is None:
        new["lastTransitionTime"] = format_time(now)
        change: dict[str, Any] = {"conditions": [new]}
        if listed:
            change["$setElementOrder/conditions"] = [*order, {"type": kind}]
        return {"status": change}
    if old.get("status") != new["status"]:
        new["lastTransitionTime"] = format_time(now)
    changed = {
        field: new[field] for field in _FIELDS if field in new and old.get(field) != new[field]
    }
    if not changed:
        return None
    entry = {"type": kind, **changed}
    return {"status": {"$setElementOrder/conditions": order, "conditions": [entry]}}
