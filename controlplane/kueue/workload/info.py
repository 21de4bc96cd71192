"""A workload with what scheduling needs of it: requests, counts, flavors, hash, priority.

Follows `Info` of `pkg/workload/workload.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from controlplane.api.tree import Tree, metadata_of
from controlplane.kueue.amounts import (
    FlavorResource,
    Quotas,
    Requests,
    add,
    clamp,
    divide,
    quantity_text,
    request_amount,
    requests_of,
    requests_of_texts,
    scaled_down,
    scaled_up,
    summed,
)
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import ALLOWED_FLAVORS
from controlplane.kueue.workload.domains import domains_of
from controlplane.kueue.workload.priority import effective_priority
from controlplane.kueue.workload.requests import (
    NO_OPTIONS,
    RequestOptions,
    effective_quantities,
    pod_spec_requests,
)
from controlplane.kueue.workload.shape import UNKNOWN, scheduling_hash


@dataclass(frozen=True)
class DomainRequests:
    """Requests of the pods of one topology domain: `count` times `single_pod`."""

    values: tuple[str, ...]
    single_pod: Requests
    count: int

    def total(self) -> Requests:
        """The requests of all pods of the domain."""
        return scaled_up(self.single_pod, self.count)


TASUsage = Mapping[str, tuple[DomainRequests, ...]]
"""Requests by topology domain, by flavor."""


@dataclass(frozen=True)
class Usage:
    """Usage of a workload: quota by flavor, requests without a flavor, and topology domains."""

    assigned: Quotas = field(default_factory=dict)
    unassigned: Mapping[str, int] = field(default_factory=dict)
    tas: TASUsage = field(default_factory=dict)


@dataclass(frozen=True)
class PodSetTopology:
    """The domains that an admitted pod set is placed on."""

    levels: tuple[str, ...]
    domains: tuple[DomainRequests, ...]


@dataclass(frozen=True)
class PodSetResources:
    """All pods of a pod set: `requests` is their total."""

    name: str
    requests: Requests
    count: int
    flavors: Mapping[str, str] = field(default_factory=dict)
    topology: PodSetTopology | None = None
    delayed_topology: str | None = None

    def single_pod(self) -> Requests:
        """The requests of one pod."""
        return scaled_down(self.requests, self.count)

    def scaled_to(self, count: int) -> PodSetResources:
        """The same pod set with another count; one with a topology stays as it is."""
        if self.topology is not None:
            return self
        if self.count in (0, count):
            return replace(self, delayed_topology=None)
        return PodSetResources(self.name, scaled_up(self.single_pod(), count), count, self.flavors)


@dataclass(frozen=True)
class LastAssignment:
    """How far the search for flavors came: an index per pod set and resource, -1 at the end.

    Holds in which generation of the ClusterQueue, in which cycle and for which hash that was.
    """

    tried: tuple[Mapping[str, int], ...] = ()
    generation: int = 0
    cycle: int = 0
    hash: str = UNKNOWN

    def pending(self) -> bool:
        """Return whether flavors remain to be tried."""
        return any(index != -1 for each in self.tried for index in each.values())

    def matches(self, current_hash: str) -> bool:
        """Return whether the workload still has the shape; an unknown hash matches all."""
        return UNKNOWN in (self.hash, current_hash) or self.hash == current_hash


def next_flavor(last: LastAssignment | None, pod_set: int, resource: str, gates: Gates) -> int:
    """The index of the flavor to start from."""
    if not gates.enabled("FlavorFungibility") or last is None or pod_set >= len(last.tried):
        return 0
    return last.tried[pod_set].get(resource, -1) + 1


@dataclass(frozen=True)
class Info:
    """A workload as queues, cache and scheduler hold it. `obj` is the Workload's tree."""

    obj: Tree
    total_requests: tuple[PodSetResources, ...] = ()
    cluster_queue: str = ""
    priority: int = 0
    """The effective priority."""
    hash: str = UNKNOWN
    last_assignment: LastAssignment | None = None
    local_queue_usage: float | None = None
    """Weighted past usage of its local queue, only with admission fair sharing in a snapshot."""
    second_pass_iteration: int = 0
    last_evaluated_generation: int = 0
    """The generation of the object when the scheduler took it from its queue."""
    nomination: Mapping[str, Mapping[str, str]] | None = None
    """Flavors by pod set and resource that a recomputation is restricted to."""

    @cached_property
    def key(self) -> str:
        """Namespace/name."""
        meta = metadata_of(self.obj)
        return f"{meta.get('namespace', '')}/{meta.get('name', '')}"

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return str(metadata_of(self.obj).get("namespace", ""))

    @property
    def name(self) -> str:
        """metadata.name."""
        return str(metadata_of(self.obj).get("name", ""))

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return str(metadata_of(self.obj).get("uid", ""))

    @property
    def queue_name(self) -> str:
        """The local queue that the specification names."""
        return str((self.obj.get("spec") or {}).get("queueName") or "")

    @property
    def generation(self) -> int:
        """metadata.generation."""
        return int(metadata_of(self.obj).get("generation") or 0)

    @cached_property
    def quota_usage(self) -> tuple[Quotas, dict[str, int]]:
        """Requests by flavor and resource, and those without a flavor by resource."""
        assigned: Quotas = {}
        unassigned: dict[str, int] = {}
        for pod_set in self.total_requests:
            for resource, amount in pod_set.requests.items():
                flavor = pod_set.flavors.get(resource)
                if flavor:
                    pair = FlavorResource(flavor, resource)
                    assigned[pair] = add(assigned.get(pair, 0), amount)
                else:
                    unassigned[resource] = clamp(unassigned.get(resource, 0) + amount)
        return assigned, unassigned

    @cached_property
    def uses_tas(self) -> bool:
        """True if a pod set is placed on topology domains."""
        return any(each.topology is not None for each in self.total_requests)

    @cached_property
    def tas_usage(self) -> dict[str, tuple[DomainRequests, ...]]:
        """The requests on topology domains by flavor."""
        result: dict[str, tuple[DomainRequests, ...]] = {}
        for each in self.total_requests:
            if each.topology is not None:
                for flavor in sorted(set(each.flavors.values())):
                    result[flavor] = (*result.get(flavor, ()), *each.topology.domains)
        return result

    @cached_property
    def usage(self) -> Usage:
        """Everything that the workload takes."""
        assigned, unassigned = self.quota_usage
        return Usage(assigned, unassigned, self.tas_usage)

    def sum_of_requests(self) -> dict[str, str]:
        """The requests of all pod sets as quantities."""
        total = summed(each.requests for each in self.total_requests)
        return {name: quantity_text(name, value) for name, value in total.items()}

    def can_be_partially_admitted(self) -> bool:
        """Return whether a pod set may get fewer pods than it wants."""
        return any(
            (each.get("count") or 0) > each["minCount"]
            for each in pod_sets(self.obj)
            if each.get("minCount") is not None
        )


