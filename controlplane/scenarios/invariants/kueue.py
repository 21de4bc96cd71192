"""Invariants of Kueue: quota is given once, no workload is lost, and none waits for what is free."""

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
    "AT_REST_NOTHING_THAT_FITS_IS_PARKED",
    "QUOTA_IS_GIVEN_ONCE",
]

_PREFIX = "/registry/kueue.x-k8s.io/"
_RESOURCES = ("resourceflavors", "cohorts", "clusterqueues", "workloads")


def _trees(run: Run, resource: str) -> Iterator[Tree]:
    for obj in run.objects(f"{_PREFIX}{resource}/"):
        yield obj.tree


def _processes(run: Run) -> Iterator[Kueue]:
    """The Kueue processes that run."""
    for probe in run.cluster.own_managers.get("kueue", ()):
        for controller in probe.controllers:
            found: Any = controller
            yield found


def _stored(run: Run) -> Cache:
    """The quota that stored workloads hold, of the queues that are stored."""
    from controlplane.kueue.cache.cache import Cache
    from controlplane.kueue.gates import Gates

    cache = Cache(Gates())
    for flavor in _trees(run, "resourceflavors"):
        cache.add_or_update_flavor(flavor)
    for cohort in _trees(run, "cohorts"):
        cache.add_or_update_cohort(cohort)
    for queue in _trees(run, "clusterqueues"):
        cache.add_cluster_queue(queue)
    for workload in _trees(run, "workloads"):
        cache.add_or_update(workload)
    return cache


def _revision(run: Run) -> object:
    """Return what changes when a queue or a workload does."""
    return [
        obj.resource_version
        for resource in _RESOURCES
        for obj in run.objects(f"{_PREFIX}{resource}/")
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
            has = cohort.subtree.get(pair, 0)
            if cohort.parent is None and used > has:
                return f"cohort {cohort.name} uses {used} of {pair}, and has {has}"
    return None


def _unknown(run: Run) -> str | None:
    """Name a workload that Kueue counts or queues otherwise than it is stored."""
    from controlplane.kueue.workload.status import (
        active_quota_reservation,
        is_admissible,
        key_of,
    )

    stored = {key_of(tree): tree for tree in _trees(run, "workloads")}
    for kueue in _processes(run):
        counted = {
            key: name for name, queue in kueue.cache.tree.queues.items() for key in queue.workloads
        }
        for key, tree in stored.items():
            holds = active_quota_reservation(tree)
            name = tree["status"]["admission"]["clusterQueue"] if holds else None
            if name in kueue.cache.tree.queues and counted.get(key) != name:
                return f"{key} holds quota of {name}, and Kueue counts it in {counted.get(key)}"
        queued = _queued(kueue)
        for key in {**counted, **queued}:
            if key in counted and not active_quota_reservation(stored.get(key) or {}):
                return f"Kueue counts the quota of {key}, which holds none"
            if key in queued and key not in stored:
                return f"Kueue queues {key}, which does not exist"
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


def _parked(run: Run) -> str | None:
    """Name a parked workload that would be admitted if it was tried."""
    return next((text for kueue in _processes(run) for text in _fitting(kueue)), None)


def _fitting(kueue: Kueue) -> Iterator[str]:
    from dataclasses import replace

    from controlplane.kueue.flavors.modes import Mode
    from controlplane.kueue.preemption.candidates import Rules
    from controlplane.kueue.queues.cluster_queue import backoff_is_over
    from controlplane.kueue.scheduler.assignments import Search
    from controlplane.kueue.scheduler.entry import Entry
    from controlplane.kueue.workload.admissibility import inadmissible

    settings, now = kueue.settings, kueue.clock()
    snapshot = kueue.cache.snapshot()
    search = Search(snapshot, Rules(settings.gates, settings.strategies), now, 0)
    for name, queue in snapshot.queues.items():
        waiting = kueue.manager.cluster_queue(name)
        for info in () if waiting is None else waiting.workloads.inadmissible.values():
            namespace = kueue.reader.get("Namespace", "", info.namespace)
            if inadmissible(info.obj, namespace, queue.selector, ()) is not None:
                continue
            if not backoff_is_over(info.obj, now):
                continue
            fresh = replace(info, cluster_queue=name, last_assignment=None)
            if search.run(Entry(fresh, queue))[0].mode() is Mode.FIT:
                yield f"{info.key} is parked in {name}, and would fit"


QUOTA_IS_GIVEN_ONCE = Invariant(
    "no queue and no cohort uses more quota than it has", _overdrawn, ("apiserver",),
    looks_at=_revision,
)  # fmt: skip
"""Valid in worlds whose quotas never decrease."""
AT_REST_KUEUE_KNOWS_EACH_WORKLOAD = Invariant("Kueue knows which workloads wait", _unknown)
AT_REST_NOTHING_THAT_FITS_IS_PARKED = Invariant("no workload that fits is parked", _parked)
