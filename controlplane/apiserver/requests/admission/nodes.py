"""TaintNodesByCondition: a new node is not ready. Upstream: plugin/pkg/admission/nodetaint."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context

__all__ = ["taint_by_condition"]

_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def taint_by_condition(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """Add the not-ready taint to a node that is created."""
    if old is not None or ctx.request.subresource:
        return tree
    spec = tree.get("spec") or {}
    taints = spec.get("taints", [])
    if any(t["key"] == _NOT_READY["key"] and t["effect"] == _NOT_READY["effect"] for t in taints):
        return tree
    return {**tree, "spec": {**spec, "taints": [*taints, _NOT_READY]}}
