"""Machines as the kubelet's golden files describe them."""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from controlplane.api.containers import Container
from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.kubelet.cm.cpuset import CPUSet
from controlplane.kubelet.cm.errors import UNEXPECTED, ManagerError
from controlplane.kubelet.cm.memorymanager.manager import MemoryReservation
from controlplane.kubelet.cm.topologymanager.hints import NO_HINT, Hints, TopologyHint, mask_of
from controlplane.kubelet.machine import Core, HugePages, Machine, NUMANode, from_rows


def machine_of(given: Any) -> Machine:
    """Rows of CPUs, or raw nodes and cores; memory and distances where they are given."""
    if "topology" in given:
        nodes = tuple(
            NUMANode(
                id=node["node_id"],
                cores=tuple(
                    Core(core["core_id"], core["socket_id"], tuple(core["thread_ids"]))
                    for core in node["cores"]
                ),
            )
            for node in given["topology"]
        )
        return Machine(nodes, given["num_sockets"], given["num_cpus"])
    machine = from_rows(
        given["cpus"], num_sockets=given["num_sockets"], num_cpus=given.get("num_cpus")
    )
    if "memory" not in given:
        return machine
    cores = {node.id: node.cores for node in machine.nodes}
    nodes = tuple(
        attrs.evolve(node, cores=cores.get(node.id, ())) for node in memory_of(given["memory"])
    )
    distances = given.get("distances")
    if distances is not None:
        nodes = tuple(
            attrs.evolve(node, distances=tuple(row))
            for node, row in zip(nodes, distances, strict=True)
        )
    return attrs.evolve(machine, nodes=nodes)


def memory_of(nodes: Any) -> tuple[NUMANode, ...]:
    """NUMA nodes with memory and huge pages only."""
    return tuple(
        NUMANode(
            id=node["id"],
            memory=node.get("memory", 0),
            huge_pages=tuple(HugePages(page, count) for page, count in _pages(node)),
            distances=tuple(node.get("distances") or ()),
        )
        for node in nodes
    )


def _pages(node: Any) -> list[tuple[int, int]]:
    return [(each["page_size_kib"], each["num_pages"]) for each in node.get("hugepages") or ()]


def hint_of(text: str) -> TopologyHint:
    """`0-1+`: NUMA nodes, and whether they are preferred; `any` is no mask."""
    nodes = text.removesuffix("+")
    preferred = nodes != text
    return TopologyHint(None if nodes == "any" else CPUSet.parse(nodes).mask, preferred)


def hints_of(given: Any) -> Hints:
    """What a provider says."""
    if given is None:
        return None
    return {
        name: None if texts is None else [hint_of(text) for text in texts]
        for name, texts in given.items()
    }


def shown_hint(hint: TopologyHint) -> str:
    """The other way round."""
    nodes = "any" if hint.mask is None else str(CPUSet(hint.mask))
    return nodes + "+" * hint.preferred


def shown_hints(hints: Hints) -> Any:
    """None without preference, else the texts by resource."""
    if hints is None:
        return None
    return {
        name: None if offered is None else [shown_hint(hint) for hint in offered]
        for name, offered in hints.items()
    }


def container_of(pod: Pod, name: str) -> Container:
    """The container of a name."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return next(each for each in containers if each.name == name)


def failure(error: ManagerError) -> dict[str, str]:
    """An error, with its reason if it has one of its own."""
    shown = {"error": str(error)}
    return shown if error.reason == UNEXPECTED else {**shown, "error_type": error.reason}


def reservations_of(given: Any) -> list[MemoryReservation]:
    """What the system keeps of each NUMA node."""
    return [
        MemoryReservation(
            each["numaNode"], {name: parse(text) for name, text in each["limits"].items()}
        )
        for each in given or ()
    ]


class Conversation(Protocol):
    """A manager that is started and asked one thing after the other."""

    def begin(self) -> dict[str, Any]:
        """Start it; what is shown of that."""

    def op(self, op: Any) -> dict[str, Any]:
        """Ask it one thing; the answer."""

    def changes(self) -> dict[str, Any]:
        """What differs from what was shown last."""


def replayed(node: Conversation, ops: Any) -> tuple[dict[str, Any], list[dict[str, Any]], bool]:
    """The start, the answer to each operation, and whether it ended before the last: a restart failed."""
    start = node.begin()
    shown: list[dict[str, Any]] = []
    if start["error"] is not None:
        return start, shown, True
    start |= node.changes()
    for op in ops:
        answer = node.op(op)
        shown.append(answer)
        if op["op"] == "restart" and answer["error"] is not None:
            return start, shown, True
        answer |= node.changes()
    return start, shown, False


def decided_hint(given: Any) -> TopologyHint:
    """The hint that the topology manager's store gives in a case."""
    if given is None:
        return NO_HINT
    nodes = given["nodes"]
    return TopologyHint(None if nodes is None else mask_of(nodes), given["preferred"])
