"""Merging an applied configuration into an object, and taking out what it gave up."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.requests.managed.fieldsets import Path, Paths, _granular, item_key
from controlplane.apiserver.schema.types import Field, Kind, StructType

__all__ = ["ApplyTypeError", "check_types", "merged", "without"]


class ApplyTypeError(ValueError):
    """The configuration does not fit the schema."""


def merged(live: Tree, config: Tree, struct: StructType) -> Tree:
    """The object with the configuration merged in, by the schema's list keys."""
    out = dict(live)
    for key, value in config.items():
        known = struct.fields.get(key)
        if value is None:
            out.pop(key, None)
        elif key in live and live[key] is not None and known is not None and _granular(known):
            out[key] = _merged_value(live[key], value, known)
        else:
            out[key] = value
    return out


def _merged_value(live: Any, config: Any, known: Field) -> Any:
    if known.kind == Kind.STRUCT:
        return merged(live, config, known.struct)
    if known.kind == Kind.MAP:
        out = dict(live)
        for key, value in config.items():
            if known.element is not None and _granular(known.element) and key in live:
                out[key] = _merged_value(live[key], value, known.element)
            else:
                out[key] = value
        return out
    return _merged_list(live, config, known)


def _merged_list(live: list[Any], config: list[Any], known: Field) -> list[Any]:
    """Items of both; the configuration's order rules, the others keep their places."""
    theirs = {item_key(known, item): item for item in config}
    ours = {item_key(known, item): item for item in live}
    left, right = list(ours), list(theirs)
    shared = [key for key in right if key in ours]
    upcoming = shared.pop(0) if shared else None
    done: dict[str, None] = {}
    out: list[Any] = []

    def take(key: str) -> None:
        a, b = ours.get(key), theirs.get(key)
        element = known.element
        if b is None:
            out.append(a)
        elif a is None or element is None or element.kind != Kind.STRUCT:
            out.append(b)
        else:
            out.append(merged(a, b, element.struct))

    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right):
            key = left[i]
            if key == right[j]:
                done[key] = None
                take(key)
                i += 1
                j += 1
                upcoming = shared.pop(0) if shared else None
                continue
            if key in theirs and upcoming is not None and upcoming != key:
                i += 1
                continue
        if i < len(left):
            key = left[i]
            if key not in theirs:
                take(key)
                i += 1
                continue
            if key in done:
                i += 1
        if j < len(right):
            key = right[j]
            done[key] = None
            take(key)
            j += 1
            if upcoming == key:
                upcoming = shared.pop(0) if shared else None
    return out


def without(tree: Tree, struct: StructType, gone: Paths, kept: Paths) -> Tree:
    """The object less the paths in `gone`, except where something in `kept` lies at or below."""
    prefixes = frozenset(path[:n] for path in kept for n in range(1, len(path) + 1))
    return _without_struct(tree, struct, (), gone, prefixes)


def _without_struct(
    tree: Tree, struct: StructType, path: Path, gone: Paths, prefixes: Paths
) -> Tree:
    out: Tree = {}
    for key, value in tree.items():
        place = (*path, f"f:{key}")
        if place in gone and place not in prefixes:
            continue
        known = struct.fields.get(key)
        if known is not None and value is not None and _granular(known):
            left = _without_value(value, known, place, gone, prefixes)
            if value and not left:  # what loses its last part goes with it
                continue
            value = left
        out[key] = value
    return out


def _without_value(value: Any, known: Field, path: Path, gone: Paths, prefixes: Paths) -> Any:
    if known.kind == Kind.STRUCT:
        return _without_struct(value, known.struct, path, gone, prefixes)
    element = known.element
    if known.kind == Kind.MAP:
        out: Tree = {}
        for key, item in value.items():
            place = (*path, f"f:{key}")
            if place in gone and place not in prefixes:
                continue
            if element is not None and _granular(element) and item is not None:
                item = _without_value(item, element, place, gone, prefixes)
            out[key] = item
        return out
    kept = []
    for item in value:
        place = (*path, item_key(known, item))
        if place in gone and place not in prefixes:
            continue
        if element is not None and element.kind == Kind.STRUCT:
            item = _without_struct(item, element.struct, place, gone, prefixes)
        kept.append(item)
    return kept


# -- types ---------------------------------------------------------------------------------------


def check_types(tree: Tree, struct: StructType) -> list[str]:
    """What in a configuration does not fit the schema, as upstream's typed parser words it."""
    problems: list[str] = []
    _check_struct(tree, struct, "", problems)
    return problems


def _go(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return str(value)


def _check_struct(tree: Any, struct: StructType, path: str, out: list[str]) -> None:
    if not isinstance(tree, dict):
        out.append(f"{path}: expected map, got &{{{_go(tree)}}}")
        return
    for key in sorted(tree):
        known = struct.fields.get(key)
        if known is None:
            out.append(f"{path}.{key}: field not declared in schema")
        elif tree[key] is not None:
            _check(tree[key], known, f"{path}.{key}", out)


def _check(value: Any, known: Field, path: str, out: list[str]) -> None:
    kind = known.kind
    if kind == Kind.STRUCT:
        _check_struct(value, known.struct, path, out)
    elif kind == Kind.MAP:
        if not isinstance(value, dict):
            out.append(f"{path}: expected map, got &{{{_go(value)}}}")
            return
        for key in sorted(value):
            if value[key] is not None and known.element is not None:
                _check(value[key], known.element, f"{path}.{key}", out)
    elif kind == Kind.LIST:
        if not isinstance(value, list):
            out.append(f"{path}: expected list, got &{{{_go(value)}}}")
            return
        _check_items(value, known, path, out)
    elif kind in (Kind.STRING, Kind.TIME, Kind.MICRO_TIME, Kind.BYTES):
        if not isinstance(value, str):
            out.append(
                f"{path}: expected string, got &value.valueUnstructured{{Value:{_go(value)}}}"
            )
    elif kind in (Kind.INT, Kind.NUMBER):
        if isinstance(value, bool) or not isinstance(value, int | float):
            name = "boolean" if isinstance(value, bool) else (
                "string" if isinstance(value, str) else "list" if isinstance(value, list) else "map"
            )  # fmt: skip
            out.append(f"{path}: expected numeric (int or float), got {name}")
    elif kind == Kind.BOOL and not isinstance(value, bool):
        out.append(f"{path}: expected boolean, got &value.valueUnstructured{{Value:{_go(value)}}}")


def _check_items(value: list[Any], known: Field, path: str, out: list[str]) -> None:
    from controlplane.apiserver.requests.managed.fieldsets import shown

    seen: dict[str, None] = {}
    granular = known.list_type in ("map", "set")
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        if granular:
            key = item_key(known, item)
            place = path + shown((key,))
            if key in seen:
                text = shown((key,))
                if known.list_type == "map":
                    out.append(f"{path}: duplicate entries for key {text}")
                else:
                    out.append(f"{path}: duplicate entries for key {text}")
                continue
            seen[key] = None
        if known.element is not None and item is not None:
            _check(item, known.element, place, out)
