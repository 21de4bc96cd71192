"""NUMA nodes of devices: hints for the topology manager, and devices by what was decided.

Upstream: pkg/kubelet/cm/devicemanager/topology_hints.go and filterByAffinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.kubelet.cm.devicemanager.plugin import PluginDevice
from controlplane.kubelet.cm.devicemanager.pod_devices import NO_NUMA
from controlplane.kubelet.cm.topologymanager.hints import TopologyHint, choices, mask_of

__all__ = ["by_affinity", "device_hints", "has_topology"]

Known = Mapping[str, PluginDevice]


def has_topology(devices: Known) -> bool:
    """Return whether any device is near to some NUMA node."""
    return any(each.numa for each in devices.values())


def device_hints(
    devices: Known,
    numa_nodes: Sequence[int],
    available: Iterable[str],
    reusable: Iterable[str],
    request: int,
) -> list[TopologyHint]:
    """Return the choices of NUMA nodes that have enough devices; the smallest that could ever are preferred."""
    near = dict.fromkeys(node for each in devices.values() for node in each.numa)
    nodes = tuple(sorted(node for node in near if node in numa_nodes)) or tuple(numa_nodes)
    all_masks = [mask_of(each.numa) for each in devices.values()]
    free = [_mask(devices, each) for each in available]
    kept = [_mask(devices, each) for each in reusable if each in devices and devices[each].numa]
    smallest = len(nodes)
    found = []
    for choice in choices(nodes):
        if sum(bool(mask & choice.mask) for mask in all_masks) >= request:
            smallest = min(smallest, choice.size)
        if all(mask & choice.mask for mask in kept):
            matching = len(kept) + sum(bool(mask & choice.mask) for mask in free)
            if matching >= request:
                found.append(choice)
    return [each.preferred if each.size == smallest else each.plain for each in found]


def _mask(devices: Known, name: str) -> int:
    return mask_of(devices[name].numa) if name in devices else 0


def by_affinity(
    devices: Known, mask: int | None, available: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the available devices near to the decided NUMA nodes, those near to others, and those near to none.

    Without a decision, or without topology, all are near to none.
    """
    names = tuple(available)
    if mask is None or not has_topology(devices):
        return (), (), names
    near, far, nowhere = [], [], []
    for name in names:
        numa = devices[name].numa if name in devices else ()
        if not numa:
            nowhere.append(name)
        elif any(node != NO_NUMA and mask >> node & 1 for node in numa):
            near.append(name)
        else:
            far.append(name)
    return tuple(near), tuple(far), tuple(nowhere)
