"""A node's hardware as a value: NUMA nodes with their memory, cores with their threads, sockets, caches.

Upstream: what cAdvisor reports to the kubelet (MachineInfo).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from controlplane.api.quantity import Quantity, QuantityError, parse
from controlplane.api.validation import parse_int64
from controlplane.errors import UsageError, shown

LOCAL_DISTANCE: Final = 10
SAME_SOCKET_DISTANCE: Final = 12
REMOTE_DISTANCE: Final = 32

PRESETS: Final = {
    "small": "sockets=1 cores=2 threads=2 memory=16Gi",
    "desktop": "sockets=1 cores=8 threads=2 memory=32Gi",
    "two-sockets": "sockets=2 cores=16 threads=2 memory=96Gi",
    "sub-numa": "sockets=2 numa=2 cores=10 threads=2 memory=64Gi",
    "chiplets": "sockets=1 cores=64 threads=2 caches=8 memory=256Gi",
    "large": "sockets=2 numa=4 cores=16 threads=2 caches=2 memory=64Gi",
}
"""Machines with a name, in the text form of `machine_of_text`; amounts are per NUMA node."""

_COUNTS: Final = {"sockets": 1, "numa": 1, "cores": 1, "threads": 1, "caches": 1}
_HUGE: Final = "hugepages-"
_NUMBERINGS: Final = ("siblings-last", "siblings-adjacent")


@attrs.frozen
class Core:
    """A physical core: its threads are logical CPUs; no `uncore_caches` means none were reported."""

    id: int
    socket: int
    threads: tuple[int, ...]
    uncore_caches: tuple[int, ...] = ()


@attrs.frozen
class HugePages:
    """Pages of one size that are set aside: size in KiB."""

    page_kib: int
    count: int

    @property
    def total(self) -> int:
        """Bytes."""
        return self.page_kib * 1024 * self.count


@attrs.frozen
class NUMANode:
    """A NUMA node: memory in bytes, and its distance to each node in order (10 is local)."""

    id: int
    memory: int = 0
    cores: tuple[Core, ...] = ()
    huge_pages: tuple[HugePages, ...] = ()
    distances: tuple[int, ...] = ()


@attrs.frozen
class Machine:
    """A machine as it reports itself: the counts need not fit the rest."""

    nodes: tuple[NUMANode, ...]
    num_sockets: int
    num_cpus: int

    @property
    def memory(self) -> int:
        """Bytes of all NUMA nodes."""
        return sum(node.memory for node in self.nodes)


def from_rows(
    rows: Iterable[Sequence[int]], *, num_sockets: int | None = None, num_cpus: int | None = None
) -> Machine:
    """The machine of a table of (CPU, NUMA node, socket, core, uncore cache), -1 for no cache."""
    threads: dict[int, dict[tuple[int, int, int], list[int]]] = {}
    count = 0
    for cpu, numa, socket, core, uncore in rows:
        threads.setdefault(numa, {}).setdefault((core, socket, uncore), []).append(cpu)
        count += 1
    nodes = tuple(
        NUMANode(
            id=numa,
            cores=tuple(
                Core(core, socket, tuple(cpus), () if uncore < 0 else (uncore,))
                for (core, socket, uncore), cpus in cores.items()
            ),
        )
        for numa, cores in threads.items()
    )
    if num_sockets is None:
        num_sockets = len({core.socket for node in nodes for core in node.cores})
    return Machine(nodes, num_sockets, count if num_cpus is None else num_cpus)


def machine_of_text(text: str) -> Machine:
    """A regular machine from `name=value` pairs, or one of the presets by its name. Raises UsageError.

    `sockets`; `numa` nodes per socket; `cores`, `caches` (0: none are reported), `memory` and pages
    such as `hugepages-2Mi` per NUMA node; `threads` per core; `numbering`: `siblings-last` (0, 1, ...
    are the first threads of all cores, as on most machines) or `siblings-adjacent`. What is missing
    is 1; memory is 4Gi.
    """
    text = PRESETS.get(text.strip(), text)
    counts = dict(_COUNTS)
    memory = 4 << 30
    pages: list[HugePages] = []
    numbering = _NUMBERINGS[0]
    for pair in text.split():
        name, _, value = pair.partition("=")
        if name in counts:
            counts[name] = _count(pair, value, at_least=0 if name == "caches" else 1)
        elif name == "memory":
            memory = _amount(pair, value).value()
        elif name.startswith(_HUGE):
            size = _amount(pair, name.removeprefix(_HUGE)).value()
            if size % 1024:
                raise UsageError(f"machine: {pair!r}: pages are whole KiB")
            pages.append(HugePages(size // 1024, _count(pair, value, at_least=0)))
        elif name == "numbering" and value in _NUMBERINGS:
            numbering = value
        else:
            known = ", ".join((*counts, "memory", f"{_HUGE}SIZE", "numbering"))
            presets = ", ".join(PRESETS)
            raise UsageError(
                f"machine: {pair!r} is neither one of {known} nor a preset ({presets})"
            )
    return _regular(counts, memory, tuple(pages), adjacent=numbering == _NUMBERINGS[1])


_DIGITS: Final = 18
"""No machine has a number of more."""


def _count(pair: str, value: str, *, at_least: int) -> int:
    number = parse_int64(value)
    if number is None or number < at_least:
        raise UsageError(f"machine: {shown(pair)}: expected a number of {at_least} or more")
    return number


def _amount(pair: str, value: str) -> Quantity:
    try:
        return parse(value)
    except QuantityError:
        raise UsageError(f"machine: {pair!r}: expected an amount such as 16Gi") from None


def _regular(
    counts: dict[str, int], memory: int, pages: tuple[HugePages, ...], *, adjacent: bool
) -> Machine:
    sockets, per_socket, threads = counts["sockets"], counts["numa"], counts["threads"]
    cores, caches = counts["cores"], counts["caches"]
    total = sockets * per_socket * cores
    nodes = []
    for numa in range(sockets * per_socket):
        own = []
        for number in range(cores):
            core = numa * cores + number
            ids = (
                range(core * threads, (core + 1) * threads)
                if adjacent
                else range(core, total * threads, total)
            )
            cache = (numa * caches + number * caches // cores,) if caches else ()
            own.append(Core(core, numa // per_socket, tuple(ids), cache))
        distances = tuple(
            LOCAL_DISTANCE
            if other == numa
            else SAME_SOCKET_DISTANCE
            if other // per_socket == numa // per_socket
            else REMOTE_DISTANCE
            for other in range(sockets * per_socket)
        )
        nodes.append(NUMANode(numa, memory, tuple(own), pages, distances))
    return Machine(tuple(nodes), sockets, total * threads)


def machine_of_lscpu(text: str, memory: int) -> Machine:
    """The machine that `lscpu -p` or `lscpu -e` prints, its memory (bytes) shared evenly among the nodes.

    Raises UsageError for other text. CPUs that are offline have no place and are left out.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    header = next((line for line in reversed(lines) if line.startswith("#")), "")
    if header:
        names = header.lstrip("# ").split(",")
        table = [line.split(",") for line in lines if not line.startswith("#")]
    elif lines and lines[0].split()[:1] == ["CPU"]:
        names = lines[0].split()
        table = [line.split() for line in lines[1:]]
    else:
        raise UsageError("machine: this is not what lscpu -p or lscpu -e prints")
    names = [name.strip().lower() for name in names]
    rows = []
    for cells in table:
        row = dict(zip(names, cells, strict=False))
        caches = row.get("l1d:l1i:l2:l3", "").rpartition(":")[2] or row.get("l3", "")
        try:
            cpu, core = int(row["cpu"]), row["core"]
        except (KeyError, ValueError):
            raise UsageError(f"machine: lscpu: {','.join(cells)!r} names no CPU and core") from None
        if not core.isdecimal():
            continue
        places = [
            int(each[:_DIGITS]) if each.isdecimal() else default
            for each, default in (
                (row.get("node", ""), 0),
                (row.get("socket", ""), 0),
                (caches, -1),
            )
        ]
        rows.append((cpu, places[0], places[1], int(core[:_DIGITS]), places[2]))
    if not rows:
        raise UsageError("machine: lscpu: no CPU is online")
    machine = from_rows(rows)
    nodes = tuple(sorted(machine.nodes, key=lambda node: node.id))
    share = memory // len(nodes)
    return attrs.evolve(machine, nodes=tuple(attrs.evolve(node, memory=share) for node in nodes))
