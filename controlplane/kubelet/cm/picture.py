"""A node's CPUs and NUMA memory as text, with their owners.

One line per NUMA node with its cores, a mark on each CPU, then the memory; a legend below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, product
from string import ascii_lowercase, ascii_uppercase
from typing import Final

from controlplane.api.quantity import Quantity
from controlplane.kubelet.cm.cpumanager.state import CPUState
from controlplane.kubelet.cm.cpumanager.topology import CPUTopology, discover
from controlplane.kubelet.cm.cpuset import EMPTY, CPUSet, bits
from controlplane.kubelet.cm.memorymanager.state import MemoryState, MemoryTable
from controlplane.kubelet.machine import Machine

SHARED: Final = "."
RESERVED: Final = "#"
LOST: Final = "!"
SEVERAL: Final = "*"
_BAR: Final = 20

Owner = tuple[str, str]


def picture(
    machine: Machine,
    cpus: CPUState,
    memory: MemoryState,
    reserved: CPUSet = EMPTY,
    name_of: Callable[[str], str] = lambda uid: uid,
) -> str:
    """Return the text, without an end of line; `name_of` turns a pod's uid into its shown name.

    Threads of a core stand together. CPUs in the default set are shared; a CPU that is neither in the default set
    nor assigned to a container is marked as lost, and one that several pods have is an error.
    """
    topology = discover(machine)
    marks = _marks(cpus, memory)
    lines = []
    for numa, mask in topology.numas.items():
        sockets = ",".join(map(str, topology.sockets_of([numa])))
        lines.append(
            f"NUMA {numa} (socket {sockets}) {_cores(topology, mask, cpus, reserved, marks)}"
        )
        state = memory.machine.get(numa)
        if state is not None:
            for kind, table in sorted(state.memory.items(), key=lambda item: item[0] != "memory"):
                lines.append(f"  {kind:<14} {_bar(table)} {_amounts(table)}")
            if len(state.cells) > 1:
                lines.append(f"  group          {','.join(map(str, state.cells))}")
    for (uid, container), mark in marks.items():
        lines.append(f"{mark} {name_of(uid)}/{container}: {_held(uid, container, cpus, memory)}")
    keys = f"{SHARED} shared  {RESERVED} reserved"
    text = "\n".join(lines)
    if LOST in text:
        keys += f"  {LOST} lost"
    if SEVERAL in text:
        keys += f"  {SEVERAL} several pods'"
    return f"{text}\n{keys}"


def _marks(cpus: CPUState, memory: MemoryState) -> dict[Owner, str]:
    """A letter for each container that has something, pairs of letters when there are many."""
    owners: dict[Owner, None] = {}
    for part in (cpus.assignments, memory.entries):
        for uid in sorted(part):
            owners.update(dict.fromkeys((uid, name) for name in sorted(part[uid])))
    return dict(zip(owners, _letters(), strict=False))


def _letters() -> Iterator[str]:
    single = ascii_lowercase + ascii_uppercase
    pairs = (
        "".join(pair) for size in range(2, 5) for pair in product(ascii_lowercase, repeat=size)
    )
    return chain(single, pairs)


def _cores(
    topology: CPUTopology,
    mask: int,
    cpus: CPUState,
    reserved: CPUSet,
    marks: Mapping[Owner, str],
) -> str:
    owners: dict[int, list[Owner]] = {}
    for uid, pod in cpus.assignments.items():
        for name, own in pod.items():
            for cpu in own:
                owners.setdefault(cpu, []).append((uid, name))
    shown = []
    for threads in topology.cores.values():
        if threads & mask:
            core = [_mark(cpu, owners.get(cpu, []), cpus, reserved, marks) for cpu in bits(threads)]
            shown.append("".join(core))
    return " ".join(shown)


def _mark(
    cpu: int,
    owners: list[Owner],
    cpus: CPUState,
    reserved: CPUSet,
    marks: Mapping[Owner, str],
) -> str:
    """The containers of one pod may have the same CPU: the last of them is shown."""
    if owners:
        return SEVERAL if len({uid for uid, _ in owners}) > 1 else marks[owners[-1]]
    if cpu in reserved:
        return RESERVED
    return SHARED if cpu in cpus.default else LOST


def _bar(table: MemoryTable) -> str:
    if not table.allocatable:
        return "[" + " " * _BAR + "]"
    used = -(-table.reserved * _BAR // table.allocatable)
    return "[" + "=" * used + " " * (_BAR - used) + "]"


def _amounts(table: MemoryTable) -> str:
    return f"{_size(table.reserved)} of {_size(table.allocatable)}"


def _size(amount: int) -> str:
    """In whole Gi or Mi where nothing is lost, else with one digit of a fraction."""
    exact = Quantity.new(amount, "BinarySI").canonical()
    if len(exact) <= 6:
        return exact
    for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount >= size:
            tenths = (amount * 10 + size // 2) // size
            return f"{tenths // 10}.{tenths % 10}{unit}"
    return exact


def _held(uid: str, container: str, cpus: CPUState, memory: MemoryState) -> str:
    parts = []
    own = cpus.get(uid, container)
    if own is not None:
        parts.append(f"CPUs {own}")
    for block in memory.blocks(uid, container) or ():
        nodes = ",".join(map(str, block.nodes))
        parts.append(f"{_size(block.size)} {block.kind} on NUMA {nodes}")
    return "; ".join(parts)
