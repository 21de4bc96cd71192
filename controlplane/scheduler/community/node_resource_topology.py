"""NodeResourceTopologyMatch: nodes whose topology manager can align a pod, and how well they fit it.

Upstream: pkg/noderesourcetopology/filter.go, score.go, prefilter.go and plugin.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from controlplane.api.pod import Pod
from controlplane.api.times import SECOND
from controlplane.client import calls
from controlplane.client.errors import RequestFailed
from controlplane.client.resources import PODS, Resource
from controlplane.scheduler.community.args import arguments
from controlplane.scheduler.community.numa import (
    Topology,
    Zone,
    asks_for_devices,
    effective_request,
    is_affine,
    quality,
)
from controlplane.scheduler.community.numa_cache import OverReserve, make_cache
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
from controlplane.scheduler.framework.custom import CustomKind, Tree
from controlplane.scheduler.framework.cycle_state import Clonable, CycleState
from controlplane.scheduler.framework.events import ClusterEvent, ClusterEventWithHint
from controlplane.scheduler.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PostBindPlugin,
    PreFilterExtensions,
    PreFilterResult,
    ReservePlugin,
    ScorePlugin,
    Status,
    SteppedPreFilterPlugin,
    error,
    unschedulable,
)
from controlplane.scheduler.framework.notified import ObjectHandler, PodHandler, ResyncedPlugin
from controlplane.scheduler.state.resources import is_native_resource

if TYPE_CHECKING:
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo

_ALWAYS_THERE: Final = ("cpu", "memory", "pods", "ephemeral-storage")
TOPOLOGY: Final = CustomKind(
    "NodeResourceTopology", Resource("topology.node.k8s.io", "v1alpha2", "noderesourcetopologies")
)
PODS_TOO: Final = CustomKind("Pod", PODS)
"""Pods as a dedicated informer has them."""


class _Victims(Clonable):
    """Pods that a preemption takes off nodes for a trial, by their keys."""

    def __init__(self, pods: Mapping[str, None] | None = None) -> None:
        self.pods = dict(pods or {})

    def clone(self) -> Self:
        return type(self)(self.pods)


class NodeResourceTopologyMatch(
    SteppedPreFilterPlugin,
    PreFilterExtensions,
    FilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PostBindPlugin,
    EnqueueExtensions,
    PodHandler,
    ObjectHandler,
    ResyncedPlugin,
):
    """Alignment to single NUMA zones as the kubelet will do it.

    `objects` holds objects of kind NodeResourceTopology; without them the objects are read from the server: with a
    cache at its start and when it is brought up to date, else all of them in PreFilter, where upstream reads them one
    by one in Filter and Score. `cache` gets the notifications that `numa_cache` names.
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
        self._handle = handle
        self._objects = Objects() if objects is None else objects
        self._period = given["CacheResyncPeriodSeconds"] * SECOND
        self._dedicated = objects is None and given["Cache"]["InformerMode"] == "Dedicated"
        self._detects = given["Cache"]["ForeignPodsDetect"] != "None"
        pods = self._dedicated_pods if self._dedicated else handle.listers.pods.list
        self.cache = make_cache(given, self._objects, pods, handle.profiles)
        self._reads_live = objects is None and not isinstance(self.cache, OverReserve)
        if isinstance(self.cache, OverReserve):
            self.custom = (TOPOLOGY, PODS_TOO) if self._dedicated else (TOPOLOGY,)

    def _dedicated_pods(self) -> Iterator[Pod]:
        """Pods as an informer of the plugin's own has them, those that have ended too."""
        return map(Pod.from_tree, self._handle.custom.list(PODS_TOO.kind))

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """Freed resources of nodes, and new reports of them."""
        node = ClusterEvent(events.NODE, events.ADD | events.UPDATE_NODE_ALLOCATABLE)
        reports = ClusterEvent(TOPOLOGY.event, events.ADD | events.UPDATE)
        pods = ClusterEvent(events.POD, events.DELETE)
        return [ClusterEventWithHint(each) for each in (pods, node, reports)]

    # -- the cache ---------------------------------------------------------------------------------

    @property
    def hears_pods(self) -> bool:
        """Return whether it looks at the pods of other schedulers, on the scheduler's informer."""
        return self._detects and not self._dedicated and isinstance(self.cache, OverReserve)

    def pod_added(self, pod: Pod) -> None:
        """Look whether another scheduler placed the pod."""
        assert isinstance(self.cache, OverReserve)
        self.cache.pod_seen(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Look whether another scheduler placed the pod."""
        self.pod_added(new)

    pod_deleted = pod_added

    def object_added(self, kind: str, tree: Tree) -> None:
        """Look at a pod; new reports are not looked at."""
        if kind == PODS_TOO.kind and self._detects:
            self.pod_added(Pod.from_tree(tree))

    def object_updated(self, kind: str, old: Tree, new: Tree) -> None:
        """Look at a pod, or whether a node was configured anew."""
        if kind == TOPOLOGY.kind and isinstance(self.cache, OverReserve):
            self.cache.object_changed(new)
        self.object_added(kind, new)

    def object_deleted(self, kind: str, tree: Tree) -> None:
        """Look at a pod."""
        self.object_added(kind, tree)

    @property
    def resync_period(self) -> int:
        """Return the time between two passes over the cache, nanoseconds."""
        return self._period if isinstance(self.cache, OverReserve) else 0

    @property
    def awaits_resync(self) -> bool:
        """Return whether a node is not relied on, or was configured anew."""
        return isinstance(self.cache, OverReserve) and any(self.cache.dirty())

    def fill(self) -> Effects[None]:
        """Read all reports: nodes that report for the first time later on stay unknown, as upstream."""
        assert isinstance(self.cache, OverReserve)
        self.cache.fill((yield from _listed()))

    def resync(self) -> Effects[bool]:
        """Take over what nodes reported."""
        assert isinstance(self.cache, OverReserve)
        return (yield from self.cache.resync_steps(_read))

    # -- pods that a preemption takes away for a trial ---------------------------------------------

    def pre_filter_steps(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> Effects[tuple[PreFilterResult | None, Status | None]]:
        """As `pre_filter`, with reports that are as they are now where there is no cache."""
        if self._reads_live and not _passes_everywhere(quality(pod), pod):
            self._objects.replace((yield from _listed()))
        return self.pre_filter(state, pod, nodes)

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
        if _passes_everywhere(qos, pod):
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


def _passes_everywhere(qos: str, pod: Pod) -> bool:
    return qos == "BestEffort" and not asks_for_devices(pod)


def _listed() -> Effects[list[Tree]]:
    """Read all reports from the server; none where that fails."""
    try:
        found = yield from calls.list_objects(TOPOLOGY.resource)
    except RequestFailed:
        return []
    return [] if found is None else [each.tree for each in found.items]  # a what-if reads nothing


def _read(node: str) -> Effects[Tree | None]:
    """Read the report of a node from the server; None where that fails."""
    try:
        found = yield from calls.get(TOPOLOGY.resource, "", node)
    except RequestFailed:
        return None
    return found.tree


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
