"""managedFields: reading them, and bringing them up to date with a write."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.requests.managed.fieldsets import (
    NO_KEY,
    Paths,
    compare,
    from_fields_v1,
    stripped,
    to_fields_v1,
)
from controlplane.apiserver.schema.types import StructType

__all__ = [
    "UNKNOWN",
    "Entry",
    "Identity",
    "Managers",
    "encoded",
    "known",
    "managers_of",
    "reset_paths",
    "updated",
    "without_paths",
]

UNKNOWN = "unknown"
"""The manager of a request that names neither a manager nor a user agent. Upstream: managedfields, buildManagerInfo."""

_MAX_UPDATERS = 10
_ANCIENT = "ancient-changes"


@frozen
class Identity:
    """One manager: its name, what it does, in which version, on which subresource."""

    manager: str
    operation: str
    version: str
    subresource: str = ""


@frozen
class Entry:
    """The paths that a manager owns, and the time since when (RFC 3339)."""

    paths: Paths
    time: str
    version: str


Managers = dict[Identity, Entry]


def managers_of(fields: list[Tree] | None) -> Managers:
    """The managers of an object's managedFields."""
    found: Managers = {}
    for item in fields or ():
        operation = item.get("operation", "")
        version = item.get("apiVersion", "")
        identity = Identity(
            item.get("manager", ""),
            operation,
            "" if operation == "Apply" else version,
            item.get("subresource", ""),
        )
        found[identity] = Entry(
            from_fields_v1(item.get("fieldsV1") or {}), item.get("time", ""), version
        )
    return found


def _readable(fields: list[Tree] | None) -> Managers:
    """The managers in managedFields that a client sent; none if anything there is unreadable.

    Upstream: structured merge in apimachinery, managedfields/internal/managedfields.go, decodeManagedFields.
    """
    for item in fields or ():
        if item.get("operation") not in ("Apply", "Update") or not item.get("apiVersion"):
            return {}
        if item.get("fieldsType") != "FieldsV1" or not _are_fields(item.get("fieldsV1") or {}):
            return {}
    try:
        return managers_of(fields)
    except ValueError:
        return {}


def _are_fields(tree: Any) -> bool:
    """Return whether every key of a set of fields has a letter and a colon before its text, or is the dot."""
    return isinstance(tree, dict) and all(
        key == "." or (key[1:2] == ":" and _are_fields(part)) for key, part in tree.items()
    )


def known(managers: Managers, version: str) -> Managers:
    """The managers less those of a version to which objects of this group are not converted."""
    group = version.rpartition("/")[0]
    return {
        identity: entry
        for identity, entry in managers.items()
        if entry.version.rpartition("/")[0] == group
    }


def encoded(managers: Managers) -> list[Tree]:
    """The managedFields of an object."""
    out = []
    for identity, entry in managers.items():
        if not entry.paths:
            continue
        item: Tree = {
            "manager": identity.manager,
            "operation": identity.operation,
            "apiVersion": entry.version,
            **({"time": entry.time} if entry.time else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(entry.paths),
        }
        if identity.subresource:
            item["subresource"] = identity.subresource
        out.append(item)
    out.sort(
        key=lambda item: (
            item["operation"],
            item.get("time", ""),
            item["manager"],
            item["apiVersion"],
            item.get("subresource", ""),
        )
    )
    return out


def reset_paths(paths: Paths, reset: tuple[tuple[str, ...], ...]) -> Paths:
    """The paths less those that a write through this endpoint cannot set."""
    if not reset:
        return paths
    heads = frozenset(prefix[0] for prefix in reset)
    gone = [
        path
        for path in paths
        if path and path[0] in heads and any(path[: len(prefix)] == prefix for prefix in reset)
    ]
    return paths.difference(gone) if gone else paths


def _is_reset(fields: list[Tree] | None) -> bool:
    return fields is not None and len(fields) == 1 and not fields[0]


def updated(
    live: Tree,
    new: Tree,
    struct: StructType,
    identity: Identity,
    version: str,
    now: str,
    *,
    creating: bool,
    emptied: bool = False,
    reset: tuple[tuple[str, ...], ...] = (),
) -> list[Tree] | None:
    """The managedFields after an ordinary write; None for none. `emptied`: the body has an empty list of them."""
    given = new["metadata"].get("managedFields")
    had: list[Tree] | None = live.get("metadata", {}).get("managedFields")
    if emptied or (not identity.subresource and _is_reset(given)):
        return None
    owned = managers_of(had)
    managers = owned if given is had else _readable(given)
    if not managers or identity.subresource:
        managers = owned
    if not managers and not creating:
        return had
    managers = known(managers, version)
    difference = compare(live, new, struct)
    changed_paths = difference.taken()
    if difference.keyless and any(NO_KEY in path for path in changed_paths):
        return None  # upstream drops all of it where an item of a keyed list has no key
    if managers:
        lost = reset_paths(changed_paths.union(difference.removed), reset)
        managers = without_paths(managers, lost, None)
    taken = reset_paths(stripped(changed_paths), reset)
    before = owned.get(identity)
    if taken:
        own = managers.get(identity)
        paths = taken | own.paths if own is not None else taken
        managers[identity] = Entry(paths, now, version)
    managers = _capped(managers)
    changed = {key: entry.paths for key, entry in managers.items()} != {
        key: entry.paths for key, entry in owned.items()
    }
    changed = changed or len(owned) != len(had or ())  # of two entries of one name one is left
    if not changed and not difference.added and not difference.modified and before is not None:
        return had
    return encoded(managers) or None


def without_paths(managers: Managers, gone: Paths, but: Identity | None) -> Managers:
    """Return the managers without paths that another manager changed; those without paths are dropped."""
    kept: Managers = {}
    for identity, entry in managers.items():
        if identity == but:
            kept[identity] = entry
            continue
        paths = entry.paths - gone
        if paths:
            kept[identity] = evolve(entry, paths=paths)
    return kept


def _capped(managers: Managers) -> Managers:
    """More than ten updaters: the oldest are merged."""
    updaters = [item for item in managers.items() if item[0].operation == "Update"]
    if len(updaters) <= _MAX_UPDATERS:
        return managers
    updaters.sort(key=lambda item: (item[1].time, item[0].manager))
    out = dict(managers)
    count = len(updaters)
    for identity, entry in updaters:
        if count < _MAX_UPDATERS or identity.manager == _ANCIENT:
            continue
        del out[identity]
        bucket = Identity(_ANCIENT, "Update", identity.version)
        earlier = out.get(bucket)
        if earlier is None:
            out[bucket] = entry
        else:
            out[bucket] = Entry(earlier.paths | entry.paths, entry.time, entry.version)
            count -= 1
        if count <= _MAX_UPDATERS:
            break
    return out