def pod_sets(workload: Tree) -> list[Tree]:
    """spec.podSets."""
    return (workload.get("spec") or {}).get("podSets") or []


def new_info(
    workload: Tree,
    gates: Gates,
    options: RequestOptions = NO_OPTIONS,
    extra: Mapping[str, Requests] | None = None,
) -> Info:
    """Compute requests and hash of a workload.

    Args:
        workload: A Workload; before admission with adjusted pod specifications.
        gates: Kueue's feature gates.
        options: Exclusions and transformations.
        extra: Requests per pod (by pod set) for devices, added before admission.
    """
    admission = (workload.get("status") or {}).get("admission")
    if admission is not None:
        requests = _admitted_requests(workload, admission, gates)
    else:
        requests = _spec_requests(workload, options, gates, extra or {})
    return rehashed(Info(workload, requests, (admission or {}).get("clusterQueue", "")), gates)


def updated(info: Info, workload: Tree, gates: Gates, options: RequestOptions = NO_OPTIONS) -> Info:
    """The same entry for a newer object: requests and hash anew, the rest kept."""
    fresh = new_info(workload, gates, options)
    return replace(
        info,
        obj=workload,
        total_requests=fresh.total_requests,
        cluster_queue=fresh.cluster_queue,
        priority=fresh.priority,
        hash=fresh.hash,
    )


