"""Building a Table from objects."""

from __future__ import annotations

from functools import cache
from typing import Any

from controlplane.api.object import Object
from controlplane.apiserver.resources import ResourceInfo
from controlplane.apiserver.schema import load_data
from controlplane.apiserver.tables.pod_rows import pod_conditions, pod_row
from controlplane.apiserver.tables.rows import ROWS

__all__ = ["plain_metadata", "table_of"]

Tree = dict[str, Any]


@cache
def _columns() -> Tree:
    return load_data("columns")


def _columns_of(info: ResourceInfo) -> tuple[str, list[Tree]]:
    key = f"{info.group}/{info.resource}"
    if info.resource == "events":
        key = "/events"
    found = _columns().get(key)
    return (key, found) if found is not None else ("", _columns()[""])


def _row_object(obj: Object, include: str, version: str) -> Any:
    if include == "None":
        return None
    if include == "Object":
        return obj.tree
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}",
            "metadata": plain_metadata(obj.tree["metadata"])}  # fmt: skip


_DAEMON_SETS = "deprecated.daemonset.template.generation"


def plain_metadata(meta: Tree) -> Tree:
    """Metadata without the annotation that only whole daemon sets show."""
    annotations = meta.get("annotations")
    if not annotations or _DAEMON_SETS not in annotations:
        return meta
    kept = {key: value for key, value in annotations.items() if key != _DAEMON_SETS}
    if kept:
        return {**meta, "annotations": kept}
    return {key: value for key, value in meta.items() if key != "annotations"}


def table_of(info: ResourceInfo, items: list[Object], now: int, include: str, version: str) -> Tree:
    """The Table of the objects; `include` is None, Metadata (the default) or Object."""
    if info.custom is not None:
        columns, cells = info.custom.table(now)
    else:
        key, columns = _columns_of(info)
        if key == "/pods":
            cells = lambda tree: pod_row(tree, now)  # noqa: E731
        elif key in ROWS and (key or ""):
            cells = lambda tree: ROWS[key](tree, now)  # noqa: E731
        else:
            cells = lambda tree: [  # noqa: E731
                tree["metadata"]["name"], tree["metadata"].get("creationTimestamp")
            ]  # fmt: skip
    rows = []
    for obj in items:
        row: Tree = {"cells": cells(obj.tree)}
        if info.resource == "pods" and not info.group:
            conditions = pod_conditions(obj.tree)
            if conditions:
                row["conditions"] = conditions
        row["object"] = _row_object(obj, include, version)
        rows.append(row)
    return {"kind": "Table", "apiVersion": f"meta.k8s.io/{version}",
            "columnDefinitions": columns, "rows": rows}  # fmt: skip
