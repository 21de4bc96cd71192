"""Kueue: places on topology domains, replacement of failed nodes, encoding of assignments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controlplane.api.tree import Tree
from controlplane.kueue.amounts import quantity_text
from controlplane.kueue.gates import Gates
from controlplane.kueue.preemption.candidates import Rules
from controlplane.kueue.scheduler.assignments import Search
from controlplane.kueue.scheduler.entry import Entry
from controlplane.kueue.topology.assignment import Assignment, DomainCount
from controlplane.kueue.topology.cache import TopologyCache
from controlplane.kueue.topology.encoding import encoded
from controlplane.kueue.topology.requests import PodSetRequest
from controlplane.kueue.topology.snapshot import FlavorSnapshot, Placement
from controlplane.kueue.workload.info import new_info
from controlplane.kueue.workload.requests import pod_spec_requests
from tests.golden.answer_flavor_assignment import NOW, shown_assignment, shown_targets
from tests.golden.kueue_worlds import cache_of, gates_of


def answer(case: Any) -> Any:
    if case["op"] == "encode":
        return encode(case)
    return assign(case) if case["op"] == "assign" else find(case)


def encode(case: Any) -> Any:
    assignment = Assignment(
        tuple(case["levels"]),
        tuple(DomainCount(tuple(values), count) for values, count in case["domains"]),
    )
    return {"encoded": encoded(assignment, Gates(case["gates"])), "total": assignment.pods()}


def topology_of(world: Any, pods: Any, gates: Gates) -> TopologyCache:
    """The topology cache of a world, with the usage of its admitted workloads."""
    cache = TopologyCache(gates)
    for each in world.get("topologies", ()):
        cache.add_topology(each)
    for each in world.get("nodes", ()):
        cache.sync_node(each)
    for each in world.get("resourceFlavors", ()):
        if each["spec"].get("topologyName"):
            cache.add_or_update_flavor(each)
    for each in world.get("workloads", ()):
        if reserved(each):
            info = new_info(each, gates)
            for name, usage in info.tas_usage.items():
                flavor = cache.flavor(name)
                if flavor is not None:
                    flavor.add_usage(info.key, usage)
    for each in pods:
        cache.update_pod(each)
    return cache


def reserved(workload: Tree) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "QuotaReserved" and each["status"] == "True" for each in conditions)


def find(case: Any) -> Any:
    world = case["world"]
    gates = Gates(world.get("gates"))
    cache = topology_of(world, case.get("pods", ()), gates)
    (snapshot,) = cache.snapshots().values()
    requests = [
        PodSetRequest(
            each,
            pod_spec_requests(each["template"]["spec"]),
            each["count"],
            implied="topologyRequest" not in each,
            group=(each.get("topologyRequest") or {}).get("podSetGroupName"),
        )
        for each in case["workload"]["spec"]["podSets"]
    ]
    placed = snapshot.find(
        requests, case["workload"], simulate_empty=case.get("simulateEmpty", False)
    )
    return {
        "podSets": {name: shown(each, gates) for name, each in placed.items()},
        "capacity": {name: capacity(snapshot, name) for name in snapshot.free},
    }


def assign(case: Any) -> Any:
    world = case["world"]
    gates = gates_of(world)
    cache = cache_of(world, gates)
    topologies = cache.topologies
    assert isinstance(topologies, TopologyCache)
    for each in case.get("pods", ()):
        topologies.update_pod(each)
    snapshot = cache.snapshot()
    name = next(
        each["spec"]["clusterQueue"]
        for each in world["localQueues"]
        if each["metadata"]["name"] == case["workload"]["spec"]["queueName"]
        and each["metadata"]["namespace"] == case["workload"]["metadata"]["namespace"]
    )
    queue = snapshot.queues[name]
    info = replace(new_info(case["workload"], gates), cluster_queue=name)
    search = Search(snapshot, Rules(gates, None), NOW, cycle=1)
    assignment, targets = search.run(Entry(info, queue))
    found = shown_assignment(assignment)
    for shown_set, each in zip(found["podSets"], assignment.pod_sets, strict=True):
        if each.topology is not None:
            shown_set["topologyAssignment"] = shown_domains(each.topology, gates)
    return {"assignment": found, "targets": shown_targets(targets)}


def shown(placement: Placement, gates: Gates) -> Any:
    if placement.failure:
        return {"failure": placement.failure}
    assignment = placement.assignment
    if assignment is None:
        return {}
    return {"assignment": shown_domains(assignment, gates)}


def shown_domains(assignment: Assignment, gates: Gates) -> Any:
    found: Any = {"levels": list(assignment.levels), "encoded": encoded(assignment, gates)}
    if assignment.domains:
        found["domains"] = [[list(each.values), each.count] for each in assignment.domains]
    return found


def capacity(snapshot: FlavorSnapshot, domain: str) -> Any:
    def texts(amounts: Any) -> Any:
        return {name: quantity_text(name, value) for name, value in amounts.items()}

    return {
        "freeCapacity": texts(snapshot.free[domain]),
        "tasUsage": texts(snapshot.used.get(domain, {})),
    }
