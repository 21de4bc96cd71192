"""Topologies between scheduling cycles: nodes, other pods, usage by flavor.

Follows `tas_cache.go`, `tas_flavor.go`, `tas_nodes_cache.go` and `tas_non_tas_pod_cache.go` of
`pkg/cache/scheduler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controlplane.api.constraints import Toleration
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.tree import Tree, metadata_of
from controlplane.kueue.amounts import PODS, requests_of_texts
from controlplane.kueue.gates import Gates
from controlplane.kueue.topology.assignment import (
    add_to,
    domain_id,
    ends_at_nodes,
    take_from,
    with_pods,
)
from controlplane.kueue.topology.snapshot import FlavorSnapshot
from controlplane.kueue.topology.tree import NodeEntry, TopologyTree
from controlplane.kueue.workload.info import DomainRequests
from controlplane.kueue.workload.requests import pod_spec_requests

Usage = dict[str, dict[str, int]]


@dataclass(frozen=True)
class FlavorInfo:
    """The parts of a ResourceFlavor that placement needs."""

    topology: str
    node_labels: dict[str, str]
    tolerations: tuple[Toleration, ...]


class Nodes:
    """Nodes that are ready and schedulable. `generation` grows with each change that matters."""

    __slots__ = ("_nodes", "generation")

    def __init__(self) -> None:
        self._nodes: dict[str, NodeEntry] = {}
        self.generation = 0

    def sync(self, tree: Tree) -> None:
        """Take over a node's state."""
        node = Node.from_tree(tree)
        name = node.metadata.name
        if node.spec.unschedulable or not _is_ready(node):
            self.delete(name)
            return
        entry = NodeEntry(node, requests_of_texts((tree.get("status") or {}).get("allocatable")))
        known = self._nodes.get(name)
        if known is None or not _same(known, entry):
            self._nodes[name] = entry
            self.generation += 1

    def delete(self, name: str) -> None:
        """Forget a node."""
        if self._nodes.pop(name, None) is not None:
            self.generation += 1

    def matching(self, labels: dict[str, str], levels: Sequence[str]) -> list[NodeEntry]:
        """The nodes with a flavor's labels and all levels, by name."""
        return [
            self._nodes[name]
            for name in sorted(self._nodes)
            if _matches(self._nodes[name].node.metadata.labels, labels, levels)
        ]


def _is_ready(node: Node) -> bool:
    found = next((each for each in node.status.conditions if each.type == "Ready"), None)
    return found is not None and found.status == "True"


def _same(one: NodeEntry, other: NodeEntry) -> bool:
    return (
        one.node.metadata.labels == other.node.metadata.labels
        and one.node.spec.taints == other.node.spec.taints
        and one.allocatable == other.allocatable
    )


def _matches(own: dict[str, str], labels: dict[str, str], levels: Sequence[str]) -> bool:
    return all(own.get(key, "") == value for key, value in labels.items()) and all(
        level in own for level in levels
    )


