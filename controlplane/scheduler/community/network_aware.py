"""NetworkOverhead and TopologicalSort: place and order the workloads of an application by its dependencies.

Upstream: pkg/networkaware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from controlplane.client.resources import Resource
from controlplane.scheduler.community.args import arguments
from controlplane.scheduler.community.scores import MOST
from controlplane.scheduler.framework.custom import CustomKind, CustomObjects, Tree
from controlplane.scheduler.framework.interface import (
    FilterPlugin,
    NormalizeScorePlugin,
    PreFilterPlugin,
    PreFilterResult,
    QueueSortPlugin,
    Status,
    error,
    unschedulable,
)
from controlplane.scheduler.framework.panic import NIL_POINTER, PanicError
from controlplane.scheduler.plugins.priority_sort import PrioritySort

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.state.node_info import NodeInfo

APP_GROUP: Final = CustomKind(
    "AppGroup", Resource("appgroup.diktyo.x-k8s.io", "v1alpha1", "appgroups")
)
NETWORK_TOPOLOGY: Final = CustomKind(
    "NetworkTopology",
    Resource("networktopology.diktyo.x-k8s.io", "v1alpha1", "networktopologies"),
)
GROUP: Final = "appgroup.diktyo.x-k8s.io"
"""The label with the name of a pod's application group."""
WORKLOAD: Final = "appgroup.diktyo.x-k8s.io.workload"
"""The label with the selector of a pod's workload."""
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
MEASURED: Final = "NetperfCosts"
"""The weights that are measured and hence sorted already."""
_UNKNOWN_COST: Final = 100
_SAME_ZONE_COST: Final = 1

Costs = dict[tuple[str, str], int]


def _label(pod: Pod, key: str) -> str:
    return str((pod.tree["metadata"].get("labels") or {}).get(key) or "")


def _found(items: Sequence[Tree], wanted: str, key: Callable[[Tree], str]) -> Tree | None:
    """Return what upstream's binary search finds, also in a list that is not sorted."""
    low, high = 0, len(items) - 1
    while low <= high:
        middle = (low + high) // 2
        at = key(items[middle])
        if at == wanted:
            return items[middle]
        if at < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return None


def _selector(tree: Tree) -> str:
    return str((tree.get("workload") or {}).get("selector") or "")


class TopologicalSort(QueueSortPlugin):
    """Pods of one application in the order of its AppGroup, others by priority and time."""

    name = "TopologicalSort"
    custom = (APP_GROUP,)

    def __init__(
        self, args: Mapping[str, Any] | None, handle: Handle, objects: CustomObjects | None = None
    ) -> None:
        self._namespaces = arguments(self.name, args)["Namespaces"]
        self._objects = handle.custom if objects is None else objects
        self._other = PrioritySort()

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Return whether `a` goes first; both of two pods with one index do. Raises PanicError without the group."""
        mine, theirs = a.pod_info.pod, b.pod_info.pod
        group = _label(mine, GROUP)
        if not group or group != _label(theirs, GROUP):
            return self._other.less(a, b)
        for namespace in self._namespaces:
            found = self._objects.get("AppGroup", namespace, group)
            if found is not None:
                order = (found.get("status") or {}).get("topologyOrder") or []
                return _index(order, mine) <= _index(order, theirs)
        raise PanicError(NIL_POINTER)


def _index(order: Sequence[Tree], pod: Pod) -> int:
    found = _found(order, _label(pod, WORKLOAD), _selector)
    return -1 if found is None else int(found.get("index") or 0)


class _Place(NamedTuple):
    """The place of a node; "" for what its labels do not tell."""

    name: str
    region: str
    zone: str


def _place(node: NodeInfo) -> _Place:
    assert node.node is not None
    labels = node.node.tree["metadata"].get("labels") or {}
    return _Place(node.name, labels.get(REGION) or "", labels.get(ZONE) or "")


@attrs.frozen
class Overhead:
    """The node's value for a pod: its dependencies that are near enough, those that are not, and their cost."""

    satisfied: int = 0
    violated: int = 0
    cost: int = 0


