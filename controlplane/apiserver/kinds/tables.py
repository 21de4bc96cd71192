"""Building a Table from objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import age
from controlplane.apiserver.kinds.conversion import to_hub
from controlplane.apiserver.kinds.core.pods.row import pod_conditions
from controlplane.apiserver.kinds.kind import Row
from controlplane.apiserver.kinds.registry import kind_of
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.schema.types import load_data

__all__ = ["plain_metadata", "table_of"]


@cache
def _columns() -> Tree:
    data = load_data("columns")
    name, *_, since = data["coordination.k8s.io/leases"]
    return {
        **data,
        "apiregistration.k8s.io/apiservices": [name, *_SERVICE_COLUMNS, since],
        "/componentstatuses": _COMPONENT_COLUMNS,
        "metrics.k8s.io/nodes": _USAGE_COLUMNS,
        "metrics.k8s.io/pods": _USAGE_COLUMNS,
    }


def _text_column(name: str) -> Tree:
    text = f"{name} of the component's health check."
    return {"name": name, "type": "string", "format": "", "description": text, "priority": 0}


_COMPONENT_COLUMNS: list[Tree] = [
    {
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": "Name of the component.",
        "priority": 0,
    },
    *(_text_column(name) for name in ("Status", "Message", "Error")),
]


_SERVICE_COLUMNS: list[Tree] = [
    {"name": name, "type": "string", "format": "", "description": text, "priority": 0}
    for name, text in (
        ("Service", "The reference to the service that hosts this API endpoint."),
        ("Available", "Whether this service is available."),
    )
]
"""Upstream: kube-aggregator pkg/registry/apiservice/etcd."""
_USAGE_COLUMNS: list[Tree] = [
    {
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": "Name of the resource",
        "priority": 0,
    },
    *(
        {"name": name, "type": "string", "format": "", "description": "", "priority": 0}
        for name in ("cpu", "memory", "Window")
    ),
]


def _columns_of(info: ResourceInfo) -> tuple[Row | None, list[Tree]]:
    """The row and the columns of a resource; those of any resource where none are known."""
    group = "" if info.resource == "events" else info.group
    found = _columns().get(f"{group}/{info.resource}")
    return (None, _columns()[""]) if found is None else (kind_of(group, info.resource).row, found)


def _shown_as(include: str, version: str) -> Callable[[Tree], Any]:
    """Return what makes of an object that which stands in its row."""
    if include == "None":
        return lambda _: None
    if include == "Object":
        return lambda tree: tree
    api_version = f"meta.k8s.io/{version}"

    def metadata(tree: Tree) -> Tree:
        shown = plain_metadata(tree["metadata"])
        return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": shown}

    return metadata


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


def _plain_row(tree: Tree) -> list[Any]:
    meta = tree["metadata"]
    return [meta.get("name", ""), meta.get("creationTimestamp")]


def _at(row: Row, now: int) -> Callable[[Tree], list[Any]]:
    return lambda tree: row(tree, now)


def _scale_row(tree: Tree, now: int) -> list[Any]:
    meta = tree["metadata"]
    return [
        meta.get("name", ""),
        tree["spec"].get("replicas", 0),
        tree["status"].get("replicas", 0),
        age(meta.get("creationTimestamp"), now),
    ]


def _foreign(info: ResourceInfo, items: list[Object]) -> list[Tree] | None:
    """The columns of what a subresource answers in a kind of its own; None for the resource's."""
    kind = items[0].tree.get("kind", info.kind) if len(items) == 1 else info.kind
    if kind == info.kind:
        return None
    if kind != "Scale":
        return list(_columns()[""])
    by_name = {column["name"]: column for column in _columns()["apps/deployments"]}
    counts = [
        {"name": name, "type": "integer", "format": "", "description": text, "priority": 0}
        for name, text in (
            ("Desired", "replicas is the desired number of instances for the scaled object."),
            (
                "Available",
                "replicas is the actual number of observed instances of the scaled object.",
            ),
        )
    ]
    return [by_name["Name"], *counts, by_name["Age"]]


def table_of(info: ResourceInfo, items: list[Object], now: int, include: str, version: str) -> Tree:
    """The Table of the objects; `include` is None, Metadata (the default) or Object."""
    shown = _foreign(info, items)
    if shown is not None:
        columns = shown
        cells = (lambda tree: _scale_row(tree, now)) if len(shown) > 2 else _plain_row
    elif info.custom is not None:
        columns, cells = info.custom.table(now)
    else:
        row_of, columns = _columns_of(info)
        cells = _plain_row if row_of is None else _at(row_of, now)
    rows: list[Tree] = []
    pods = shown is None and info.resource == "pods" and not info.group
    object_of = _shown_as(include, version)
    converted = shown is None and info.custom is None and (info.group, info.version) != info.hub
    for obj in items:
        tree = obj.tree
        inner = to_hub(info, tree) if converted else tree
        row: Tree = {"cells": cells(inner)}
        if pods and (conditions := pod_conditions(tree)):
            row["conditions"] = conditions
        row["object"] = object_of(tree if include == "Object" else inner)
        rows.append(row)
    none: list[Tree] | None = (
        None if cells is _plain_row else []
    )  # upstream's default converter begins with no list
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "columnDefinitions": columns,
        "rows": rows or none,
    }
