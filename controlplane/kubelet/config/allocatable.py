"""Capacity of a node, its reservations, and the allocatable rest.

Upstream: pkg/kubelet/cm/node_container_manager_linux.go, pkg/kubelet/nodestatus/setters.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.api.pod_resources import CPU, EPHEMERAL_STORAGE, HUGE_PAGES, MEMORY, PODS
from controlplane.api.quantity import Quantity, parse
from controlplane.kubelet.cm.container_manager import Policies
from controlplane.kubelet.cm.memorymanager.machine_state import huge_pages_name
from controlplane.kubelet.config.configuration import KubeletConfiguration
from controlplane.kubelet.machine import Machine

_ZERO: Final = parse("0")
_EVICTION: Final = {"memory.available": MEMORY, "nodefs.available": EPHEMERAL_STORAGE}

Amounts = Mapping[str, Quantity]


def capacity_of(
    machine: Machine, config: KubeletConfiguration, ephemeral_storage: Quantity | None = None
) -> dict[str, Quantity]:
    """Return the capacity that a machine reports for its node."""
    pages: dict[str, int] = {}
    for node in machine.nodes:
        for each in node.huge_pages:
            name = huge_pages_name(each)
            pages[name] = pages.get(name, 0) + each.total
    pods = config.max_pods
    if config.pods_per_core > 0:
        pods = min(machine.num_cpus * config.pods_per_core, pods)
    found = {
        CPU: Quantity.new(machine.num_cpus),
        MEMORY: Quantity.new(machine.memory, "BinarySI"),
        PODS: Quantity.new(pods),
        **{name: Quantity.new(total, "BinarySI") for name, total in sorted(pages.items())},
    }
    if ephemeral_storage is not None:
        found[EPHEMERAL_STORAGE] = ephemeral_storage
    return found


def eviction_reservation(config: KubeletConfiguration, capacity: Amounts) -> dict[str, Quantity]:
    """Return the amounts that hard eviction keeps free."""
    return {
        resource: Quantity.new(config.eviction_hard[signal].of(capacity[resource]), "BinarySI")
        for signal, resource in _EVICTION.items()
        if signal in config.eviction_hard and resource in capacity
    }


def reservation(config: KubeletConfiguration, capacity: Amounts) -> dict[str, Quantity]:
    """Return the reservation of each resource: for the system, for Kubernetes, and for eviction.

    A resource without reservation is missing.
    """
    evictions = eviction_reservation(config, capacity)
    found = {}
    for name in capacity:
        total = _ZERO
        for part in (config.system_reserved, config.kube_reserved, evictions):
            total = total + part.get(name, _ZERO)
        if not total.is_zero():
            found[name] = total
    return found


def allocatable_of(config: KubeletConfiguration, capacity: Amounts) -> dict[str, Quantity]:
    """Return the allocatable amounts. Huge pages are taken from memory as well; nothing is below zero."""
    kept = reservation(config, capacity)
    found = {name: _less(total, kept.get(name, _ZERO)) for name, total in capacity.items()}
    for name, total in capacity.items():
        if name.startswith(HUGE_PAGES):
            found[MEMORY] = _less(found[MEMORY], total)
    return found


def _less(one: Quantity, other: Quantity) -> Quantity:
    left = one - other
    return Quantity.new(0, one.format) if left.sign() < 0 else left


def policies_of(config: KubeletConfiguration, capacity: Amounts) -> Policies:
    """Return the policies by which this node's container manager assigns CPUs and memory."""
    return Policies(
        topology=config.topology_manager_policy,
        topology_scope=config.topology_manager_scope,
        topology_options=config.topology_manager_policy_options,
        cpu=config.cpu_manager_policy,
        cpu_options=config.cpu_manager_policy_options,
        reserved_cpus=config.reserved_system_cpus,
        memory=config.memory_manager_policy,
        reserved_memory=config.reserved_memory,
        reservation=reservation(config, capacity),
    )
