"""Usage of nodes and pods, which no object stores. Upstream: metrics-server."""

from __future__ import annotations

from typing import Any

from controlplane.api import usage
from controlplane.api.quantity import parse
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import name_of
from controlplane.apiserver.kinds.kind import Kind

__all__ = ["KIND"]


def _row(tree: Tree, _now: int) -> list[Any]:
    parts = [tree["usage"]] if "usage" in tree else [each["usage"] for each in tree["containers"]]
    total = {
        name: sum(parse(part[name]).milli_value() for part in parts if name in part)
        for name in usage.MEASURED
    }
    shown = usage.written(total)
    return [name_of(tree), *(shown[name] for name in usage.MEASURED), tree["window"]]


KIND = Kind(row=_row)
