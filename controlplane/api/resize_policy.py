"""Whether a node lets pods be preempted for the resize of others (KEP-5836): scheduler and kubelet both ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controlplane.api.node import Node

DISABLED_ANNOTATION: Final = "emulate.controlplane/disable-resize-preemption"
"""Stands in for the field, which nodes of 1.36 do not have."""


def forbids_preemption(node: Node) -> bool:
    """Whether somebody owns the wish that nobody is preempted: spec.podPreemptionPolicy.disableResizePreemption.

    In other passages of the KEP the field is spec.preemptionPolicy.disablePodResizePreemption; either counts.
    """
    spec = node.tree.get("spec") or {}
    owners = (spec.get("podPreemptionPolicy") or {}).get("disableResizePreemption") or (
        spec.get("preemptionPolicy") or {}
    ).get("disablePodResizePreemption")
    return bool(owners or node.annotations.get(DISABLED_ANNOTATION))
