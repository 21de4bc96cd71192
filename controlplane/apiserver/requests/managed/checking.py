"""Type checks of an applied configuration, in the words of upstream's typed parser.

Upstream: structured-merge-diff, typed/validate.go and typed/helpers.go.
"""

from __future__ import annotations

import json
from typing import Any

from controlplane.api.go_values import go_syntax, go_type, go_value
from controlplane.api.tree import Tree
from controlplane.apiserver.requests.managed.fieldsets import item_keys, shown
from controlplane.apiserver.schema.types import DEDUCED, Field, Kind, StructType
from controlplane.apiserver.schema.work import spend

__all__ = ["check_types"]


def check_types(tree: Tree, struct: StructType) -> list[str]:
    """Return the errors of a configuration against the schema."""
    problems: list[str] = []
    if not _fits_struct(tree, struct):
        _check_struct(tree, struct, "", problems)
    return problems


def _fits_struct(tree: Any, struct: StructType) -> bool:
    """Return whether a configuration is valid; most are, and only error messages need paths."""
    if not isinstance(tree, dict):
        return False
    spend(len(tree))
    fields = struct.fields
    for key, value in tree.items():
        known = fields.get(key)
        if known is None:
            if not struct.open:
                return False
        elif value is not None and not _fits(value, known):
            return False
    return True


def _fits(value: Any, known: Field) -> bool:
    kind = known.kind
    if known is DEDUCED:
        return True
    if kind == Kind.STRUCT:
        return _fits_struct(value, known.struct)
    if kind == Kind.MAP:
        if not isinstance(value, dict):
            return False
        spend(2 * len(value))
        element = known.element
        if element is None:
            return True
        if element.kind == Kind.STRING:
            return all(item is None or isinstance(item, str) for item in value.values())
        return all(item is None or _fits(item, element) for item in value.values())
    if kind == Kind.LIST:
        return isinstance(value, list) and _items_fit(value, known)
    return not _scalar_problem(value, kind)


def _items_fit(value: list[Any], known: Field) -> bool:
    spend(3 * len(value))
    if known.list_type in ("map", "set"):
        keys = item_keys(known, value)
        if len(set(keys)) != len(keys):
            return False
        if any(_unnamed(item, known, key) for item, key in zip(value, keys, strict=True)):
            return False
    element = known.element
    if element is None:
        return True
    return all(item is None or _fits(item, element) for item in value)


def _check_struct(tree: Any, struct: StructType, path: str, out: list[str]) -> None:
    if not isinstance(tree, dict):
        out.append(f"{path}: expected map, got &{{{go_value(tree)}}}")
        return
    spend(len(tree) * (1 + (len(path) >> 9)))
    for key in sorted(tree):
        known = struct.fields.get(key)
        if known is None:
            if not struct.open:
                # Upstream's walk of this map ends here; it takes the keys in no order, here they are sorted.
                out.append(f"{path}.{key}: field not declared in schema")
                return
        elif tree[key] is not None:
            _check(tree[key], known, f"{path}.{key}", out)


_UNTYPED = (Kind.QUANTITY, Kind.INT_OR_STRING, Kind.TIME, Kind.MICRO_TIME)


def _check(value: Any, known: Field, path: str, out: list[str]) -> None:
    kind = known.kind
    if known is DEDUCED:
        return
    if kind == Kind.STRUCT:
        _check_struct(value, known.struct, path, out)
    elif kind == Kind.MAP:
        if not isinstance(value, dict):
            out.append(f"{path}: expected map, got &{{{go_value(value)}}}")
            return
        spend(len(value) * (1 + (len(path) >> 9)))
        for key in sorted(value):
            if value[key] is not None and known.element is not None:
                _check(value[key], known.element, f"{path}.{key}", out)
    elif kind == Kind.LIST:
        if not isinstance(value, list):
            out.append(f"{path}: expected list, got &{{{go_value(value)}}}")
            return
        _check_items(value, known, path, out)
    else:
        problem = _scalar_problem(value, kind)
        if problem:
            out.append(f"{path}: expected {problem}")


def _scalar_problem(value: Any, kind: int) -> str:
    if kind in (Kind.STRING, Kind.BYTES) and not isinstance(value, str):
        return f"string, got {_written(value)}"
    if kind in (Kind.INT, Kind.NUMBER) and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        return f"numeric (int or float), got {go_type(value)}"
    if kind == Kind.BOOL and not isinstance(value, bool):
        return f"boolean, got &{{{go_value(value)}}}"
    if kind in _UNTYPED and isinstance(value, dict | list):
        return f"any scalar, got &{{{go_value(value)}}}"
    return ""


def _written(value: Any) -> str:
    return f"&value.valueUnstructured{{Value:{go_syntax(value)}}}"


_TOLD = 10
"""Steps for an item whose path is made from its keys."""


def _check_items(value: list[Any], known: Field, path: str, out: list[str]) -> None:
    seen: dict[str, None] = {}
    spend(len(value) * (_TOLD + (len(path) >> 9)))
    keys = item_keys(known, value) if known.list_type in ("map", "set") else ()
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        if keys:
            key = keys[index]
            problem = _unnamed(item, known, key)
            if problem:
                out.append(f"{path}: element {index}: {problem}")
                return
            place = path + shown((key,))
            if key in seen:
                out.append(f"{path}: duplicate entries for key {shown((key,))}")
            seen[key] = None
        if known.element is not None and item is not None:
            _check(item, known.element, place, out)


def _unnamed(item: Any, known: Field, key: str) -> str:
    """Return why an item cannot be identified."""
    if known.list_type == "set":
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        if item is None:
            return "associative list without keys has an element that is an explicit null"
        return ""
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if key == "k:{}":
        keys = " ".join(json.dumps(key) for key in known.list_keys)
        return (
            f"associative list with keys has an element that omits all key fields [{keys}] "
            "(and doesn't have default values for any key fields)"
        )
    return ""
