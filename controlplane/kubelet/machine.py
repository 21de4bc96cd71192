"""A node's hardware as a value: NUMA nodes with their memory, cores with their threads, sockets, caches.

Upstream: what cAdvisor reports to the kubelet (MachineInfo).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 20


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
