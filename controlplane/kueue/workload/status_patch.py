"""Status of a Workload as Kueue applies it: one body for everything that `kueue-admission` owns.

Follows `pkg/workload/patching`.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.tree import Tree
from controlplane.kueue.names import API_VERSION
from controlplane.kueue.workload.status import (
    ADMITTED,
    BLOCKED_ON_GATES,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    PODS_READY,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    status_of,
)

__all__ = ["admission_patch", "base_patch", "replace_owned"]

MANAGED_CONDITIONS: Final = (
    QUOTA_RESERVED,
    BLOCKED_ON_GATES,
    EVICTED,
    ADMITTED,
    PREEMPTED,
    REQUEUED,
    DEACTIVATION_TARGET,
    FINISHED,
    PODS_READY,
)
_PLAIN_FIELDS: Final = (
    "accumulatedPastExecutionTimeSeconds",
    "clusterName",
    "nominatedClusterNames",
    "unhealthyNodes",
    "preemptionGates",
)
_OWNED_FIELDS: Final = (
    "admission",
    "requeueState",
    "resourceRequests",
    "admissionChecks",
    "schedulingStats",
    *_PLAIN_FIELDS,
)


def base_patch(workload: Tree, *, strict: bool) -> Tree:
    """The body of an apply request without a status.

    Args:
        workload: The Workload as last seen.
        strict: Carry the resource version, so that any change in between is a conflict.
    """
    metadata = workload["metadata"]
    kept = ("uid", "name", "namespace", "generation", "annotations", "labels")
    names = (*kept, "resourceVersion") if strict else kept
    return {
        "apiVersion": workload.get("apiVersion") or API_VERSION,
        "kind": workload.get("kind") or "Workload",
        "metadata": {name: metadata[name] for name in names if metadata.get(name)},
    }


def admission_patch(workload: Tree, *, strict: bool = True) -> Tree:
    """The body of an apply request by `kueue-admission` with the status of a Workload."""
    return {**base_patch(workload, strict=strict), "status": owned_status(workload)}


def owned_status(workload: Tree) -> Tree:
    """The part of the status that `kueue-admission` owns; resource requests give way to an admission."""
    status = status_of(workload)
    owned: Tree = {}
    if status.get("admission") is not None:
        owned["admission"] = status["admission"]
    elif status.get("resourceRequests"):
        owned["resourceRequests"] = status["resourceRequests"]
    requeue = status.get("requeueState") or {}
    if requeue.get("count") is not None or requeue.get("requeueAt") is not None:
        owned["requeueState"] = requeue
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    owned["conditions"] = [conditions[kind] for kind in MANAGED_CONDITIONS if kind in conditions]
    if status.get("schedulingStats") is not None:
        owned["schedulingStats"] = status["schedulingStats"]
    if status.get("admissionChecks") is not None:
        owned["admissionChecks"] = status["admissionChecks"]
    for name in _PLAIN_FIELDS:
        if status.get(name) is not None:
            owned[name] = status[name]
    return owned


def replace_owned(stored: Tree, owned: Tree) -> Tree:
    """The status after `owned` was applied: owned fields and conditions are replaced, others stay.

    A server with managed fields comes to the same; this is for those without.
    """
    kept = {name: value for name, value in stored.items() if name not in _OWNED_FIELDS}
    others = [
        each for each in stored.get("conditions") or () if each["type"] not in MANAGED_CONDITIONS
    ]
    merged = {**kept, **owned, "conditions": [*owned.get("conditions", ()), *others]}
    return {name: value for name, value in merged.items() if value not in ([], {}, None)}
