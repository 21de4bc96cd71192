"""Concurrent admission: a job that waits as one workload per flavor moves to a better flavor.

Follows `findAdmittedSibling` and `isMigrationAllowed` of `pkg/scheduler/scheduler.go` (gate
ConcurrentAdmission).
"""

from __future__ import annotations

from collections.abc import Callable

from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.workload.info import Info
from controlplane.kueue.workload.status import is_admitted
from controlplane.kueue.workload.variants import parent_uid, variant_flavor


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
