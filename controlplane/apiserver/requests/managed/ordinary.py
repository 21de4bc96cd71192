"""Field ownership after an ordinary write."""

from __future__ import annotations

from functools import cache
from typing import Any

from controlplane.api.object import Object
from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.conversion import from_hub
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.managed.fieldsets import Path
from controlplane.apiserver.requests.managed.tracking import (
    UNKNOWN,
    Identity,
    updated,
)
from controlplane.apiserver.schema.codec import codec
from controlplane.apiserver.schema.types import Kind, StructType

__all__ = ["empty", "reset", "track", "type_of"]


def type_of(ctx: Context) -> StructType:
    """The type of the request's objects."""
    if ctx.info.custom is not None:
        custom: StructType = ctx.info.custom.struct
        return custom
    return ctx.info.type


def empty(ctx: Context) -> Tree:
    """An object with nothing set, as upstream compares a created one with."""
    if ctx.info.custom is not None:
        return {"metadata": {}}
    return _undefaulted(ctx.info.type_name)


@cache
def _undefaulted(type_name: str) -> Tree:
    """Return the parts that are always present, without those that only defaulting sets."""
    found = codec(type_name)

    def of(tree: Tree, struct: StructType) -> Tree:
        out: Tree = {}
        for name, value in tree.items():
            known = struct.fields[name]
            if isinstance(value, dict) and known.kind == Kind.STRUCT:
                out[name] = of(value, known.struct)
            elif not (value and known.has_default):
                out[name] = value
        return out

    return of(found.decode({}, None), found.type)


def reset(ctx: Context, sub: str) -> tuple[Path, ...]:
    """Paths that a write through this endpoint cannot set."""
    return ctx.rules().reset_fields(sub)


def _shown(ctx: Context, tree: Tree) -> Tree:
    """A stored tree in the version of the request, with what upstream's conversion puts in."""
    info = ctx.info
    if info.custom is None and (info.group, info.version) != info.hub:
        tree = from_hub(info, Object(tree)).tree
    return ctx.rules().converted(tree)


def _as_written(tree: Tree, document: Any) -> Tree:
    """The object with lists that are there without items where they were written so.

    Only fields that are always shown have such a list: of others Go leaves it out.
    """
    if not isinstance(document, dict):
        return tree
    changed: Tree = {}
    for key, value in tree.items():
        if value is None:
            if document.get(key) == []:
                changed[key] = []
        elif isinstance(value, dict) and key in document and key != "metadata":
            inner = _as_written(value, document[key])
            if inner is not value:
                changed[key] = inner
    return {**tree, **changed} if changed else tree


def track(ctx: Context, tree: Tree, live: Tree | None, sub: str = "") -> Tree:
    """The object to write with its managedFields brought up to date."""
    if not ctx.track_fields:
        return tree
    identity = Identity(ctx.request.manager or UNKNOWN, "Update", ctx.info.api_version, sub)
    fields = updated(
        _shown(ctx, live) if live is not None else empty(ctx),
        _as_written(_shown(ctx, tree), ctx.document),
        type_of(ctx),
        identity,
        ctx.info.api_version,
        format_time(ctx.now),
        creating=live is None,
        emptied=not sub and ctx.written("metadata", "managedFields") == [],
        reset=reset(ctx, sub),
    )
    meta = {key: value for key, value in tree["metadata"].items() if key != "managedFields"}
    if fields:
        meta["managedFields"] = fields
    return {**tree, "metadata": meta}
