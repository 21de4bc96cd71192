"""Invariants of the managers' state; each violation is one line of text."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.api.pod import Pod
from controlplane.kubelet.cm.container_manager import ContainerManager
from controlplane.kubelet.cm.cpumanager.policy_static import StaticPolicy as StaticCPUs
from controlplane.kubelet.cm.cpumanager.state import CPUState
from controlplane.kubelet.cm.cpuset import EMPTY, CPUSet, union
from controlplane.kubelet.cm.devicemanager.pod_devices import DeviceState, devices_in
from controlplane.kubelet.cm.memorymanager.state import MemoryState


def cpu_violations(state: CPUState, every: CPUSet) -> list[str]:
    """No CPU has owners in two pods or is shared as well; none is lost.

    `every` is what there is to give: all CPUs, without those that are strictly reserved.
    """
    found = []
    taken: dict[str, CPUSet] = {}
    for uid, pod in state.assignments.items():
        taken[uid] = union(pod.values())
    for uid, cpus in (state.pods or {}).items():
        taken[uid] = taken.get(uid, EMPTY) | cpus
    seen = EMPTY
    for uid, cpus in taken.items():
        twice = cpus & seen
        if twice:
            found.append(f"CPUs {twice} belong to pod {uid} and to another")
        seen |= cpus
        shared = cpus & state.default
        if shared:
            found.append(
                f"CPUs {shared} of pod {uid} are in the default set {state.default} as well"
            )
    lost = every - seen - state.default
    if lost:
        found.append(f"CPUs {lost} are neither shared nor assigned")
    strange = (seen | state.default) - every
    if strange:
        found.append(f"CPUs {strange} are given away and are not there to give")
    return found


def memory_violations(state: MemoryState) -> list[str]:
    """Free and reserved make up what is allocatable; the blocks of all pods add up to what is reserved."""
    found = []
    for node, each in state.machine.items():
        for kind, table in each.memory.items():
            if table.free + table.reserved != table.allocatable:
                found.append(
                    f"NUMA node {node}: {kind}: {table.free} free and {table.reserved} reserved are "
                    f"not {table.allocatable}"
                )
    charged: dict[str, int] = {}
    for uid, pod in state.entries.items():
        whole = state.of_pod(uid)
        listed = [whole] if whole is not None else list(pod.values())
        for blocks in listed:
            for block in blocks:
                charged[block.kind] = charged.get(block.kind, 0) + block.size
    for kind, size in sorted(charged.items()):
        reserved = sum(
            each.memory[kind].reserved for each in state.machine.values() if kind in each.memory
        )
        if reserved != size:
            found.append(f"{kind}: {reserved} are reserved for blocks of {size}")
    return found


def device_violations(state: DeviceState) -> list[str]:
    """No device of a plugin has owners in two pods; the containers of one pod may use it one after the other."""
    found = []
    owners: dict[tuple[str, str], str] = {}
    for entry, by_numa in state.owned.items():
        for device in devices_in(by_numa):
            owner = owners.setdefault((entry.resource, device), entry.pod)
            if owner != entry.pod:
                found.append(f"{entry.resource} {device} belongs to pods {owner} and {entry.pod}")
    return found


def violations(manager: ContainerManager, gone: Iterable[Pod] = ()) -> list[str]:
    """All of them; `gone` are pods that ended and were removed, which hold nothing."""
    found = []
    policy = manager.cpu.policy
    if isinstance(policy, StaticCPUs):
        every = policy.topology.all_cpus
        if policy.options.strict_reservation:
            every -= policy.reserved
        found += cpu_violations(policy.state, every)
    found += memory_violations(manager.memory.state)
    if manager.devices is not None:
        found += device_violations(manager.devices.state())
    for pod in gone:
        for what, held in (
            ("CPUs", manager.cpu.state.assignments),
            ("memory", manager.memory.state.entries),
        ):
            if pod.uid in held:
                found.append(f"pod {pod.key} is over and holds {what}")
    return found
