"""The sums on NUMA nodes: how blocks are charged to them and given back, and whether they fit a file.

Upstream: pkg/kubelet/cm/memorymanager/policy_static.go (updateMachineState and its relatives).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from controlplane.api.pod_resources import HUGE_PAGES, MEMORY
from controlplane.api.quantity import Quantity
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.memorymanager.state import (
    WRAP,
    Block,
    MachineState,
    MemoryTable,
    NUMANodeState,
)
from controlplane.kubelet.machine import HugePages, NUMANode


def huge_pages_name(pages: HugePages) -> str:
    """The resource of a page size, such as `hugepages-2Mi`."""
    return HUGE_PAGES + Quantity.new(pages.page_kib * 1024, "BinarySI").canonical()


def default_machine_state(
    nodes: Iterable[NUMANode], reserved: Mapping[int, Mapping[str, int]]
) -> dict[int, NUMANodeState]:
    """Nothing is given away yet; what is reserved for the system and huge pages is set apart."""
    machine = {}
    for node in nodes:
        own = reserved.get(node.id, {})
        memory: dict[str, MemoryTable] = {}
        pages_total = 0
        for pages in node.huge_pages:
            name = huge_pages_name(pages)
            pages_total += pages.total
            memory[name] = _table(pages.total, own.get(name, 0), 0)
        memory[MEMORY] = _table(node.memory, own.get(MEMORY, 0), pages_total)
        machine[node.id] = NUMANodeState(0, (node.id,), dict(sorted(memory.items())))
    return machine


def _table(total: int, system: int, other: int) -> MemoryTable:
    allocatable = (total - system - other) % WRAP
    return MemoryTable(total, system, allocatable, 0, allocatable)


def charge(machine: MachineState, block: Block) -> dict[int, NUMANodeState]:
    """With a block of this size on its nodes: the first one gives what it has, then the next."""
    changed = dict(machine)
    left = block.size
    for node in block.nodes:
        state = changed[node]
        table = state.memory[block.kind]
        taken = min(left, table.free)
        left -= taken
        changed[node] = NUMANodeState(
            state.assignments + 1, block.nodes, _moved(state.memory, block.kind, taken)
        )
    return changed


def release(machine: MachineState, block: Block) -> dict[int, NUMANodeState]:
    """Without a block: the first of its nodes gets back what it has reserved, then the next.

    So what is free on each node of a group depends on history; only the sum does not.
    """
    changed = dict(machine)
    left = block.size
    for node in block.nodes:
        state = changed[node]
        table = state.memory[block.kind]
        freed = min(left, table.reserved)
        left -= freed
        count = state.assignments - 1
        cells = state.cells if count else (node,)
        changed[node] = NUMANodeState(count, cells, _moved(state.memory, block.kind, -freed))
    return changed


def _moved(memory: Mapping[str, MemoryTable], kind: str, amount: int) -> Mapping[str, MemoryTable]:
    if amount == 0:
        return memory
    table = memory[kind]
    moved = attrs.evolve(table, reserved=table.reserved + amount, free=table.free - amount)
    return {**memory, kind: moved}


def replay(
    machine: MachineState, pod_uid: str, container: str, blocks: Iterable[Block]
) -> MachineState:
    """With blocks that a file tells of. Raises ManagerError when this machine cannot have them."""
    owner = f"[memorymanager] (pod: {pod_uid}, container: {container}) the memory assignment uses "
    for block in blocks:
        for node in block.nodes:
            if node not in machine:
                raise ManagerError(f"{owner}the NUMA that does not exist")
            if block.kind not in machine[node].memory:
                raise ManagerError(f"{owner}memory resource that does not exist")
        machine = charge(machine, block)
    return machine


def agree(one: MachineState, other: MachineState, *, by_group: bool = True) -> bool:
    """Return whether two states are the same but for how memory lies within groups of nodes.

    Before 1.32 (`by_group` False) each node's own sums had to be equal, and a kubelet could not
    start after some histories (kubernetes/kubernetes#113130).
    """
    if one.keys() != other.keys():
        return False
    for node, mine in one.items():
        theirs = other[node]
        if mine.assignments != theirs.assignments or mine.memory.keys() != theirs.memory.keys():
            return False
        if sorted(mine.cells) != sorted(theirs.cells):
            return False
        for kind, table in mine.memory.items():
            seen = theirs.memory[kind]
            fixed = (table.total, table.system_reserved, table.allocatable)
            if fixed != (seen.total, seen.system_reserved, seen.allocatable):
                return False
            cells = (mine.cells, theirs.cells) if by_group else ((node,), (node,))
            if _group_sums(one, cells[0], kind) != _group_sums(other, cells[1], kind):
                return False
    return True


def _group_sums(machine: MachineState, cells: Iterable[int], kind: str) -> tuple[int, int]:
    tables = [machine[node].memory.get(kind) for node in cells if node in machine]
    return (
        sum(table.free for table in tables if table is not None),
        sum(table.reserved for table in tables if table is not None),
    )
