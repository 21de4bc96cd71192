"""The tree of topology domains of a flavor, made from its nodes. Shared and never changed.

Follows `pkg/cache/scheduler/tas_topology_tree.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from controlplane.api.node import Node
from controlplane.kueue.amounts import Requests
from controlplane.kueue.topology.assignment import add_to, domain_id, ends_at_nodes


@dataclass(frozen=True)
class NodeEntry:
    """The fields of a node that placement reads."""

    node: Node
    allocatable: Requests

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name


class Domain:
    """A place in the tree. `index` finds its state in a board, `values` name it from the root down."""

    __slots__ = ("children", "id", "index", "parent", "values")

    def __init__(self, name: str, index: int, values: tuple[str, ...]) -> None:
        self.id = name
        self.index = index
        self.values = values
        self.parent: Domain | None = None
        self.children: list[Domain] = []


@dataclass
class Leaf:
    """A domain of the lowest level: the summed allocatable of its nodes, and the one node if it is one."""

    domain: Domain
    capacity: dict[str, int] = field(default_factory=dict)
    node: Node | None = None


class TopologyTree:
    """Domains by level.

    Args:
        levels: Node labels, from the widest level down.
        nodes: The nodes that the flavor selects.
        generation: That of the node cache; a newer one makes a new tree necessary.
    """

    __slots__ = (
        "by_level",
        "count",
        "ends_at_nodes",
        "generation",
        "leaf_of_node",
        "leaves",
        "levels",
    )

    def __init__(
        self, levels: tuple[str, ...], nodes: Iterable[NodeEntry], generation: int
    ) -> None:
        self.levels = levels
        self.generation = generation
        self.ends_at_nodes = ends_at_nodes(levels)
        self.by_level: tuple[dict[str, Domain], ...] = tuple({} for _ in levels)
        self.leaves: dict[str, Leaf] = {}
        self.leaf_of_node: dict[str, str] = {}
        self.count = 0
        for each in nodes:
            self.leaf_of_node[each.name] = self._add(each)
        for leaf in self.leaves.values():
            self._connect(leaf.domain)

    def level(self, label: str) -> int | None:
        """The index of a level, None if the topology does not have it."""
        return self.levels.index(label) if label in self.levels else None

    def _add(self, entry: NodeEntry) -> str:
        labels = entry.node.metadata.labels
        values = tuple(labels.get(level, "") for level in self.levels)
        name = values[-1] if self.ends_at_nodes else domain_id(values)
        leaf = self.leaves.get(name)
        if leaf is None:
            leaf = Leaf(self._domain(name, values), {}, entry.node if self.ends_at_nodes else None)
            self.leaves[name] = leaf
        add_to(leaf.capacity, entry.allocatable)
        return name

    def _domain(self, name: str, values: tuple[str, ...]) -> Domain:
        domain = Domain(name, self.count, values)
        self.count += 1
        self.by_level[len(values) - 1][name] = domain
        return domain

    def _connect(self, domain: Domain) -> None:
        """Tie a domain to its parent, which is made when it is new."""
        above = domain.values[:-1]
        if not above:
            return
        name = domain_id(above)
        parent = self.by_level[len(above) - 1].get(name)
        if parent is None:
            parent = self._domain(name, above)
            self._connect(parent)
        domain.parent = parent
        parent.children.append(domain)
