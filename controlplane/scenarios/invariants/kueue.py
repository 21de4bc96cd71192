"""Invariants of Kueue's quota: it is given once, and Kueue counts and queues what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios.engine.scenario import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.tree import Tree
    from controlplane.kueue.cache.cache import Cache
    from controlplane.kueue.process.controller import Kueue
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "AT_REST_KUEUE_KNOWS_EACH_WORKLOAD",
    "QUOTA_IS_GIVEN_ONCE",
    "PREFIX",
    "processes",
    "revision",
    "trees",
]

PREFIX = "/registry/kueue.x-k8s.io/"
_RESOURCES = ("resourceflavors", "cohorts", "clusterqueues", "workloads")


def trees(run: Run, resource: str) -> Iterator[Tree]:
    """The stored objects of one of Kueue's resources."""
    for obj in run.objects(f"{PREFIX}{resource}/"):
        yield obj.tree


def processes(run: Run) -> Iterator[Kueue]:
    """The Kueue processes that run."""
    for probe in run.cluster.own_managers.get("kueue", ()):
        for controller in probe.controllers:
            found: Any = controller
            yield found


def _stored(run: Run) -> Cache:
    """The quota that stored workloads hold, of the queues that are stored."""
    from controlplane.kueue.cache.cache import Cache
    from controlplane.kueue.gates import Gates
    from controlplane.kueue.workload import status

    cache = Cache(Gates())
    for flavor in trees(run, "resourceflavors"):
        cache.add_or_update_flavor(flavor)
    for cohort in trees(run, "cohorts"):
        cache.add_or_update_cohort(cohort)
    for queue in trees(run, "clusterqueues"):
        cache.add_cluster_queue(queue)
    workloads = list(trees(run, "workloads"))
    replaced = _replaced(workloads)
    for workload in workloads:
        if status.key_of(workload) not in replaced:
            cache.add_or_update(workload)
    return cache


def _replaced(workloads: list[Tree]) -> dict[str, None]:
    """The workloads that another one with quota takes the place of: it has theirs, and they are finished next."""
    from controlplane.kueue.scheduler.assignments import SLICE_REPLACEMENT
    from controlplane.kueue.workload import status

    found: dict[str, None] = {}
    for each in workloads:
        key = (each["metadata"].get("annotations") or {}).get(SLICE_REPLACEMENT)
        if key is not None and status.has_quota_reservation(each):
            found[key] = None
    return found


def revision(run: Run) -> object:
    """Return what changes when a queue or a workload does."""
    return [
        obj.resource_version
        for resource in _RESOURCES
        for obj in run.objects(f"{PREFIX}{resource}/")
    ]


def _overdrawn(run: Run) -> str | None:
    """Name a queue or tree of cohorts that uses more than it has."""
    cache = _stored(run)
    for queue in cache.tree.queues.values():
        for pair, used in queue.usage.items():
            if used > queue.potential(pair):
                return f"ClusterQueue {queue.name} uses {used} of {pair}, and may use {queue.potential(pair)}"
    for cohort in cache.tree.cohorts.values():
        for pair, used in cohort.usage.items():
            has, limit = cohort.subtree.get(pair, 0), cohort.quota(pair).borrowing_limit
            if cohort.parent is None and used > has:
                return f"cohort {cohort.name} uses {used} of {pair}, and has {has}"
            # What each node may lend is in the quota of the cohort above already; what it may borrow is not.
            if cohort.parent is not None and limit is not None and used > has + limit:
                return (
                    f"cohort {cohort.name} uses {used} of {pair}, has {has} and may borrow {limit}"
                )
    return None


def _unknown(run: Run) -> str | None:
    """Name a workload that Kueue counts or queues otherwise than it is stored."""
    from controlplane.kueue.workload.status import (
        active_quota_reservation,
        has_quota_reservation,
        is_admissible,
        is_finished,
        key_of,
    )

    counts_inactive = run.cluster.config.gates.fixed("here6")

    def counted_by_kueue(tree: Tree) -> bool:
        if counts_inactive:
            return has_quota_reservation(tree) and not is_finished(tree)
        return active_quota_reservation(tree)

    stored = {key_of(tree): tree for tree in trees(run, "workloads")}
    for kueue in processes(run):
        counted = {
            key: name for name, queue in kueue.cache.tree.queues.items() for key in queue.workloads
        }
        for key, tree in stored.items():
            holds = counted_by_kueue(tree)
            name = tree["status"]["admission"]["clusterQueue"] if holds else None
            if name in kueue.cache.tree.queues and counted.get(key) != name:
                return f"{key} holds quota of {name}, and Kueue counts it in {counted.get(key)}"
        queued = _queued(kueue)
        for key in {**counted, **queued}:
            if key in counted and not counted_by_kueue(stored.get(key) or {}):
                return f"Kueue counts the quota of {key}, which holds none"
            if key in queued and key not in stored:
                return f"Kueue queues {key}, which does not exist"
            if key in queued and not is_admissible(stored[key], kueue.settings.gates):
                return f"Kueue queues {key}, which does not wait for quota"
        for key, tree in stored.items():
            waits = is_admissible(tree, kueue.settings.gates)
            if waits and kueue.manager.cluster_queue_for(tree)[1] and key not in queued:
                return f"{key} waits for quota, and is in no queue"
    return None


def _queued(kueue: Kueue) -> dict[str, str]:
    """The workloads in heaps, and those that are parked, with their queues."""
    found: dict[str, str] = {}
    for name in kueue.manager.cluster_queues():
        queue = kueue.manager.cluster_queue(name)
        if queue is not None:
            pending = queue.workloads
            found |= {info.key: name for info in (*pending.active, *pending.inadmissible.values())}
    return found


QUOTA_IS_GIVEN_ONCE = Invariant(
    "no queue and no cohort uses more quota than it has", _overdrawn, ("apiserver",),
    looks_at=revision,
)  # fmt: skip
"""Valid in worlds whose quotas never decrease."""
AT_REST_KUEUE_KNOWS_EACH_WORKLOAD = Invariant("Kueue knows which workloads wait", _unknown)
