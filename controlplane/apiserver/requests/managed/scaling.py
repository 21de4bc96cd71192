"""The managers of an object while a request sees its Scale.

A Scale has the managers of the object's replicas, with the path that they have in a Scale; after the write they are
those of the object again. Upstream: managedfields/scalehandler.go.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.managed.fieldsets import Path, Paths
from controlplane.apiserver.requests.managed.tracking import (
    UNKNOWN,
    Entry,
    Identity,
    Managers,
    encoded,
    known,
    managers_of,
    updated,
)
from controlplane.apiserver.schema.types import struct_type

__all__ = [
    "REPLICAS",
    "SCALE",
    "VERSION",
    "of_object",
    "of_scale",
    "track_scale",
    "with_managers",
]

SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
VERSION: Final = "autoscaling/v1"
REPLICAS: Final[Paths] = frozenset((("f:spec", "f:replicas"),))


def of_scale(managers: Managers, path: Path) -> Managers:
    """The managers of a Scale: those of the object that own its replicas at `path`."""
    return {
        evolve(identity, version=identity.version and VERSION): Entry(REPLICAS, entry.time, VERSION)
        for identity, entry in managers.items()
        if path in entry.paths
    }


def with_managers(ctx: Context, scale: Tree, current: Tree, path: Path) -> Tree:
    """The Scale of an object with its managers, as a patch finds it."""
    had = current["metadata"].get("managedFields")
    if not had:
        return scale
    fields = encoded(of_scale(known(managers_of(had), ctx.info.api_version), path))
    return (
        {**scale, "metadata": {**scale["metadata"], "managedFields": fields}} if fields else scale
    )


def of_object(before: Managers, scale: Managers, path: Path, version: str) -> Managers:
    """The managers of the object after a write of its Scale.

    An updater is named with the version that it wrote, so it is never found among those of the Scale: it loses the
    replicas to a new entry without a time. When both have one name, the next write reads only the later one.

    Args:
        before: of the object.
        scale: of the Scale after the write.
        path: of the replicas in the object.
        version: of the object in the request.
    """
    left, found = dict(scale), Managers()
    for identity, entry in before.items():
        if path not in entry.paths or left.pop(identity, None) is not None:
            found[identity] = entry
        elif entry.paths != {path}:
            found[identity] = evolve(entry, paths=entry.paths - {path})
    for identity, entry in left.items():
        if entry.paths >= REPLICAS:
            earlier = before.get(identity)
            time = "" if earlier is None else earlier.time
            found[identity] = Entry(frozenset((path,)), time, version)
    return found


def track_scale(ctx: Context, current: Tree, path: Path, old: Tree, new: Tree) -> Tree:
    """The object with the managers that it has after its Scale was updated from `old` to `new`."""
    if not ctx.track_fields:
        return current
    had = current["metadata"].get("managedFields")
    before = known(managers_of(had), ctx.info.api_version)
    shown = encoded(of_scale(before, path))
    fields = updated(
        {**old, "metadata": {**old["metadata"], "managedFields": shown}},
        new,
        struct_type(SCALE),
        Identity(ctx.request.manager or UNKNOWN, "Update", VERSION, "scale"),
        VERSION,
        format_time(ctx.now),
        creating=False,
    )
    after = encoded(of_object(before, managers_of(fields), path, ctx.info.api_version))
    meta = {key: value for key, value in current["metadata"].items() if key != "managedFields"}
    return {**current, "metadata": {**meta, **({"managedFields": after} if after else {})}}
