"""Topology aware placement as part of the assignment of flavors.

Follows `pkg/scheduler/flavorassigner/tas_flavorassigner.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.api.tree import Tree
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.flavors.assignment import Assignment, PodSetAssignment
from controlplane.kueue.flavors.matching import topology_implied, topology_requested
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import ELASTIC_JOB
from controlplane.kueue.topology.assignment import Assignment as Domains
from controlplane.kueue.topology.assignment import assignment_of
from controlplane.kueue.topology.requests import PodSetRequest
from controlplane.kueue.topology.workloads import find_for_workload
from controlplane.kueue.workload.info import DomainRequests, Info, pod_sets
from controlplane.kueue.workload.requests import pod_spec_requests
from controlplane.kueue.workload.status import has_quota_reservation

TopologyRequests = dict[str, list[PodSetRequest]]


class TopologyError(ValueError):
    """A pod set that cannot be placed on a topology; the text is upstream's."""


def unhealthy_nodes(workload: Tree) -> list[str]:
    """The names of nodes that failed under an admitted workload."""
    found = (workload.get("status") or {}).get("unhealthyNodes") or ()
    return [each.get("name", "") for each in found]


def topology_requests(
    assignment: Assignment, info: Info, queue: ClusterQueueSnapshot, gates: Gates
) -> TopologyRequests:
    """The pod sets to be placed, by flavor. Errors and delays are noted in the assignment."""
    requests: TopologyRequests = {}
    for pod_set in pod_sets(info.obj):
        if not topology_requested(pod_set, queue):
            continue
        assigned = assignment.pod_set(pod_set.get("name", ""))
        if assigned is None or assigned.status.error or assigned.count == 0:
            continue
        if assigned.topology is not None and not _on_unhealthy_node(assigned, info.obj):
            continue
        try:
            request = _request(assignment, assigned, pod_set, info, queue, gates)
        except TopologyError as error:
            assignment.set_error(assigned, str(error))
            continue
        if request is not None:
            requests.setdefault(request.flavor, []).append(request)
    return requests


def _on_unhealthy_node(assigned: PodSetAssignment, workload: Tree) -> bool:
    names = unhealthy_nodes(workload)
    return any(each.values[-1] in names for each in assigned.topology.domains)


def _request(
    assignment: Assignment,
    assigned: PodSetAssignment,
    pod_set: Tree,
    info: Info,
    queue: ClusterQueueSnapshot,
    gates: Gates,
) -> PodSetRequest | None:
    previous = None
    annotations = info.obj["metadata"].get("annotations") or {}
    if annotations.get(ELASTIC_JOB) == "true" and gates.enabled(
        "ElasticJobsViaWorkloadSlicesWithTAS"
    ):
        for kind in ("required", "preferred"):
            if (pod_set.get("topologyRequest") or {}).get(kind) is not None:
                raise TopologyError(
                    f"{kind} topology is not supported with ElasticJobsViaWorkloadSlices"
                )
        previous = _previous(assignment.replaced, assigned.name)
    if not queue.topologies:
        raise TopologyError("workload requires Topology, but there is no TAS cache information")
    flavor = only_topology_flavor(assigned, queue.topologies)
    reserved = has_quota_reservation(info.obj)
    if queue.has_multikueue or (not reserved and flavor in queue.provisioning_flavors):
        assigned.delayed_topology = "Pending"
        return None
    return PodSetRequest(
        pod_set,
        pod_spec_requests((pod_set.get("template") or {}).get("spec") or {}),
        assigned.count,
        flavor,
        topology_implied(pod_set, queue),
        (pod_set.get("topologyRequest") or {}).get("podSetGroupName"),
        _updates(info.obj, assigned.name),
        previous,
    )


def _updates(workload: Tree, pod_set: str) -> tuple[Tree, ...]:
    return tuple(
        update
        for check in (workload.get("status") or {}).get("admissionChecks") or ()
        if check.get("state") == "Ready"
        for update in check.get("podSetUpdates") or ()
        if update.get("name") == pod_set
    )


def _previous(replaced: Info | None, pod_set: str) -> Domains | None:
    admission = ((replaced.obj.get("status") or {}) if replaced else {}).get("admission") or {}
    for each in admission.get("podSetAssignments") or ():
        if each.get("name") == pod_set and each.get("topologyAssignment") is not None:
            return assignment_of(each["topologyAssignment"])
    return None


def only_topology_flavor(assigned: PodSetAssignment, topologies: Mapping[str, Any]) -> str:
    """The one flavor with a topology that a pod set was assigned.

    Raises:
        TopologyError: There is none, or more than one.
    """
    found = sorted({each.name for each in assigned.flavors.values() if each.name in topologies})
    if not found:
        raise TopologyError("no TAS flavor assigned")
    if len(found) > 1:
        raise TopologyError(f"more than one TAS flavor assigned: {', '.join(found)}")
    return found[0]


def find_places(
    queue: ClusterQueueSnapshot,
    requests: TopologyRequests,
    workload: Tree,
    gates: Gates,
    *,
    simulate_empty: bool = False,
) -> Any:
    """Search places for all requests; see `find_for_workload`."""
    if not requests:
        return {}
    return find_for_workload(
        queue.topologies, requests, gates, workload, simulate_empty=simulate_empty
    )


def take_places(
    assignment: Assignment, info: Info, queue: ClusterQueueSnapshot, result: Mapping[str, Any]
) -> None:
    """Enter found places, and what they use, in the assignment."""
    for name, placement in result.items():
        assigned = assignment.pod_set(name)
        if assigned is None:
            continue
        assigned.topology = placement.assignment
        if placement.assignment is not None and assigned.delayed_topology is not None:
            assigned.delayed_topology = "Ready"
    assignment.tas_usage = net_usage(assignment, info, queue, None)


def net_usage(
    assignment: Assignment, info: Info, queue: ClusterQueueSnapshot, admission: Tree | None
) -> dict[str, tuple[DomainRequests, ...]]:
    """Usage of topology domains by the assignment beyond a previous admission."""
    result: dict[str, tuple[DomainRequests, ...]] = {}
    sets = {each.get("name", ""): each for each in pod_sets(info.obj)}
    for assigned in assignment.pod_sets:
        pod_set = sets.get(assigned.name)
        if assigned.topology is None or pod_set is None:
            continue
        try:
            flavor = only_topology_flavor(assigned, queue.topologies)
        except TopologyError:
            continue
        before = _admitted_counts(admission, assigned.name)
        single = pod_spec_requests((pod_set.get("template") or {}).get("spec") or {})
        for domain in assigned.topology.domains:
            count = domain.count - before.get(domain.values, 0)
            if count > 0:
                more = DomainRequests(domain.values, single, count)
                result[flavor] = (*result.get(flavor, ()), more)
    return result


def _admitted_counts(admission: Tree | None, pod_set: str) -> dict[tuple[str, ...], int]:
    counts: dict[tuple[str, ...], int] = {}
    for each in (admission or {}).get("podSetAssignments") or ():
        if each.get("name") == pod_set:
            if each.get("topologyAssignment") is not None:
                for domain in assignment_of(each["topologyAssignment"]).domains:
                    counts[domain.values] = counts.get(domain.values, 0) + domain.count
            break
    return counts
