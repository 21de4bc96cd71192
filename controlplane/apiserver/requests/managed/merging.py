"""Merging an applied configuration into an object, and taking out what it gave up."""

from __future__ import annotations

from collections import deque
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.requests.managed.fieldsets import (
    Path,
    Paths,
    granular,
    has_parts,
    item_keys,
)
from controlplane.apiserver.schema.types import DEDUCED, Field, Kind, StructType
from controlplane.apiserver.schema.work import spend

__all__ = ["merged", "with_named", "without"]


def merged(live: Tree, config: Tree, struct: StructType) -> Tree:
    """The object with the configuration merged in, by the schema's list keys."""
    spend(1 + len(config) + (len(live) >> 3))
    out = dict(live)
    for key, value in config.items():
        known = struct.fields.get(key)
        if known is None and struct.open:
            known = DEDUCED
        if value is None:
            if not (granular(known) and live.get(key)):  # null takes no parts out of what has some
                out[key] = None  # a null is set, and owned
        elif key in live and known is not None and _merges(live[key], value, known):
            out[key] = _merged_value(live[key], value, known)
        else:
            out[key] = value
    return out


def _merges(live: Any, config: Any, known: Field) -> bool:
    """Return whether a configuration changes parts of a value rather than all of it."""
    return live is not None and has_parts(known, live) and has_parts(known, config)


def _merged_value(live: Any, config: Any, known: Field) -> Any:
    if known.kind == Kind.STRUCT:
        return merged(live, config, known.struct)
    if known.kind == Kind.MAP:
        spend(len(config) + (len(live) >> 3))
        out = dict(live)
        for key, value in config.items():
            if known.element is not None and _merges(live.get(key), value, known.element):
                out[key] = _merged_value(live[key], value, known.element)
            else:
                out[key] = value
        return out
    return _merged_list(live, config, known)


def _merged_list(live: list[Any], config: list[Any], known: Field) -> list[Any]:
    """Items of both; the configuration's order rules, the others keep their places."""
    spend(3 * (len(live) + len(config)))
    theirs = dict(zip(item_keys(known, config), config, strict=True))
    ours = dict(zip(item_keys(known, live), live, strict=True))
    left, right = list(ours), list(theirs)
    shared = deque(key for key in right if key in ours)
    upcoming = shared.popleft() if shared else None
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
                upcoming = shared.popleft() if shared else None
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
                upcoming = shared.popleft() if shared else None
    return out


def with_named(paths: Paths, struct: StructType) -> Paths:
    """The paths, and the named fields of types that they lead through.

    Upstream: fieldpath.Set.EnsureNamedFieldsAreMembers.
    """
    spend(sum(map(len, paths)))
    found = set(paths)
    for path in paths:
        within: StructType | None = struct
        known: Field | None = None
        for at, element in enumerate(path[:-1]):
            if within is not None:
                known = within.fields.get(element[2:])
                if known is None:
                    break
                found.add(path[: at + 1])
            elif known is not None:
                known = known.element
            within = known.struct if known is not None and known.kind == Kind.STRUCT else None
    return frozenset(found)


def without(tree: Tree, struct: StructType, gone: Paths, kept: Paths) -> Tree:
    """The object less the paths in `gone`, except where something in `kept` lies at or below."""
    spend(sum([len(path) ** 2 // 8 + 1 for path in kept]))
    prefixes = frozenset(path[:n] for path in kept for n in range(1, len(path) + 1))
    return _without_struct(tree, struct, (), gone - prefixes, kept)


def _without_struct(tree: Tree, struct: StructType, path: Path, gone: Paths, kept: Paths) -> Tree:
    out: Tree = {}
    spend(len(tree))
    for key, value in tree.items():
        place = (*path, f"f:{key}")
        if place in gone:
            continue
        known = struct.fields.get(key)
        if known is None and struct.open:
            known = DEDUCED
        if known is not None and value is not None and has_parts(known, value):
            left = _without_value(value, known, place, gone, kept)
            if value and not left and (place not in kept or isinstance(left, list)):
                # What loses its last part goes with it, but for maps that are there as such.
                continue
            value = left
        out[key] = value
    return out


def _without_value(value: Any, known: Field, path: Path, gone: Paths, kept: Paths) -> Any:
    if known.kind == Kind.STRUCT:
        return _without_struct(value, known.struct, path, gone, kept)
    element = known.element
    if known.kind == Kind.MAP:
        out: Tree = {}
        spend(len(value))
        for key, item in value.items():
            place = (*path, f"f:{key}")
            if place in gone:
                continue
            if element is not None and item is not None and has_parts(element, item):
                item = _without_value(item, element, place, gone, kept)
            out[key] = item
        return out
    left = []
    spend(2 * len(value))
    for name, item in zip(item_keys(known, value), value, strict=True):
        place = (*path, name)
        if place in gone:
            continue
        if element is not None and element.kind == Kind.STRUCT:
            item = _without_struct(item, element.struct, place, gone, kept)
        left.append(item)
    return left
