"""Concurrent admission: one job waits as several workloads, one per flavor, and moves to a better one.

Follows the helpers of `pkg/scheduler/scheduler.go` and `pkg/workload/concurrentadmission` (gate
ConcurrentAdmission).
"""

from __future__ import annotations

from collections.abc import Callable

from controlplane.api.tree import Tree
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.names import ALLOWED_FLAVORS, API_VERSION
from controlplane.kueue.workload.info import Info
from controlplane.kueue.workload.status import is_admitted


def parent_uid(workload: Tree) -> str:
    """The uid of the workload that this one is a variant of, empty if it is none."""
    for owner in workload["metadata"].get("ownerReferences") or ():
        if owner.get("kind") == "Workload" and owner.get("apiVersion") == API_VERSION:
            return str(owner.get("uid", ""))
    return ""


def is_variant(workload: Tree) -> bool:
    """Return whether a workload is a variant of another."""
    return any(
        owner.get("kind") == "Workload" and owner.get("apiVersion") == API_VERSION
        for owner in workload["metadata"].get("ownerReferences") or ()
    )


def variant_flavor(workload: Tree) -> str:
    """The flavor that a variant is for."""
    annotations = workload["metadata"].get("annotations") or {}
    names = [each.strip() for each in (annotations.get(ALLOWED_FLAVORS) or "").split(",")]
    return next((name for name in names if name), "")


def more_favorable_sibling(info: Info, queue: ClusterQueueSnapshot) -> Info | None:
    """An admitted variant of the same job on a flavor earlier in the list."""
    return _sibling(info, queue, lambda other, own: other < own)


def less_favorable_sibling(info: Info, queue: ClusterQueueSnapshot) -> Info | None:
    """An admitted variant of the same job on a flavor later in the list."""
    return _sibling(info, queue, lambda other, own: other > own)


def _sibling(
    info: Info, queue: ClusterQueueSnapshot, wanted: Callable[[int, int], bool]
) -> Info | None:
    parent = parent_uid(info.obj)
    own = _index(info, queue)
    if not parent or own is None:
        return None
    for other in queue.workloads.values():
        if other.uid == info.uid or parent_uid(other.obj) != parent or not is_admitted(other.obj):
            continue
        index = _index(other, queue)
        if index is not None and wanted(index, own):
            return other
    return None


def _index(info: Info, queue: ClusterQueueSnapshot) -> int | None:
    flavors = queue.groups[0].flavors if queue.groups else ()
    flavor = variant_flavor(info.obj)
    return flavors.index(flavor) if flavor in flavors else None


def migration_refused(info: Info, queue: ClusterQueueSnapshot) -> str | None:
    """Return why a variant may not replace an admitted one, None if it may; the text may be empty."""
    migration = (queue.concurrent_admission or {}).get("migration") or {}
    last = (migration.get("constraints") or {}).get("lastAcceptableFlavorName")
    if last is None:
        return None
    own = _index(info, queue)
    if own is None:
        return ""
    flavors = queue.groups[0].flavors
    acceptable = flavors.index(last) if last in flavors else -1
    return "Target flavor is below LastAcceptableFlavorName" if own > acceptable else None