class OtherPods:
    """Usage by pods outside topology aware placement, by node, each with one of the resource pods."""

    __slots__ = ("_pods", "nodes")

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, dict[str, int]]] = {}
        self.nodes: Usage = {}

    def update(self, tree: Tree) -> str:
        """Take over a pod's state; the node on which room was freed, empty if on none."""
        meta = metadata_of(tree)
        key = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
        if (tree.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return self.delete(key)
        spec = tree.get("spec") or {}
        node, requests = str(spec.get("nodeName") or ""), pod_spec_requests(spec)
        before = self._pods.get(key)
        self.delete(key)
        self._pods[key] = node, requests
        add_to(self.nodes.setdefault(node, {}), with_pods(requests, 1))
        if before is None or not before[0]:
            return ""
        smaller = any(amount > requests.get(name, amount) for name, amount in before[1].items())
        return before[0] if before[0] != node or smaller else ""

    def delete(self, key: str) -> str:
        """Forget a pod; its node, empty if it was not known."""
        known = self._pods.pop(key, None)
        if known is None:
            return ""
        node, requests = known
        usage = self.nodes.get(node)
        if usage is not None:
            take_from(usage, with_pods(requests, 1))
            if usage.get(PODS, 0) <= 0:
                del self.nodes[node]
        return node


class FlavorCache:
    """The usage of admitted workloads on a flavor, by lowest domain."""

    __slots__ = ("_tree", "_workloads", "info", "levels", "usage")

    def __init__(self, info: FlavorInfo, levels: tuple[str, ...]) -> None:
        self.info = info
        self.levels = levels
        self.usage: Usage = {}
        self._workloads: dict[str, tuple[DomainRequests, ...]] = {}
        self._tree: TopologyTree | None = None

    def update(self, info: FlavorInfo, levels: tuple[str, ...]) -> None:
        """Take over a change of the flavor or of its topology; usage stays."""
        if info.node_labels != self.info.node_labels or levels != self.levels:
            self._tree = None
        self.info, self.levels = info, levels

    def add_usage(self, workload: str, requests: Iterable[DomainRequests]) -> None:
        """Enter what a workload takes; entered before, it is replaced."""
        self.remove_usage(workload)
        self._workloads[workload] = tuple(requests)
        for each in self._workloads[workload]:
            add_to(
                self.usage.setdefault(domain_id(each.values), {}),
                with_pods(each.total(), each.count),
            )

    def remove_usage(self, workload: str) -> None:
        """Take it off again, if it was entered."""
        for each in self._workloads.pop(workload, ()):
            take_from(
                self.usage.setdefault(domain_id(each.values), {}),
                with_pods(each.total(), each.count),
            )

    def tree(self, nodes: Nodes, gates: Gates) -> TopologyTree:
        """The domains of the present nodes; the same tree as long as no node changed."""
        tree = self._tree
        if tree is None or tree.generation != nodes.generation:
            found = nodes.matching(self.info.node_labels, self.levels)
            tree = TopologyTree(self.levels, found, nodes.generation)
            if gates.enabled("TASCacheTopologyTree"):
                self._tree = tree
        return tree


class TopologyCache:
    """Topologies, the flavors that name them, nodes and other pods.

    Args:
        gates: Kueue's feature gates.
    """

    __slots__ = ("_flavors", "_gates", "_infos", "_topologies", "nodes", "pods")

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self._infos: dict[str, FlavorInfo] = {}
        self._topologies: dict[str, tuple[str, ...]] = {}
        self._flavors: dict[str, FlavorCache] = {}
        self.nodes = Nodes()
        self.pods = OtherPods()

    def flavor(self, name: str) -> FlavorCache | None:
        """A flavor whose topology is known, None otherwise."""
        return self._flavors.get(name)

    def flavors(self) -> dict[str, FlavorCache]:
        """All of them by name."""
        return dict(self._flavors)

    def add_or_update_flavor(self, flavor: Tree) -> None:
        """Take over a ResourceFlavor with a topology; its topology cannot change."""
        name = str(metadata_of(flavor).get("name", ""))
        spec = flavor.get("spec") or {}
        tolerations = Pod.from_tree(
            {"spec": {"tolerations": spec.get("tolerations") or []}}
        ).spec.tolerations
        labels = dict(spec.get("nodeLabels") or {})
        known = self._infos.get(name)
        if known is not None:
            info = replace(known, node_labels=labels, tolerations=tolerations)
        else:
            info = FlavorInfo(str(spec.get("topologyName") or ""), labels, tolerations)
        self._infos[name] = info
        cached = self._flavors.get(name)
        if cached is not None:
            cached.update(info, cached.levels)
        elif known is None and info.topology in self._topologies:
            self._flavors[name] = FlavorCache(info, self._topologies[info.topology])

    def delete_flavor(self, name: str) -> None:
        """Forget a flavor and its usage."""
        self._infos.pop(name, None)
        self._flavors.pop(name, None)

    def add_topology(self, topology: Tree) -> None:
        """Take over a Topology, new or changed."""
        name = str(metadata_of(topology).get("name", ""))
        levels = tuple(
            each.get("nodeLabel", "") for each in (topology.get("spec") or {}).get("levels") or ()
        )
        self._topologies[name] = levels
        for flavor, info in self._infos.items():
            if info.topology == name:
                cached = self._flavors.get(flavor)
                if cached is None:
                    self._flavors[flavor] = FlavorCache(info, levels)
                else:
                    cached.update(cached.info, levels)

    def delete_topology(self, name: str) -> None:
        """Forget a Topology and the usage of its flavors."""
        self._topologies.pop(name, None)
        for flavor in [key for key, each in self._flavors.items() if each.info.topology == name]:
            del self._flavors[flavor]

    def sync_node(self, node: Tree) -> None:
        """Take over a node's state."""
        self.nodes.sync(node)

    def delete_node(self, name: str) -> None:
        """Forget a node."""
        self.nodes.delete(name)

    def flavors_of_nodes(self, *nodes: Tree) -> list[str]:
        """The flavors that select one of the nodes."""
        return [
            name
            for name, each in self._flavors.items()
            if any(
                _matches(metadata_of(node).get("labels") or {}, each.info.node_labels, each.levels)
                for node in nodes
            )
        ]

    def update_pod(self, pod: Tree) -> str:
        """Take over the state of a pod outside topology aware placement; the node with freed room."""
        return self.pods.update(pod)

    def delete_pod(self, key: str) -> str:
        """Forget such a pod; its node."""
        return self.pods.delete(key)

    def snapshots(self) -> dict[str, FlavorSnapshot]:
        """A snapshot of each flavor.

        Flavors whose lowest level is the node share nodes: each sees the usage of all of them.
        """
        shared: Usage | None = None
        if self._gates.enabled("TASHandleOverlappingFlavors"):
            shared = {}
            for each in self._flavors.values():
                if ends_at_nodes(each.levels):
                    for domain, usage in each.usage.items():
                        add_to(shared.setdefault(domain, {}), usage)
        return {
            name: self._snapshot(each, shared if ends_at_nodes(each.levels) else None)
            for name, each in self._flavors.items()
        }

    def _snapshot(self, flavor: FlavorCache, usage: Usage | None) -> FlavorSnapshot:
        tree = flavor.tree(self.nodes, self._gates)
        snapshot = FlavorSnapshot(flavor.info.topology, tree, flavor.info.tolerations, self._gates)
        for domain, amounts in (flavor.usage if usage is None else usage).items():
            snapshot.add_amounts(domain, amounts)
        for node, amounts in self.pods.nodes.items():
            domain_of_node = tree.leaf_of_node.get(node)
            if domain_of_node is not None:
                snapshot.take_free(domain_of_node, amounts)
        return snapshot