class NetworkOverhead(PreFilterPlugin, FilterPlugin, NormalizeScorePlugin):
    """Nodes near the pods that a pod depends on.

    `objects` holds objects of the kinds AppGroup and NetworkTopology.
    """

    name = "NetworkOverhead"
    custom = (APP_GROUP, NETWORK_TOPOLOGY)
    pod_labels = (GROUP,)
    _KEY: Final = "PreFilterNetworkOverhead"

    def __init__(
        self, args: Mapping[str, Any] | None, handle: Handle, objects: CustomObjects | None = None
    ) -> None:
        given = arguments(self.name, args)
        self._handle = handle
        self._objects = handle.custom if objects is None else objects
        self._namespaces = given["Namespaces"]
        self._weights = given["WeightsName"]
        self._topology_name = given["NetworkTopologyName"]

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Rate all nodes of the snapshot."""
        found, told = self.prepare(pod)
        state.write(self._KEY, found)
        return None, told if isinstance(told, Status) else None

    def prepare(self, pod: Pod) -> tuple[Mapping[str, Overhead] | None, Status | str]:
        """Return what each node means for a pod (None: all are equal), and what upstream says about it.

        Raises PanicError without the pod's AppGroup or the NetworkTopology.
        """
        group_name = _label(pod, GROUP)
        if not group_name:
            return None, "Pod does not belong to an AppGroup, return"
        group = self._object("AppGroup", group_name)
        topology = self._object("NetworkTopology", self._topology_name)
        if group is None or (topology is None and self._weights != MEASURED):
            raise PanicError(NIL_POINTER)
        wanted = _dependencies(group, _label(pod, WORKLOAD))
        if not wanted:
            return None, "Pod has no dependencies, return"
        pods = list(self._handle.listers.pods.labelled(GROUP, group_name))
        if not pods:
            return None, "No pods yet allocated, return"
        placed = [(_label(p, WORKLOAD), p.spec.node_name) for p in pods if p.spec.node_name]
        if not placed:
            return None, "Scheduled list is empty, return"
        return self._rate(topology, wanted, placed)

    def _rate(
        self,
        topology: Tree | None,
        wanted: Sequence[tuple[str, int]],
        placed: Sequence[tuple[str, str]],
    ) -> tuple[Mapping[str, Overhead] | None, Status | str]:
        places = {node.name: _place(node) for node in self._handle.snapshot.node_info_list}
        links = [(at, most) for of, at in placed for name, most in wanted if of == name]
        made = {}
        for own in places.values():
            if topology is None:
                raise PanicError(NIL_POINTER)
            costs = self._costs(topology, own)
            missing = [at for at, _ in links if at != own.name and at not in places]
            if missing:
                told = f'nodeinfo not found for node name "{missing[0]}"'
                return None, error(f"pod hostname not found: {told}")
            made[own.name] = _overhead(own, [(places[at], most) for at, most in links], costs)
        return made, "PreFilter State updated"

    def _object(self, kind: str, name: str) -> Tree | None:
        """Return the object of this name in the first namespace that has it with a uid."""
        for namespace in self._namespaces:
            found = self._objects.get(kind, namespace, name)
            if found is not None and found["metadata"].get("uid"):
                return found
        return None

    def _costs(self, topology: Tree, own: _Place) -> Costs:
        """Return the costs from a node's region and zone, by origin and destination."""
        costs: Costs = {}
        for weights in (topology.get("spec") or {}).get("weights") or ():
            if weights.get("name") != self._weights:
                continue
            keys = self._sorted(weights.get("topologyList") or [], "topologyKey")
            for key, origin in ((REGION, own.region), (ZONE, own.zone)):
                found = _found(keys, key, lambda tree: tree.get("topologyKey") or "")
                if not origin or found is None:
                    continue
                origins = self._sorted(found.get("originList") or [], "origin")
                listed = _found(origins, origin, lambda tree: tree.get("origin") or "") or {}
                for each in listed.get("costList") or ():
                    costs[origin, each.get("destination") or ""] = each.get("networkCost") or 0
        return costs

    def _sorted(self, items: Sequence[Tree], key: str) -> Sequence[Tree]:
        if self._weights == MEASURED:
            return items
        return sorted(items, key=lambda tree: tree.get(key) or "")

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse a node that violates more dependencies than it satisfies."""
        found = state.read(self._KEY)
        own = None if found is None else found.get(node.name)
        if own is None or own.violated <= own.satisfied:
            return None
        return unschedulable(
            f"Node {node.name} does not meet several network requirements from Workload dependencies:"
            f" Satisfied: {own.satisfied} Violated: {own.violated}"
        )

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """A number of any size; it is normalised."""
        found = state.read(self._KEY)
        return 0 if found is None else found.get(node.name, Overhead()).cost

    def normalize(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> Status | None:
        """The lowest cost is 100, the highest 0; all 0 where nothing costs anything."""
        lowest, highest = min(scores, default=0), max(scores, default=0)
        if lowest == 0 == highest:
            return None
        width = highest - lowest
        for at, score in enumerate(scores):
            scores[at] = MOST - (int(MOST * (score - lowest) / width) if width else 0)
        return None


def _dependencies(group: Tree, selector: str) -> list[tuple[str, int]]:
    """Return selector and largest cost of each dependency of a workload."""
    return [
        (_selector(each), int(each.get("maxNetworkCost") or 0))
        for workload in (group.get("spec") or {}).get("workloads") or ()
        if _selector(workload) == selector
        for each in workload.get("dependencies") or ()
    ]


def _overhead(own: _Place, links: Sequence[tuple[_Place, int]], costs: Costs) -> Overhead:
    satisfied = violated = total = 0
    for at, most in links:
        if at.name == own.name:
            satisfied += 1
            continue
        if not at.region and not at.zone:
            violated += 1
            total += _UNKNOWN_COST
            continue
        if own.region == at.region and own.zone == at.zone:
            satisfied += 1
            total += _SAME_ZONE_COST
            continue
        near = own.region == at.region
        cost = costs.get((own.zone, at.zone) if near else (own.region, at.region))
        total += _UNKNOWN_COST if cost is None else cost
        if cost is not None:
            satisfied += cost <= most
            violated += cost > most
    return Overhead(satisfied, violated, total)
