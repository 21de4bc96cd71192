"""Resizes that wait, and whether a node lets others be preempted for them (KEP-5836): several components ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.pod_resources import resize_pending
from controlplane.sharing.replacing import replaced

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod

DEFERRED: Final = "Deferred"
DISABLED_ANNOTATION: Final = "emulate.controlplane/disable-resize-preemption"
"""Stands in for the field, which nodes of 1.36 do not have."""


def forbids_preemption(node: Node) -> bool:
    """Return whether an owner of the node opted out of preemption: spec.podPreemptionPolicy.disableResizePreemption.

    In other passages of the KEP the field is spec.preemptionPolicy.disablePodResizePreemption; either counts.
    """
    spec = node.tree.get("spec") or {}
    owners = (spec.get("podPreemptionPolicy") or {}).get("disableResizePreemption") or (
        spec.get("preemptionPolicy") or {}
    ).get("disablePodResizePreemption")
    return bool(owners or node.annotations.get(DISABLED_ANNOTATION))


def resize_waits(pod: Pod) -> bool:
    """Return whether a pod on a node waits for room to grow. Upstream: IsPodResizeDeferred."""
    return bool(pod.spec.node_name) and resize_pending(pod, DEFERRED)


def as_promised(pod: Pod) -> Pod:
    """The pod counted by what it was promised and has, not by what it wants, if its resize waits."""
    if not resize_waits(pod):
        return pod
    conditions = tuple(
        replaced(each, reason="Infeasible") if each.type == "PodResizePending" else each
        for each in pod.status.conditions
    )
    return replaced(pod, status=replaced(pod.status, conditions=conditions))
