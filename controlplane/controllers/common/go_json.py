"""A pod template as Go's encoder writes it: the bytes of controller revisions, and so their names, depend on it.

What is empty is left out, except structs that are no pointers: `resources: {}` of a container. Keys are
sorted, as the patch of a revision is built from maps. Upstream: json.Marshal of the types in `go_types`.
"""

from __future__ import annotations

import json
from typing import Any

from controlplane.api.go_values import HTML_ESCAPES
from controlplane.api.quantity import parse
from controlplane.api.tree import Tree
from controlplane.controllers.common.go_types import structs

_KEPT = {("HTTPHeader", "value"), ("Sysctl", "value")}
"""Fields that are written though they are empty."""
_ABSENT = object()


def encoded_template(template: Tree) -> Tree:
    """The tree of a pod template as it is written; always with `metadata` and `spec`."""
    found: Tree = _struct("PodTemplateSpec", template)
    return found


def compact_json(tree: Tree) -> bytes:
    """The bytes that Go writes for a map: keys sorted, and what could end a script in HTML escaped."""
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.translate(HTML_ESCAPES).encode("utf-8", "surrogatepass")


def _struct(name: str, value: Tree | None) -> Tree:
    tree = value or {}
    found: Tree = {}
    for _, kind, key in structs()[name]:
        if not key:
            found.update(_struct(_bare(kind), tree))
            continue
        written = _field(kind, tree.get(key), kept=key in tree and (name, key) in _KEPT)
        if written is not _ABSENT:
            found[key] = written
    return found


def _bare(kind: str) -> str:
    return kind.rpartition(".")[2].lstrip("*")


def _field(kind: str, value: Any, *, kept: bool = False) -> Any:
    """Return the written form of a field of that type, or the mark of an omitted one."""
    if kind.startswith("*"):
        return _ABSENT if value is None else _value(kind[1:], value)
    if kind == "v1.Time":
        return _ABSENT
    if kind == "resource.Quantity":
        return _value(kind, "0" if value is None else value)
    if kind.startswith(("[]", "map[")) or kind == "v1.ResourceList":
        return _value(kind, value) if value else _ABSENT
    if _bare(kind) in structs():
        return _struct(_bare(kind), value)
    if kind == "intstr.IntOrString":
        return 0 if value is None else value
    return value if value or kept else _ABSENT


def _value(kind: str, value: Any) -> Any:
    if kind.startswith("[]"):
        return [_value(kind[2:], each) for each in value]
    if kind == "v1.ResourceList":
        return {name: _value("resource.Quantity", each) for name, each in value.items()}
    if kind == "resource.Quantity":
        return str(parse(str(value)))
    if _bare(kind) in structs() and kind != "v1.Time":
        return _struct(_bare(kind), value)
    return value
