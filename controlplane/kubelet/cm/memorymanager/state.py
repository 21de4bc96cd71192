"""The memory manager's state as a value, and its checkpoint file.

Upstream: pkg/kubelet/cm/memorymanager/state. All amounts are in bytes, unsigned 64 bits wide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import attrs

from controlplane.kubelet.cm.assigned import with_container, without_container, without_pod
from controlplane.kubelet.cm.checkpoint import (
    CheckpointError,
    checksum_of,
    corrupted,
    not_restored,
)
from controlplane.kubelet.cm.go_json import (
    INT,
    STRING,
    UINT64,
    GoJSONError,
    Map,
    Scalar,
    Slice,
    Struct,
    unmarshal,
)

FILE: Final = "memory_manager_state"
WRAP: Final = 1 << 64


@attrs.frozen
class MemoryTable:
    """One kind of memory of a NUMA node: what is free and reserved is allocatable."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


@attrs.frozen
class NUMANodeState:
    """The number of blocks on a node, the group of nodes to which it belongs, and its memory by kind."""

    assignments: int
    cells: tuple[int, ...]
    memory: Mapping[str, MemoryTable]


@attrs.frozen
class Block:
    """Memory of one kind on a group of NUMA nodes."""

    nodes: tuple[int, ...]
    kind: str
    size: int


Blocks = tuple[Block, ...]
MachineState = Mapping[int, NUMANodeState]
Entries = Mapping[str, Mapping[str, Blocks]]

_BLOCK: Final = Struct(
    "Block", {"numaAffinity": Slice("[]int", INT), "type": STRING, "size": UINT64}
)
_BLOCKS: Final = Slice("[]state.Block", _BLOCK)
_TABLE: Final = Struct(
    "MemoryTable",
    dict.fromkeys(("total", "systemReserved", "allocatable", "reserved", "free"), UINT64),
)
_NODE: Final = Struct(
    "NUMANodeState",
    {
        "numberOfAssignments": INT,
        "memoryMap": Map("map[v1.ResourceName]*state.MemoryTable", _TABLE),
        "cells": Slice("[]int", INT),
    },
)
_V1: Final = Struct(
    "MemoryManagerCheckpoint",
    {
        "policyName": STRING,
        "machineState": Map("state.NUMANodeMap", _NODE, integers=True),
        "entries": Map(
            "state.ContainerMemoryAssignments", Map("map[string][]state.Block", _BLOCKS)
        ),
        "checksum": Scalar("checksum.Checksum", text=False, unsigned=True),
    },
)
_PODS: Final = Map("state.PodMemoryAssignments", Struct("PodEntry", {"memoryBlocks": _BLOCKS}))
_V2: Final = Struct("MemoryManagerCheckpointV2", {**_V1.fields, "podEntries": _PODS})


@attrs.frozen(slots=False)
class MemoryState:
    """The assigned memory; `pods` are the blocks of pods as a whole, None without their gate."""

    policy: str
    machine: MachineState = attrs.field(factory=dict)
    entries: Entries = attrs.field(factory=dict)
    pods: Mapping[str, Blocks] | None = None

    def blocks(self, pod_uid: str, container: str) -> Blocks | None:
        """The memory of a container, None when it has none."""
        return self.entries.get(pod_uid, {}).get(container)

    def of_pod(self, pod_uid: str) -> Blocks | None:
        """The memory of a pod as a whole, None when it has none."""
        return None if self.pods is None else self.pods.get(pod_uid)

    def with_machine(self, machine: MachineState) -> MemoryState:
        """Other sums on the NUMA nodes."""
        return attrs.evolve(self, machine=machine)

    def with_blocks(self, pod_uid: str, container: str, blocks: Blocks) -> MemoryState:
        """A container gets this memory."""
        changed = with_container(self.entries, pod_uid, container, blocks)
        return attrs.evolve(self, entries=changed)

    def without(self, pod_uid: str, container: str) -> MemoryState:
        """A container has no memory any more."""
        return attrs.evolve(self, entries=without_container(self.entries, pod_uid, container))

    def with_pod(self, pod_uid: str, blocks: Blocks) -> MemoryState:
        """A pod as a whole gets this memory."""
        return attrs.evolve(self, pods={**(self.pods or {}), pod_uid: blocks})

    def without_pod(self, pod_uid: str) -> MemoryState:
        """A pod as a whole has no memory any more."""
        return attrs.evolve(self, pods=without_pod(self.pods, pod_uid))

    @cached_property
    def text(self) -> str:
        """The checkpoint file to the byte."""
        by_text = sorted(self.machine.items(), key=lambda item: str(item[0]))
        tree: dict[str, Any] = {
            "policyName": self.policy,
            "machineState": {str(node): _node_tree(state) for node, state in by_text},
        }
        if self.entries:
            tree["entries"] = {
                uid: {name: _block_trees(blocks) for name, blocks in sorted(pod.items())}
                for uid, pod in sorted(self.entries.items())
            }
        if self.pods:
            tree["podEntries"] = {
                uid: {"memoryBlocks": _block_trees(blocks)}
                for uid, blocks in sorted(self.pods.items())
            }
        tree["checksum"] = checksum_of(_dump(self))
        return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def _node_tree(state: NUMANodeState) -> dict[str, Any]:
    return {
        "numberOfAssignments": state.assignments,
        "memoryMap": {
            kind: {
                "total": table.total,
                "systemReserved": table.system_reserved,
                "allocatable": table.allocatable,
                "reserved": table.reserved,
                "free": table.free,
            }
            for kind, table in sorted(state.memory.items())
        },
        "cells": list(state.cells),
    }


