"""ComponentStatuses. Upstream: pkg/registry/core/componentstatus."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import name_of
from controlplane.apiserver.kinds.kind import Kind

__all__ = ["KIND"]


def _row(tree: Tree, _now: int) -> list[Any]:
    healthy, message, error = "Unknown", "", ""
    for condition in tree.get("conditions") or ():
        if condition.get("type") == "Healthy":
            healthy = "Healthy" if condition.get("status") == "True" else "Unhealthy"
            message, error = condition.get("message", ""), condition.get("error", "")
    return [name_of(tree), healthy, message, error]


KIND = Kind(row=_row)
