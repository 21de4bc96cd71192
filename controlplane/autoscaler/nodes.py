"""Readiness of nodes, and the taints that the autoscaler sets on them.

Upstream: `utils/kubernetes/ready.go`, `utils/taints/taints.go`, `core/scaledown/actuation/delete_in_batch.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controlplane.api.constraints import Taint
from controlplane.api.node import Node, NodeCondition
from controlplane.autoscaler.options import MINUTE, SECOND
from controlplane.sharing.replacing import replaced

TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
DELETION_CANDIDATE: Final = "DeletionCandidateOfClusterAutoscaler"
NO_SCALE_DOWN: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
RESOURCE_UNREADY: Final = "cluster-autoscaler.kubernetes.io/resource-not-ready"
STARTING: Final = "cluster-autoscaler.kubernetes.io/startup-taint"
STARTUP_PREFIXES: Final = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)
"""Taints of nodes that are still being set up: something else takes them off."""
_DELETION_TAKES: Final = 5 * MINUTE
_UNREADY_TAINTS: Final = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/network-unavailable",
)
_PRESSURES: Final = ("DiskPressure", "NetworkUnavailable")


@dataclass(frozen=True, slots=True)
class Readiness:
    """The readiness of a node, and the reason of its condition where it is not."""

    ready: bool = False
    reason: str = ""


def readiness(node: Node) -> Readiness:
    """Return whether a node is ready: by conditions and by taints; without the condition Ready it is not."""
    ready, told, reason = True, False, ""
    for condition in node.status.conditions:
        if condition.type == "Ready":
            told = True
            if condition.status in ("False", "Unknown"):
                ready, reason = False, condition.reason
        elif condition.type in _PRESSURES and condition.status == "True":
            ready = False
    if any(taint.key in _UNREADY_TAINTS for taint in node.spec.taints):
        ready = False
    return Readiness(ready, reason) if told else Readiness()


def as_started(node: Node) -> Node:
    """Return a node that is not ready as long as it has a startup taint; other nodes as they are.

    Only the view of it changes: its tree stays what the server has.
    """
    if node.spec.unschedulable or not readiness(node).ready:
        return node
    if not any(taint.key.startswith(STARTUP_PREFIXES) for taint in node.spec.taints):
        return node
    unready = NodeCondition(
        type="Ready",
        status="False",
        reason=STARTING,
        last_transition_time=node.metadata.creation_timestamp,
    )
    others = tuple(each for each in node.status.conditions if each.type != "Ready")
    return replaced(node, status=replaced(node.status, conditions=(unready, *others)))


def last_transition(node: Node) -> int:
    """Return when the readiness of a node last changed, as far as conditions and taints tell; 0 for never."""
    kinds = ("Ready", *_PRESSURES)
    times = [each.last_transition_time for each in node.status.conditions if each.type in kinds] + [
        taint.time_added for taint in node.spec.taints if taint.key in _UNREADY_TAINTS
    ]
    return max((time for time in times if time is not None), default=0)


def suspended(node: Node) -> bool:
    """Return whether the provider suspended a node."""
    for condition in node.status.conditions:
        if condition.type == "Suspended":
            return condition.status == "True"
    return False


def being_deleted(node: Node, now: int) -> bool:
    """Return whether the autoscaler marked a node for deletion, lately enough for that to be under way."""
    for taint in node.spec.taints:
        if taint.key == TO_BE_DELETED:
            try:
                return now - int(taint.value) * SECOND < _DELETION_TAKES
            except ValueError:
                return False
    return False


def marked_for_deletion(node: Node) -> bool:
    """Return whether a node has the taint of a deletion."""
    return any(taint.key == TO_BE_DELETED for taint in node.spec.taints)


def keeps_out_of_scale_down(node: Node) -> bool:
    """Return whether an annotation exempts a node from scale-down."""
    return node.metadata.annotations.get(NO_SCALE_DOWN) == "true"


def with_taint(node: Node, key: str, effect: str, now: int) -> Node:
    """Return a node with one more taint that says when it was set."""
    value = str(now // SECOND)
    taints = (*node.spec.taints, Taint(key=key, value=value, effect=effect))
    spec = node.tree.get("spec") or {}
    more = {"key": key, "value": value, "effect": effect}
    tree = {**node.tree, "spec": {**spec, "taints": [*(spec.get("taints") or ()), more]}}
    return replaced(node, tree=tree, spec=replaced(node.spec, taints=taints))
