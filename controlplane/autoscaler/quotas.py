"""Limits on the resources of the whole cluster.

Upstream: `resourcequotas/{tracker,factory,usage,cache}.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controlplane.api.node import Node
from controlplane.autoscaler.groups import ZERO, Cloud, NodeGroup

QUOTA: Final = "cluster-wide"
_VIRTUAL: Final = "virtual-kubelet"
Limits = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Allowance:
    """The number of requested nodes that the limits allow, and the resources that do not suffice for all."""

    nodes: int
    exceeded: tuple[str, ...] = ()


class Tracker:
    """Remaining limits: cores, bytes of memory, nodes. The nodes of a group count as all alike."""

    def __init__(self, cloud: Cloud, limits: Limits, nodes: Iterable[Node], *, least: bool) -> None:
        self._cloud = cloud
        self._sizes: dict[str, dict[str, int]] = {}
        used: dict[str, int] = {}
        for node in nodes:
            if node.metadata.labels.get("type") == _VIRTUAL:
                continue
            for name, amount in self._size(node, cloud.group_of(node)).items():
                used[name] = used.get(name, 0) + amount
        self._left: dict[str, int] = {}
        for name, (low, high) in limits.items():
            usage = used.get(name, 0)
            self._left[name] = max(0, usage - low if least else high - usage)

    def _size(self, node: Node, group: NodeGroup | None) -> dict[str, int]:
        if group is not None and group.id in self._sizes:
            return self._sizes[group.id]
        capacity = node.status.capacity
        size = {
            "cpu": max(0, capacity.get("cpu", ZERO).value()),
            "memory": max(0, capacity.get("memory", ZERO).value()),
            "nodes": 1,
        }
        if group is not None:
            self._sizes[group.id] = size
        return size

    def check(self, group: NodeGroup, node: Node, count: int) -> Allowance:
        """Return how many nodes like this one of a group are allowed, up to a count."""
        allowed, exceeded = count, list[str]()
        for name, amount in self._size(node, group).items():
            left = self._left.get(name)
            if left is not None and amount > 0 and left < amount * count:
                allowed = min(allowed, left // amount)
                exceeded.append(name)
        return Allowance(allowed, tuple(exceeded))

    def consume(self, group: NodeGroup, node: Node, count: int) -> Allowance:
        """Do the same, and take the nodes off what is left if all are allowed."""
        found = self.check(group, node, count)
        if found.nodes == count:
            for name, amount in self._size(node, group).items():
                if name in self._left:
                    self._left[name] = max(0, self._left[name] - amount * count)
        return found
