"""Statuses of PodGroups and ElasticQuotas of scheduling.x-k8s.io, as their controllers decide them.

Upstream: pkg/controllers/podgroup_controller.go and elasticquota_controller.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.quantity import Quantity, parse
from controlplane.api.times import SECOND, parse_time
from controlplane.scheduler.community.coscheduling import group_name
from controlplane.scheduler.framework.custom import Tree

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

__all__ = [
    "TOO_LATE",
    "group_expired",
    "group_status",
    "members",
    "owners",
    "quota_used",
    "same_amounts",
]

Amounts = dict[str, Quantity]

TOO_LATE: Final = ("Warning", "Timeout", "schedule time longer than 48 hours")
"""The event for a group of which nothing ran for two days."""
_TWO_DAYS: Final = 48 * 3600 * SECOND
_NO_TIME: Final = -62135596800 * SECOND
_COUNTED: Final = {"running": "Running", "succeeded": "Succeeded", "failed": "Failed"}


def members(name: str, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that the controller counts for a group: by its name, in whatever namespace."""
    return [pod for pod in pods if group_name(pod) == name]


def _time(text: Any) -> int:
    return parse_time(text) if text else _NO_TIME


def group_expired(group: Tree) -> bool:
    """Return whether a group gets the event instead of a status."""
    status = group.get("status") or {}
    if status.get("phase") not in ("Scheduling", "Pending") or status.get("running"):
        return False
    since = _time(group["metadata"].get("creationTimestamp"))
    return _time(status.get("scheduleStartTime")) - since > _TWO_DAYS


def group_status(group: Tree, pods: Sequence[Pod]) -> dict[str, Any] | None:
    """Return the status that a group should have with its pods; None where it has its last one."""
    status = dict(group.get("status") or {})
    phase, least = status.get("phase") or "", int((group.get("spec") or {}).get("minMember") or 0)
    if phase in ("Finished", "Failed"):
        return None
    if not phase:
        status["phase"] = "Pending"
    elif phase == "Pending":
        if len(pods) >= least:
            status["phase"] = "Scheduling"
            occupied = owners(pods[0]) if pods else ""
            if occupied:
                status["occupiedBy"] = occupied
    else:
        counts = {
            name: sum(pod.status.phase == of for pod in pods) for name, of in _COUNTED.items()
        }
        status.update(counts, phase=_phase(len(pods), least, **counts))
    return status


def owners(pod: Pod) -> str:
    """Return the owners of a pod as a group's status shows them."""
    references = pod.tree["metadata"].get("ownerReferences") or ()
    return ",".join(sorted(f"{pod.namespace}/{each['name']}" for each in references))


def _phase(pods: int, least: int, running: int, succeeded: int, failed: int) -> str:
    if pods < least:
        return "Pending"
    if succeeded >= least:
        return "Finished"
    if failed and failed + running + succeeded >= least:
        return "Failed"
    return "Running" if succeeded + running >= least else "Scheduling"


def quota_used(quota: Tree, pods: Sequence[Pod]) -> Amounts:
    """Return what the running pods of a namespace use of its quota.

    Init containers count with their maximum; overhead does not count, as upstream drops that sum.
    """
    spec = quota.get("spec") or {}
    names = (*(spec.get("min") or ()), *(spec.get("max") or ()))
    used: Amounts = {name: Quantity.new(0) for name in names}
    for pod in pods:
        if pod.status.phase == "Running":
            used = _sum(used, _request(pod))
    return used


def _request(pod: Pod) -> Amounts:
    total: Amounts = {}
    for container in pod.spec.containers:
        total = _sum(total, container.resources.requests)
    largest: Amounts = {}
    for container in pod.spec.init_containers:
        largest = _largest(largest, container.resources.requests)
    return _largest(total, largest)


def _sum(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    found = dict(other)
    for name, amount in one.items():
        found[name] = amount + other[name] if name in other else amount
    return found


def _largest(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    larger = {n: each for n, each in other.items() if n not in one or one[n] <= each}
    return {**one, **larger}


def same_amounts(quota: Tree, used: Amounts) -> bool:
    """Return whether a quota's status tells these amounts already, in whatever notation."""
    told = (quota.get("status") or {}).get("used") or {}
    return {name: parse(str(each)).normal() for name, each in told.items()} == {
        name: each.normal() for name, each in used.items()
    }
