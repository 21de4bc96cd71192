"""The CPUs of a machine as the CPU manager sees them: which NUMA node, socket, cache and core has which.

Upstream: pkg/kubelet/cm/cpumanager/topology/topology.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from controlplane.kubelet.cm.cpuset import CPUSet
from controlplane.kubelet.machine import Core, Machine

Masks = Mapping[int, int]
"""Element id -> the bits of its CPUs, by ascending id."""


class TopologyError(ValueError):
    """A machine that the CPU manager cannot use, or a CPU that it does not have."""


@attrs.frozen
class CPUTopology:
    """Totals as the machine reports them, and the CPUs of each element.

    A core's id is that of its lowest thread; without a reported uncore cache its socket stands in.
    """

    num_cpus: int
    num_sockets: int
    num_cores: int
    numas: Masks
    sockets: Masks
    uncores: Masks
    cores: Masks
    all_cpus: CPUSet

    @property
    def cpus_per_core(self) -> int:
        """On average, rounded down; 0 without cores."""
        return self.num_cpus // self.num_cores if self.num_cores else 0

    @property
    def cpus_per_socket(self) -> int:
        """On average, rounded down; 0 without sockets."""
        return self.num_cpus // self.num_sockets if self.num_sockets else 0

    @property
    def cpus_per_uncore(self) -> int:
        """On average, rounded down; 0 without caches."""
        return self.num_cpus // len(self.uncores) if self.uncores else 0

    def in_numas(self, ids: Iterable[int]) -> CPUSet:
        """The CPUs of these NUMA nodes; unknown ones have none."""
        mask = 0
        for each in ids:
            mask |= self.numas.get(each, 0)
        return CPUSet(mask)

    def sockets_of(self, numas: Iterable[int]) -> list[int]:
        """The sockets that these NUMA nodes touch."""
        mask = self.in_numas(numas).mask
        return [socket for socket, cpus in self.sockets.items() if cpus & mask]

    def in_sockets(self, ids: Iterable[int]) -> CPUSet:
        """The CPUs of these sockets."""
        mask = 0
        for each in ids:
            mask |= self.sockets.get(each, 0)
        return CPUSet(mask)

    def cores_with(self, cpus: CPUSet) -> CPUSet:
        """All threads of every core that has one of these CPUs. Raises TopologyError."""
        for cpu in cpus:
            if cpu not in self.all_cpus:
                raise TopologyError(f"unknown CPU ID: {cpu}")
        mask = 0
        for threads in self.cores.values():
            if threads & cpus.mask:
                mask |= threads
        return CPUSet(mask)

    def aligned_uncore(self, cpus: CPUSet) -> bool:
        """Return whether one uncore cache serves all of these CPUs."""
        return sum(1 for mask in self.uncores.values() if mask & cpus.mask) <= 1

    def numa_counts(self, cpus: CPUSet) -> dict[int, int]:
        """Return the number of these CPUs on each NUMA node that has any."""
        found = {}
        for numa, mask in self.numas.items():
            count = (mask & cpus.mask).bit_count()
            if count:
                found[numa] = count
        return found


def discover(machine: Machine) -> CPUTopology:
    """The topology of a machine. Raises TopologyError."""
    if machine.num_cpus == 0:
        raise TopologyError("could not detect number of cpus")
    placed: dict[int, tuple[int, int, int, int]] = {}
    num_cores = 0
    for node in machine.nodes:
        num_cores += len(node.cores)
        for core in node.cores:
            place = (node.id, core.socket, _uncore(core), _core_id(core))
            for cpu in core.threads:
                placed[cpu] = place
    parts: tuple[dict[int, int], ...] = ({}, {}, {}, {})
    for cpu, place in placed.items():
        for part, element in zip(parts, place, strict=True):
            part[element] = part.get(element, 0) | 1 << cpu
    numas, sockets, uncores, cores = (dict(sorted(part.items())) for part in parts)
    return CPUTopology(
        machine.num_cpus, machine.num_sockets, num_cores, numas, sockets, uncores, cores,
        CPUSet.of(placed),
    )  # fmt: skip


def _core_id(core: Core) -> int:
    if not core.threads:
        raise TopologyError("no cpus provided")
    if len(set(core.threads)) != len(core.threads):
        raise TopologyError("cpus provided are not unique")
    return min(core.threads)


def _uncore(core: Core) -> int:
    return core.uncore_caches[0] if core.uncore_caches else core.socket
