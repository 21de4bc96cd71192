"""NodeResourceTopologyMatch: nodes whose topology manager can align a pod, and how well they fit it.

Upstream: pkg/noderesourcetopology/filter.go, score.go, prefilter.go and plugin.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from controlplane.scheduler.community.args import arguments
from controlplane.scheduler.community.numa import (
    Topology,
    Zone,
    asks_for_devices,
    effective_request,
    is_affine,
    quality,
)
from controlplane.scheduler.community.numa_cache import make_cache
from controlplane.scheduler.community.numa_scores import (
    STRATEGIES,
    Requests,
    fewest_zones,
    mean_of_zones,
    suits,
)
from controlplane.scheduler.community.objects import Objects
from controlplane.scheduler.community.scores import MOST
from controlplane.scheduler.framework import events
from controlplane.scheduler.framework.cycle_state import Clonable, CycleState
from controlplane.scheduler.framework.events import ClusterEvent, ClusterEventWithHint
from controlplane.scheduler.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PostBindPlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    ScorePlugin,
    Status,
    error,
    unschedulable,
)
from controlplane.scheduler.state.resources import is_native_resource

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo

_ALWAYS_THERE: Final = ("cpu", "memory", "pods", "ephemeral-storage")
_OBJECTS: Final = "noderesourcetopologies.v1alpha2.topology.node.k8s.io"


class _Victims(Clonable):
    """Pods that a preemption takes off nodes for a trial, by their keys."""

    def __init__(self, pods: Mapping[str, None] | None = None) -> None:
        self.pods = dict(pods or {})

    def clone(self) -> Self:
        return type(self)(self.pods)


class NodeResourceTopologyMatch(
    PreFilterPlugin,
    PreFilterExtensions,
    FilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PostBindPlugin,
    EnqueueExtensions,
):
    """Alignment to single NUMA zones as the kubelet will do it.

    `objects` holds objects of kind NodeResourceTopology. `cache` gets the notifications that `numa_cache` names.
    """

    name = "NodeResourceTopologyMatch"
    _KEY: Final = "PreFilterNodeResourceTopologyMatch"

    def __init__(
        self, args: Mapping[str, Any] | None, handle: Handle, objects: Objects | None = None
    ) -> None:
        given = arguments(self.name, args)
        strategy = given["ScoringStrategy"]
        self._follows_victims = given["PreemptionMode"] != "Disabled"
        self._strategy = STRATEGIES.get(strategy["Type"])
        self._weights = {each["Name"]: each["Weight"] for each in strategy["Resources"]}
        objects = Objects() if objects is None else objects
        self.cache = make_cache(given, objects, handle.listers.pods.list)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """Freed resources of nodes, and new reports of them."""
        node = ClusterEvent(events.NODE, events.ADD | events.UPDATE_NODE_ALLOCATABLE)
        reports = ClusterEvent(_OBJECTS, events.ADD | events.UPDATE)
        pods = ClusterEvent(events.POD, events.DELETE)
        return [ClusterEventWithHint(each) for each in (pods, node, reports)]

    # -- pods that a preemption takes away for a trial ---------------------------------------------

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Start to follow such pods, if the arguments say so."""
        if self._follows_victims:
            state.write(self._KEY, _Victims())
        return None, None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
        """`added` is back."""
        victims = state.read(self._KEY)
        if victims is not None:
            victims.pods.pop(added.pod.key, None)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        """`removed` is taken away."""
        victims = state.read(self._KEY)
        if victims is not None:
            victims.pods[removed.pod.key] = None
        return None

    # -- filter ------------------------------------------------------------------------------------

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse a node with the policy single-numa-node that cannot align the pod."""
        qos = quality(pod)
        if qos == "BestEffort" and not asks_for_devices(pod):
            return None
        topology, reliable = self.cache.read(node.name)
        if not reliable:
            return unschedulable("invalid node topology data")
        if topology is None or topology.manager.policy != "single-numa-node":
            return None
        align = _align_pod if topology.manager.scope == "pod" else _align_containers
        status = align(qos, pod, node, topology.copy_zones())
        victims = state.read(self._KEY)
        if status is not None and not (victims and victims.pods):
            self.cache.refused(node.name)
        return status

    # -- score -------------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0 to 100; pods that are not Guaranteed fit everywhere alike. Raises PanicError as upstream."""
        qos = quality(pod)
        if qos != "Guaranteed":
            return MOST
        topology, _ = self.cache.read(node.name)
        return 0 if topology is None else self._score(qos, pod, topology)

    def _score(self, qos: str, pod: Pod, topology: Topology) -> int:
        manager, zones = topology.manager, topology.copy_zones()
        whole = manager.scope == "pod"
        parts: list[Requests] = [effective_request(pod)] if whole else _containers(pod)
        if self._strategy is None:
            return fewest_zones(qos, parts, zones, manager, whole_pod=whole)
        if manager.policy != "single-numa-node":
            return 0
        return mean_of_zones(parts, zones, self._strategy, self._weights, whole_pod=whole)

    # -- what was decided --------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Tell the cache."""
        self.cache.reserve(node_name, pod)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Tell the cache."""
        self.cache.unreserve(node_name, pod)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Tell the cache."""
        self.cache.bound(node_name, pod)


def _containers(pod: Pod) -> list[Requests]:
    return [each.resources.requests for each in (*pod.spec.init_containers, *pod.spec.containers)]


def _align_pod(qos: str, pod: Pod, node: NodeInfo, zones: Sequence[Zone]) -> Status | None:
    if _zone_for(qos, node, zones, effective_request(pod)) is None:
        return unschedulable("cannot align pod")
    return None


def _align_containers(qos: str, pod: Pod, node: NodeInfo, zones: Sequence[Zone]) -> Status | None:
    for container in pod.spec.init_containers:
        if _zone_for(qos, node, zones, container.resources.requests) is None:
            kind = "sidecar" if container.restart_policy == "Always" else "init"
            return unschedulable(f"cannot align {kind} container")
    for container in pod.spec.containers:
        chosen = _zone_for(qos, node, zones, container.resources.requests)
        if chosen is None:
            return unschedulable("cannot align container")
        for told in _take(qos, zones, chosen, container.resources.requests):
            return error("inconsistent resource accounting", told)
    return None


def _zone_for(qos: str, node: NodeInfo, zones: Sequence[Zone], requests: Requests) -> int | None:
    """Return the number of the zone that the kubelet would choose; 0 where any would do."""
    possible: dict[int, None] | None = None
    for name, amount in requests.items():
        if amount.is_zero():
            continue
        if name not in _ALWAYS_THERE and name not in node.allocatable.scalars:
            return None
        having = [zone for zone in zones if name in zone.available]
        if not having and (
            name in ("ephemeral-storage", "storage") or not is_native_resource(name)
        ):
            continue
        fits = {z.id: None for z in having if suits(qos, name, amount, z.available[name])}
        possible = fits if possible is None else {each: None for each in possible if each in fits}
        if not possible:
            return None
    return 0 if possible is None else min(possible)


def _take(qos: str, zones: Sequence[Zone], chosen: int, requests: Requests) -> Iterator[str]:
    """Take a container's request out of its zone; yields what cannot be."""
    for zone in zones:
        if zone.id != chosen:
            continue
        for name in sorted(requests):
            amount, there = requests[name], zone.available.get(name)
            if (qos != "Guaranteed" and is_affine(name)) or amount.is_zero() or there is None:
                continue
            if there < amount:
                yield (
                    f"resource {json.dumps(name)} request {amount} exceeds NUMA {chosen}"
                    f" availability {there}"
                )
            zone.available[name] = there - amount
