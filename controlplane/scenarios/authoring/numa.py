"""Nodes of two NUMA nodes that hand out memory, and pods that want some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import nodes_with_managers

if TYPE_CHECKING:
    from controlplane.scenarios.authoring.worlds import Build

NODE = "node-1"
MACHINE = "sockets=2 cores=8 memory=4Gi"
RESERVED = [{"numaNode": node, "limits": {"memory": "1Gi"}} for node in (0, 1)]


def in_memory(name: str, memory: str, **more: str) -> dict[str, Any]:
    """A Guaranteed pod on the node; `more` are init containers with what they ask for."""
    tree = pod(name, "100m", nodeName=NODE)
    (one,) = tree["spec"]["containers"]

    def sized(amount: str) -> dict[str, Any]:
        amounts = {"cpu": "100m", "memory": amount}
        return {"requests": amounts, "limits": amounts}

    one["resources"] = sized(memory)
    inits = [{**one, "name": each, "resources": sized(amount)} for each, amount in more.items()]
    if inits:
        tree["spec"]["initContainers"] = inits
    return tree


def build(policy: str) -> Build:
    """A machine of two NUMA nodes that hands out memory."""
    return nodes_with_managers(
        MACHINE,
        memoryManagerPolicy="Static",
        topologyManagerPolicy=policy,
        systemReserved={"cpu": "1", "memory": "1948Mi"},
        reservedMemory=RESERVED,
        evictionHard={"memory.available": "100Mi"},
    )
