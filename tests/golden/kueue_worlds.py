"""Build Kueue's cache from a recorded world, and show its state as the recordings do."""

from __future__ import annotations

import math
from typing import Any

from controlplane.kueue.amounts import FlavorResource
from controlplane.kueue.cache.cache import Cache, CacheError
from controlplane.kueue.gates import Gates
from controlplane.kueue.topology.cache import TopologyCache
from controlplane.kueue.workload.status import has_quota_reservation


def gates_of(world: Any) -> Gates:
    return Gates(world.get("gates"))


def cache_of(world: Any, gates: Gates) -> Cache:
    topologies = TopologyCache(gates) if world.get("topologies") else None
    cache = Cache(gates, fair_sharing=world.get("fairSharing") is not None, topologies=topologies)
    for topology in world.get("topologies", ()):
        cache.add_or_update_topology(topology)
    for node in world.get("nodes", ()):
        if topologies is not None:
            topologies.sync_node(node)
    for flavor in world.get("resourceFlavors", ()):
        cache.add_or_update_flavor(flavor)
    for check in world.get("admissionChecks", ()):
        cache.add_or_update_check(check)
    for cohort in world.get("cohorts", ()):
        tried(cache.add_or_update_cohort, cohort)
    for queue in world.get("clusterQueues", ()):
        tried(cache.add_cluster_queue, queue)
    for queue in world.get("localQueues", ()):
        tried(cache.add_local_queue, queue)
    for workload in world.get("workloads", ()):
        if has_quota_reservation(workload):
            cache.add_or_update(workload)
    return cache


def tried(operation: Any, *args: Any) -> str | None:
    """The text of the cache's refusal, None if it did as asked."""
    try:
        operation(*args)
    except CacheError as error:
        return str(error)
    return None


def pair_of(text: str) -> FlavorResource:
    flavor, _, resource = text.partition("/")
    return FlavorResource(flavor, resource)


def shown_amount(amount: int) -> Any:
    return "Unlimited" if amount == (1 << 63) - 1 else amount


def shown_float(value: float) -> Any:
    return "Inf" if math.isinf(value) else value
