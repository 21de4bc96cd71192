"""The kubelet's pod resources API: exclusive resources of containers, and allocatable resources.

Upstream: pkg/kubelet/apis/podresources. The policies are those that the real kubelet tells at /configz.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import attrs

from controlplane.kubelet.cm.topologymanager.manager import CONTAINER
from controlplane.kubelet.cm.topologymanager.policy import NONE

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.kubelet.cm.container_manager import ContainerManager
    from controlplane.kubelet.machine import Machine

__all__ = [
    "LIST",
    "WRITTEN",
    "Devices",
    "ListPodResources",
    "Memory",
    "NodeResourcesReport",
    "OfContainer",
    "OfPod",
    "StateWritten",
    "report",
]


@attrs.frozen
class ListPodResources:
    """The request for a report."""


@attrs.frozen
class StateWritten:
    """The notification of a watch of the managers' state files: one was written."""


LIST = ListPodResources()
WRITTEN = StateWritten()


class Memory(NamedTuple):
    """Bytes of a kind of memory on a group of NUMA nodes."""

    kind: str
    size: int
    nodes: tuple[int, ...]


class Devices(NamedTuple):
    """Devices of a resource on a NUMA node; without one where none is known."""

    resource: str
    ids: tuple[str, ...]
    node: int | None


@attrs.frozen
class OfContainer:
    """The CPUs, memory and devices that a container has for itself."""

    name: str
    cpus: tuple[int, ...] = ()
    memory: tuple[Memory, ...] = ()
    devices: tuple[Devices, ...] = ()


@attrs.frozen
class OfPod:
    """An active pod with its containers."""

    namespace: str
    name: str
    containers: tuple[OfContainer, ...]


@attrs.frozen
class NodeResourcesReport:
    """The answers of List and GetAllocatableResources, with the machine and the topology manager's configuration."""

    machine: Machine
    policy: str
    scope: str
    pods: tuple[OfPod, ...]
    cpus: tuple[int, ...]
    memory: tuple[Memory, ...]
    devices: tuple[Devices, ...]


def report(containers: ContainerManager, pods: Iterable[Pod]) -> NodeResourcesReport:
    """Return what these active pods have, and what can be given at all."""
    healthy: list[Devices] = []
    manager = containers.devices
    if manager is not None:
        for resource, ids in manager.healthy.items():
            of = manager.devices.get(resource, {})
            healthy += _by_node(resource, ((each, of[each].numa) for each in ids if each in of))
    return NodeResourcesReport(
        containers.machine,
        containers.topology.policy_name,
        containers.topology.scope if containers.topology.scope != NONE else CONTAINER,
        tuple(_of_pod(containers, pod) for pod in pods),
        tuple(containers.cpu.policy.allocatable),
        tuple(
            Memory(kind, table.allocatable, (node,))
            for node, state in sorted(containers.memory.state.machine.items())
            for kind, table in sorted(state.memory.items())
        ),
        tuple(healthy),
    )


def _by_node(resource: str, devices: Iterable[tuple[str, tuple[int, ...]]]) -> list[Devices]:
    found: dict[int | None, list[str]] = {}
    for name, nodes in devices:
        for node in nodes or (None,):
            found.setdefault(node, []).append(name)
    return [Devices(resource, tuple(ids), node) for node, ids in found.items()]


def _of_pod(containers: ContainerManager, pod: Pod) -> OfPod:
    names = [each.name for each in (*pod.spec.init_containers, *pod.spec.containers)]
    return OfPod(
        pod.namespace, pod.name, tuple(_of_container(containers, pod, name) for name in names)
    )


def _of_container(containers: ContainerManager, pod: Pod, name: str) -> OfContainer:
    cpus = containers.cpu.assigned.get(pod.uid, {}).get(name)
    blocks = containers.memory.assigned.get(pod.uid, {}).get(name, ())
    devices: list[Devices] = []
    if containers.devices is not None:
        for entry, by_node in containers.devices.owned.items():
            if (entry.pod, entry.container) == (pod.uid, name):
                devices += (
                    Devices(entry.resource, tuple(ids), node if node >= 0 else None)
                    for node, ids in by_node.items()
                )
    return OfContainer(
        name,
        () if cpus is None else tuple(cpus),
        tuple(Memory(each.kind, each.size, each.nodes) for each in blocks),
        tuple(devices),
    )