def _block_trees(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    return [
        {"numaAffinity": list(block.nodes), "type": block.kind, "size": block.size}
        for block in blocks
    ]


def _dump(state: MemoryState) -> str:
    """The Go object as spew prints it."""
    nodes = " ".join(
        f"{node}:<*>{_node_dump(each)}" for node, each in sorted(state.machine.items())
    )
    entries = " ".join(
        f"{uid}:map[{' '.join(f'{name}:{_block_dump(b)}' for name, b in sorted(pod.items()))}]"
        for uid, pod in sorted(state.entries.items())
    )
    pods = ""
    if state.pods is not None:
        listed = " ".join(
            f"{uid}:{{MemoryBlocks:([]state.Block){_block_dump(blocks)}}}"
            for uid, blocks in sorted(state.pods.items())
        )
        pods = f" PodEntries:(state.PodMemoryAssignments)map[{listed}]"
    return (
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){state.policy} "
        f"MachineState:(state.NUMANodeMap)map[{nodes}] "
        f"Entries:(state.ContainerMemoryAssignments)map[{entries}]{pods} "
        "Checksum:(checksum.Checksum)0}"
    )


def _node_dump(state: NUMANodeState) -> str:
    memory = " ".join(
        f"{kind}:<*>{{TotalMemSize:(uint64){table.total} "
        f"SystemReserved:(uint64){table.system_reserved} "
        f"Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} "
        f"Free:(uint64){table.free}}}"
        for kind, table in sorted(state.memory.items())
    )
    return (
        f"{{NumberOfAssignments:(int){state.assignments} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable)map[{memory}] "
        f"Cells:([]int){_list(state.cells)}}}"
    )


def _block_dump(blocks: Sequence[Block]) -> str:
    shown = " ".join(
        f"{{NUMAAffinity:([]int){_list(block.nodes)} Type:(v1.ResourceName){block.kind} "
        f"Size:(uint64){block.size}}}"
        for block in blocks
    )
    return f"[{shown}]"


def _list(numbers: Iterable[int]) -> str:
    return f"[{' '.join(map(str, numbers))}]"


def restore(text: str, policy: str, *, pod_entries: bool = False) -> MemoryState:
    """The state of a file. Raises CheckpointError, which keeps the kubelet from starting."""
    try:
        state = _restore(text, pod_entries)
        if state.policy != policy:
            raise CheckpointError(
                f'[memorymanager] configured policy "{policy}" differs from state checkpoint '
                f'policy "{state.policy}"'
            )
    except (CheckpointError, GoJSONError) as error:
        raise not_restored(error, "memory manager", FILE) from None
    return state


def _restore(text: str, pod_entries: bool) -> MemoryState:
    if pod_entries:
        try:
            return _read(text, _V2)
        except (CheckpointError, GoJSONError):
            return attrs.evolve(_read(text, _V1), pods={})
    return _read(text, _V1)


def _read(text: str, target: Struct) -> MemoryState:
    found = unmarshal(text, target)
    machine = {
        node: NUMANodeState(
            each.get("numberOfAssignments") or 0,
            tuple(each.get("cells") or ()),
            {kind: _table(table) for kind, table in sorted((each.get("memoryMap") or {}).items())},
        )
        for node, each in sorted((found.get("machineState") or {}).items())
    }
    entries = {
        uid: {name: _blocks(blocks) for name, blocks in sorted(pod.items())}
        for uid, pod in sorted((found.get("entries") or {}).items())
        if pod
    }
    pods = None
    if target is _V2:
        listed = sorted((found.get("podEntries") or {}).items())
        pods = {uid: _blocks((entry or {}).get("memoryBlocks")) for uid, entry in listed}
    state = MemoryState(found.get("policyName") or "", machine, entries, pods)
    checksum = found.get("checksum") or 0
    if checksum == 0 and target is _V1:
        return state  # the older format accepts it without a look
    if checksum != checksum_of(_dump(state)):
        raise corrupted()
    return state


def _table(given: Mapping[str, int] | None) -> MemoryTable:
    names = ("total", "systemReserved", "allocatable", "reserved", "free")
    return MemoryTable(*((given or {}).get(name) or 0 for name in names))


def _blocks(given: Sequence[Mapping[str, Any]] | None) -> Blocks:
    return tuple(
        Block(tuple(each.get("numaAffinity") or ()), each.get("type") or "", each.get("size") or 0)
        for each in given or ()
    )
