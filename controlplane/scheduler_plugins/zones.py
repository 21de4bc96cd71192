"""The content of a NodeResourceTopology from a kubelet's report of its managers.

Follows node-feature-discovery's topology updater (`pkg/resourcemonitor`, `cmd/nfd-topology-updater`): zones with the
exclusive resources that are free, the topology manager's configuration, and the fingerprint of the node's pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import attrs

from controlplane.api.pod_resources import CPU, HUGE_PAGES, MEMORY
from controlplane.decisions import at_once
from controlplane.kubelet.cm.container_manager import ContainerManager
from controlplane.kubelet.cm.pod_resources import report as report_of
from controlplane.scheduler.community.pod_fingerprint import fingerprint

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.kubelet.cm.container_manager import Policies
    from controlplane.kubelet.cm.pod_resources import NodeResourcesReport
    from controlplane.kubelet.features import Features
    from controlplane.kubelet.machine import Machine, NUMANode

__all__ = ["API_VERSION", "KIND", "content", "first_report", "zones"]

API_VERSION: Final = "topology.node.k8s.io/v1alpha2"
KIND: Final = "NodeResourceTopology"
FINGERPRINT: Final = "nodeTopologyPodsFingerprint"


@attrs.define
class _Amount:
    capacity: int = 0
    allocatable: int = 0
    available: int = 0


def content(report: NodeResourcesReport) -> Tree:
    """Return the attributes and the zones of a node's object."""
    pods = fingerprint((pod.namespace, pod.name) for pod in report.pods)
    return {
        "attributes": [
            {"name": "topologyManagerPolicy", "value": report.policy},
            {"name": "topologyManagerScope", "value": report.scope},
            {"name": FINGERPRINT, "value": pods},
        ],
        "zones": zones(report),
    }


def first_report(node: str, machine: Machine, policies: Policies, features: Features) -> Tree:
    """Return the object of a node without pods: that of an updater which has run before the cluster starts."""
    containers = ContainerManager(machine, policies, features=features)
    at_once(containers.start({}))
    metadata = {"name": node}
    told = content(report_of(containers, ()))
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, **told}


def zones(report: NodeResourcesReport) -> list[Tree]:
    """Return a zone for each NUMA node; a resource without anything allocatable is left out."""
    amounts: dict[int, dict[str, _Amount]] = {node.id: {} for node in report.machine.nodes}
    _cpus(report, amounts)
    _memory(report, amounts)
    _devices(report, amounts)
    ids = [node.id for node in report.machine.nodes]
    return [_zone(node, amounts[node.id], ids) for node in report.machine.nodes]


def _cpus(report: NodeResourcesReport, amounts: dict[int, dict[str, _Amount]]) -> None:
    allocatable = dict.fromkeys(report.cpus)
    used = {cpu: None for pod in report.pods for each in pod.containers for cpu in each.cpus}
    for node in report.machine.nodes:
        own = [cpu for core in node.cores for cpu in core.threads]
        free = [cpu for cpu in own if cpu in allocatable]
        if free:
            left = sum(cpu not in used for cpu in free)
            amounts[node.id][CPU] = _Amount(len(own), len(free), left)


def _capacity(node: NUMANode, kind: str) -> int:
    """Return the bytes of a kind of memory that a node has."""
    if kind == MEMORY:
        return node.memory
    pages = {f"{HUGE_PAGES}{_binary(each.page_kib * 1024)}": each.total for each in node.huge_pages}
    return pages.get(kind, 0)


def _binary(size: int) -> str:
    for unit, power in (("Gi", 30), ("Mi", 20), ("Ki", 10)):
        if size >= 1 << power and not size % (1 << power):
            return f"{size >> power}{unit}"
    return str(size)


def _memory(report: NodeResourcesReport, amounts: dict[int, dict[str, _Amount]]) -> None:
    nodes = {node.id: node for node in report.machine.nodes}
    for block in report.memory:
        for number in block.nodes:
            capacity = _capacity(nodes[number], block.kind)
            amounts[number][block.kind] = _Amount(capacity, block.size, block.size)
    for pod in report.pods:
        for container in pod.containers:
            for block in container.memory:
                _take(block.size, (amounts[each].get(block.kind) for each in block.nodes))


def _take(size: int, parts: Iterable[_Amount | None]) -> None:
    """Take an amount out of several zones, as much as there is out of each, in order."""
    for part in parts:
        if part is not None:
            taken = min(size, part.available)
            part.available -= taken
            size -= taken


def _devices(report: NodeResourcesReport, amounts: dict[int, dict[str, _Amount]]) -> None:
    for each in report.devices:
        if each.node in amounts:
            count = len(each.ids)
            amounts[each.node][each.resource] = _Amount(count, count, count)
    for pod in report.pods:
        for container in pod.containers:
            for each in container.devices:
                part = None if each.node is None else amounts.get(each.node, {}).get(each.resource)
                _take(len(each.ids), (part,))


def _zone(node: NUMANode, amounts: dict[str, _Amount], ids: list[int]) -> Tree:
    zone: dict[str, Any] = {"name": f"node-{node.id}", "type": "Node"}
    if node.distances:
        zone["costs"] = [
            {"name": f"node-{other}", "value": cost}
            for other, cost in zip(ids, node.distances, strict=False)
        ]
    zone["resources"] = [
        {
            "name": name,
            "capacity": str(each.capacity),
            "allocatable": str(each.allocatable),
            "available": str(each.available),
        }
        for name, each in sorted(amounts.items())
    ]
    return zone
