"""Marks of a deletion: finalizers, deletion time and grace period.

Upstream: apiserver pkg/registry/rest/delete.go and generic/registry/store.go.
"""

from __future__ import annotations

from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.deletion import DeleteOptions
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo

__all__ = ["before_delete", "check_meant", "finalizers_for", "without_grace"]

_ORPHAN = "orphan"
_FOREGROUND = "foregroundDeletion"


def without_grace(ctx: Context, obj: Tree, graceful: bool, finalizers: list[str]) -> Tree:
    """The object with these finalizers, and as deleting if they are waited for."""
    meta = dict(obj["metadata"])
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if not graceful and finalizers:
        now = format_time(ctx.now)
        before = meta.get("deletionTimestamp")
        if before is None:
            if meta.get("generation", 0) > 0:
                meta["generation"] += 1
            meta["deletionTimestamp"] = now
        elif parse_time(before) > parse_time(now):
            meta["deletionTimestamp"] = now
        meta["deletionGracePeriodSeconds"] = 0
    return {**obj, "metadata": meta}


def before_delete(
    strategy: Strategy, info: ResourceInfo, ctx: Context, tree: Tree, options: DeleteOptions
) -> tuple[Tree, bool, bool]:
    """Check preconditions, and set the time and grace of a deletion; `info` is the stored resource's, for errors.

    Returns the object with both, whether it is deleted gracefully, and whether a graceful deletion is pending already.
    Upstream: BeforeDelete of apiserver/pkg/registry/rest/delete.go.
    """
    meta = tree["metadata"]
    check_meant(info, meta, options)
    if options.grace is not None and options.grace < 0:
        options.grace = 1
    if not strategy.graceful:
        return tree, False, False
    if "deletionTimestamp" in meta:
        return _shortened(strategy, ctx, tree, options)
    grace = strategy.grace_period(tree, options.grace)
    marked = dict(meta)
    marked["deletionTimestamp"] = format_time(ctx.now + grace * SECOND)
    marked["deletionGracePeriodSeconds"] = grace
    if meta.get("generation", 0) > 0:
        marked["generation"] = meta["generation"] + 1
    options.grace = grace
    return {**tree, "metadata": marked}, True, False


def _shortened(
    strategy: Strategy, ctx: Context, tree: Tree, options: DeleteOptions
) -> tuple[Tree, bool, bool]:
    """A further deletion of a deleting object can only shorten its grace period."""
    meta = tree["metadata"]
    stored = meta.get("deletionGracePeriodSeconds")
    if not stored:
        return tree, False, False
    if options.grace is None:
        options.grace = stored
        return tree, False, True
    period = strategy.grace_period(tree, options.grace)
    if period >= stored:
        return tree, False, True
    ends = parse_time(meta["deletionTimestamp"]) - (stored - period) * SECOND
    if ends < ctx.now:
        ends = ctx.now
        if period:
            period = 1
    marked = dict(meta)
    marked["deletionTimestamp"] = format_time(ends)
    marked["deletionGracePeriodSeconds"] = period
    options.grace = period
    return {**tree, "metadata": marked}, True, False


def finalizers_for(strategy: Strategy, meta: Tree, options: DeleteOptions) -> list[str]:
    """The finalizers with what the garbage collector's mode asks for."""
    had: list[str] = meta.get("finalizers", [])
    if strategy.unsupported_gc:
        return [name for name in had if name not in (_ORPHAN, _FOREGROUND)]
    orphan, foreground = False, False
    if options.orphan is not None:
        orphan = options.orphan
    elif options.policy:
        orphan = options.policy == "Orphan"
        foreground = options.policy == "Foreground"
    elif _ORPHAN in had:
        orphan = True
    elif _FOREGROUND in had:
        foreground = True
    else:
        orphan = strategy.orphan_by_default
    kept = [name for name in had if name not in (_ORPHAN, _FOREGROUND)]
    if orphan:
        kept.append(_ORPHAN)
    if foreground:
        kept.append(_FOREGROUND)
    return had if set(kept) == set(had) else kept  # the same finalizers stay in their order


def check_meant(info: ResourceInfo, meta: Tree, options: DeleteOptions) -> None:
    """Refuse to delete an object that is not the one the preconditions name. ApiError 409.

    Upstream: apiserver pkg/registry/rest/delete.go, BeforeDelete; eviction.go says the same.
    """
    for wanted, current, text, change in (
        (options.uid, meta["uid"], "UID", "deleted and then recreated"),
        (options.version, meta["resourceVersion"], "ResourceVersion", "modified"),
    ):
        if wanted is not None and wanted != current:
            raise status.conflict(
                info,
                meta["name"],
                (
                    f"the {text} in the precondition ({wanted}) does not match the {text} in record"
                    f" ({current}). The object might have been {change}"
                ),
                shown=info.qualified_kind,
                kind=info.kind,
            )
