"""Limits on the resources of the cluster, or of the nodes that a quota selects.

Upstream: `resourcequotas/{tracker,factory,usage,cache}.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.api.labels import EVERYTHING, Selector
from controlplane.api.node import Node
from controlplane.autoscaler.groups import ZERO, Cloud, NodeGroup

QUOTA: Final = "cluster-wide"
NODES: Final = "nodes"
_VIRTUAL: Final = "virtual-kubelet"
Limits = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Quota:
    """The most of each resource that the nodes of a selector may have together."""

    id: str
    limits: Mapping[str, int]
    selector: Selector = EVERYTHING


@dataclass(frozen=True, slots=True)
class Allowance:
    """The number of requested nodes that the limits allow; by quota, the resources that do not suffice for all."""

    nodes: int
    exceeded: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class _Left:
    quota: Quota
    amounts: dict[str, int]


def counted(node: Node) -> bool:
    """Return whether a node counts against limits."""
    return node.metadata.labels.get("type") != _VIRTUAL


class Tracker:
    """Remaining limits: cores, bytes of memory, nodes. The nodes of a group count as all alike.

    `limits` are those of the whole cluster, of which `least` chooses the lower bounds; quotas are upper bounds.
    """

    def __init__(
        self,
        cloud: Cloud,
        limits: Limits,
        nodes: Iterable[Node],
        quotas: Sequence[Quota] = (),
        *,
        least: bool,
    ) -> None:
        self._cloud = cloud
        self._sizes: dict[str, dict[str, int]] = {}
        bounds = {name: low if least else high for name, (low, high) in limits.items()}
        sizes = [(node, self._size(node, cloud.group_of(node))) for node in nodes if counted(node)]
        self._quotas: list[_Left] = []
        for quota in (Quota(QUOTA, bounds), *quotas):
            used: dict[str, int] = {}
            for node, size in sizes:
                if quota.selector.matches(node.metadata.labels):
                    for name, amount in size.items():
                        used[name] = used.get(name, 0) + amount
            left: dict[str, int] = {}
            for name, bound in quota.limits.items():
                usage = used.get(name, 0)
                left[name] = max(0, usage - bound if least else bound - usage)
            self._quotas.append(_Left(quota, left))

    def _size(self, node: Node, group: NodeGroup | None) -> dict[str, int]:
        if group is not None and group.id in self._sizes:
            return self._sizes[group.id]
        capacity = node.status.capacity
        size = {
            "cpu": max(0, capacity.get("cpu", ZERO).value()),
            "memory": max(0, capacity.get("memory", ZERO).value()),
            NODES: 1,
        }
        if group is not None:
            self._sizes[group.id] = size
        return size

    def _of(self, node: Node) -> list[_Left]:
        labels = node.metadata.labels
        return [each for each in self._quotas if each.quota.selector.matches(labels)]

    def check(self, group: NodeGroup, node: Node, count: int) -> Allowance:
        """Return how many nodes like this one of a group are allowed, up to a count."""
        allowed, exceeded = count, dict[str, tuple[str, ...]]()
        for each in self._of(node):
            for name, amount in self._size(node, group).items():
                left = each.amounts.get(name)
                if left is not None and amount > 0 and left < amount * count:
                    allowed = min(allowed, left // amount)
                    exceeded[each.quota.id] = (*exceeded.get(each.quota.id, ()), name)
        return Allowance(allowed, exceeded)

    def consume(self, group: NodeGroup, node: Node, count: int) -> Allowance:
        """Do the same, and take the nodes off what is left if all are allowed."""
        found = self.check(group, node, count)
        if found.nodes == count:
            for each in self._of(node):
                for name, amount in self._size(node, group).items():
                    if name in each.amounts:
                        each.amounts[name] = max(0, each.amounts[name] - amount * count)
        return found
