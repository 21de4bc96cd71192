"""The container manager: the topology manager with the CPU and the memory manager behind it.

Upstream: pkg/kubelet/cm/container_manager_linux.go. Its memory is lost with the kubelet's process;
what it writes is there again at the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from controlplane.api.pod import Pod
from controlplane.api.quantity import Quantity
from controlplane.api.tree import EMPTY_MAP
from controlplane.kubelet.cm.cpumanager.manager import NONE as NO_CPU_POLICY
from controlplane.kubelet.cm.cpumanager.manager import CPUManager
from controlplane.kubelet.cm.cpumanager.state import FILE as CPU_FILE
from controlplane.kubelet.cm.cpumanager.state import Containers
from controlplane.kubelet.cm.cpuset import EMPTY, CPUSet
from controlplane.kubelet.cm.devicemanager.manager import DeviceManager
from controlplane.kubelet.cm.fixes import AS_RELEASED, ManagerFixes
from controlplane.kubelet.cm.memorymanager.manager import NONE as NO_MEMORY_POLICY
from controlplane.kubelet.cm.memorymanager.manager import MemoryManager, MemoryReservation
from controlplane.kubelet.cm.memorymanager.state import FILE as MEMORY_FILE
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.cm.topologymanager.manager import CONTAINER, Decision, TopologyManager
from controlplane.kubelet.cm.topologymanager.policy import NONE as NO_TOPOLOGY_POLICY
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.features import DEFAULTS, Features
from controlplane.kubelet.machine import Machine
from controlplane.metrics.numbers import Metrics

FILES: Final = (CPU_FILE, MEMORY_FILE)
"""Files on the disk."""


@attrs.frozen
class Policies:
    """Policies by which a node assigns CPUs and memory; the defaults are the kubelet's.

    `reservation` is what node allocatable keeps back: kube and system reservation and hard eviction.
    """

    topology: str = NO_TOPOLOGY_POLICY
    topology_scope: str = CONTAINER
    topology_options: Mapping[str, str] = EMPTY_MAP
    cpu: str = NO_CPU_POLICY
    cpu_options: Mapping[str, str] = EMPTY_MAP
    reserved_cpus: CPUSet = EMPTY
    memory: str = NO_MEMORY_POLICY
    reserved_memory: tuple[MemoryReservation, ...] = ()
    reservation: Mapping[str, Quantity] = EMPTY_MAP


class ContainerManager:
    """Operations are generators: see `controlplane.decisions`."""

    def __init__(
        self,
        machine: Machine,
        policies: Policies,
        *,
        active_pods: Callable[[], Sequence[Pod]] = tuple,
        sources_ready: Callable[[], bool] = lambda: True,
        features: Features = DEFAULTS,
        metrics: Metrics | None = None,
        fixes: ManagerFixes = AS_RELEASED,
        plugins_now: Callable[[], int] | None = None,
        running: Callable[[str, str], bool] = lambda _uid, _container: False,
    ) -> None:
        """With `plugins_now`, the clock in nanoseconds, devices of plugins are assigned, too.

        `running` returns whether the runtime had a container running when the kubelet started. Raises ManagerError for
        policies that the machine or the kubelet does not take.
        """
        self.machine = machine
        self.fixes = fixes
        self.metrics = metrics or Metrics()
        self.topology = TopologyManager(
            machine.nodes,
            policies.topology,
            policies.topology_scope,
            policies.topology_options,
            pod_level_managers=features.enabled("PodLevelResourceManagers"),
            metrics=self.metrics,
        )
        view = KubeletView(active_pods, sources_ready, features, self.metrics, fixes)
        self.cpu = CPUManager(
            machine,
            policies.cpu,
            self.topology,
            view,
            options=policies.cpu_options,
            reservation=policies.reservation,
            reserved_cpus=policies.reserved_cpus,
        )
        self.memory = MemoryManager(
            machine.nodes,
            policies.memory,
            self.topology,
            view,
            reservation=policies.reservation,
            reserved_memory=policies.reserved_memory,
        )
        self.topology.providers = [self.cpu, self.memory]
        self.devices: DeviceManager | None = None
        if plugins_now is not None:
            nodes = tuple(node.id for node in machine.nodes)
            self.devices = DeviceManager(nodes, self.topology.affinity, view, plugins_now, running)
            self.topology.providers.insert(0, self.devices)

    @property
    def hands_out(self) -> bool:
        """Return whether containers get CPUs or memory of their own."""
        return (self.cpu.state.policy, self.memory.state.policy) != (
            NO_CPU_POLICY,
            NO_MEMORY_POLICY,
        )

    @property
    def holds(self) -> bool:
        """Return whether a container has CPUs or memory of its own."""
        return bool(self.cpu.state.assignments or self.memory.state.entries)

    def start(self, files: Mapping[str, str], containers: Containers | None = None) -> Steps[None]:
        """Begin with what the disk has. Raises ManagerError, which ends the kubelet."""
        yield from self.cpu.start(files.get(CPU_FILE), containers)
        yield from self.memory.start(files.get(MEMORY_FILE))

    def admit(self, pod: Pod) -> Steps[Decision]:
        """Decide about a pod that counts as active already, and give it what it asks for."""
        return (yield from self.topology.admit(pod))

    def add_container(self, pod: Pod, container: str, container_id: str) -> Steps[None]:
        """A container was made and is about to be started. Upstream: PreStartContainer."""
        self.cpu.add_container(pod.uid, container, container_id)
        yield from self.memory.add_container(pod, container, container_id)
        self.topology.add_container(pod.uid, container, container_id)

    def remove_container(self, container_id: str) -> Steps[None]:
        """A container has stopped: only its hint is forgotten. Upstream: PostStopContainer.

        Before #90377 whatever was assigned under its name was released, although a new instance
        might have it by now.
        """
        known = self.cpu.containers.get(container_id)
        self.topology.remove_container(container_id)
        if known is not None and not self.fixes.release_by_activity:
            yield from self.cpu.remove(*known)
            yield from self.memory.remove(*known)

    def remove_stale_state(self) -> Steps[None]:
        """Take back what containers of inactive pods have."""
        yield from self.cpu.remove_stale_state()
        yield from self.memory.remove_stale_state()