def rehashed(info: Info, gates: Gates) -> Info:
    """The same entry with priority and hash of its object."""
    priority = effective_priority(info.obj, gates)
    found = UNKNOWN
    if gates.enabled("SchedulingEquivalenceHashing"):
        allowed = None
        if gates.enabled("ConcurrentAdmission"):
            allowed = (metadata_of(info.obj).get("annotations") or {}).get(ALLOWED_FLAVORS)
        counted = ((each.count, each.requests) for each in info.total_requests)
        found = scheduling_hash(info.obj, counted, priority, allowed)
    return replace(info, priority=priority, hash=found)


def counts_after_reclaim(workload: Tree, gates: Gates) -> dict[str, int]:
    """Pods per pod set that are still needed."""
    counts = {each.get("name", ""): int(each.get("count") or 0) for each in pod_sets(workload)}
    if gates.enabled("ReclaimablePods"):
        for each in (workload.get("status") or {}).get("reclaimablePods") or ():
            name = each.get("name", "")
            if name in counts:
                whole = next(p for p in pod_sets(workload) if p.get("name", "") == name)
                total = int(whole.get("count") or 0)
                counts[name] = total - min(int(each.get("count") or 0), total)
    return counts


def _spec_requests(
    workload: Tree, options: RequestOptions, gates: Gates, extra: Mapping[str, Requests]
) -> tuple[PodSetResources, ...]:
    counts = counts_after_reclaim(workload, gates)
    result = []
    for each in pod_sets(workload):
        name = each.get("name", "")
        spec = (each.get("template") or {}).get("spec") or {}
        asked = {
            resource: request_amount(resource, quantity)
            for resource, quantity in effective_quantities(spec, options).items()
        }
        for resource, amount in extra.get(name, {}).items():
            asked[resource] = clamp(asked.get(resource, 0) + amount)
        floored = {resource: max(amount, 0) for resource, amount in asked.items()}
        result.append(
            PodSetResources(name, scaled_up(requests_of(floored), counts[name]), counts[name])
        )
    return tuple(result)


def _admitted_requests(
    workload: Tree, admission: Tree, gates: Gates
) -> tuple[PodSetResources, ...]:
    counts = counts_after_reclaim(workload, gates)
    sets = {each.get("name", ""): each for each in pod_sets(workload)}
    topology = gates.enabled("TopologyAwareScheduling")
    result = []
    for each in admission.get("podSetAssignments") or ():
        name = each.get("name", "")
        own = sets.get(name)
        count = each.get("count")
        if count is None:
            count = (own or {}).get("count") or 0
        requests = requests_of_texts(each.get("resourceUsage"))
        placed = None
        if topology and each.get("topologyAssignment") is not None:
            placed = _placed(each["topologyAssignment"], own, scaled_down(requests, count))
        left = counts.get(name, 0)
        if left < count:
            requests = scaled_up({k: divide(v, count) for k, v in requests.items()}, left)
            count = left
        result.append(
            PodSetResources(
                name,
                requests,
                count,
                each.get("flavors") or {},
                placed,
                each.get("delayedTopologyRequest") if topology else None,
            )
        )
    return tuple(result)


def _placed(assignment: Tree, pod_set: Tree | None, single_pod: Requests) -> PodSetTopology:
    if pod_set is not None:
        single_pod = pod_spec_requests((pod_set.get("template") or {}).get("spec") or {})
    return PodSetTopology(
        tuple(assignment.get("levels") or ()),
        tuple(
            DomainRequests(values, single_pod, count) for values, count in domains_of(assignment)
        ),
    )
