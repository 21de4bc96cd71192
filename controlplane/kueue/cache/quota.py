"""Quota in a tree of cohorts: what a node has, uses, may borrow and lends.

A node's *local quota* is what it does not lend; only usage beyond it counts in the parent. Follows
`pkg/cache/scheduler/resource_node.go` and `resource.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from controlplane.api.tree import Tree
from controlplane.kueue.amounts import FlavorResource, Quotas, add, quota_amount, sub


class Quota(NamedTuple):
    """Own quota of a node for a flavor and resource; no limit is None."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


NO_QUOTA: Final = Quota()


def quotas_of(resource_groups: Iterable[Tree]) -> dict[FlavorResource, Quota]:
    """The quotas of `spec.resourceGroups` of a ClusterQueue or Cohort."""
    return {
        FlavorResource(flavor["name"], each["name"]): Quota(
            quota_amount(each["name"], str(each.get("nominalQuota", "0"))),
            _limit(each["name"], each.get("borrowingLimit")),
            _limit(each["name"], each.get("lendingLimit")),
        )
        for group in resource_groups or ()
        for flavor in group.get("flavors") or ()
        for each in flavor.get("resources") or ()
    }


def _limit(resource: str, quantity: Any) -> int | None:
    return None if quantity is None else quota_amount(resource, str(quantity))


class Node:
    """A cohort or cluster queue with its quota, the quota of its subtree, and its usage.

    `quotas` and `subtree` are replaced, never changed in place, so snapshots share them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: CohortNode | None = None
        self.quotas: Mapping[FlavorResource, Quota] = {}
        self.subtree: Quotas = {}
        self.usage: Quotas = {}
        self.fair_weight: float = 0.0

    def path(self) -> Iterator[CohortNode]:
        """The cohorts from the parent to the root."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def quota(self, pair: FlavorResource) -> Quota:
        """Own quota."""
        return self.quotas.get(pair, NO_QUOTA)

    def local_quota(self, pair: FlavorResource) -> int:
        """The part of the subtree's quota that is not lent."""
        lending = self.quota(pair).lending_limit
        return 0 if lending is None else max(0, sub(self.subtree.get(pair, 0), lending))

    def local_available(self, pair: FlavorResource) -> int:
        """The unused local quota."""
        return max(0, sub(self.local_quota(pair), self.usage.get(pair, 0)))

    def available_in_tree(self, pair: FlavorResource) -> int:
        """The amount that still fits; negative when the tree is overcommitted."""
        if self.parent is None:
            return sub(self.subtree.get(pair, 0), self.usage.get(pair, 0))
        above = self.parent.available_in_tree(pair)
        limit = self.quota(pair).borrowing_limit
        if limit is not None:
            local = self.local_quota(pair)
            stored = sub(self.subtree.get(pair, 0), local)
            used = max(0, sub(self.usage.get(pair, 0), local))
            above = min(add(sub(stored, used), limit), above)
        return add(self.local_available(pair), above)

    def potential(self, pair: FlavorResource) -> int:
        """The amount that fits into an unused tree."""
        subtree = self.subtree.get(pair, 0)
        if self.parent is None:
            return subtree
        possible = add(self.local_quota(pair), self.parent.potential(pair))
        limit = self.quota(pair).borrowing_limit
        return possible if limit is None else min(add(subtree, limit), possible)

    def add_usage(self, pair: FlavorResource, amount: int) -> None:
        """Count usage here and, beyond the local quota, above."""
        local = self.local_available(pair)
        self.usage[pair] = add(self.usage.get(pair, 0), amount)
        if self.parent is not None and amount > local:
            self.parent.add_usage(pair, sub(amount, local))

    def remove_usage(self, pair: FlavorResource, amount: int) -> None:
        """Undo `add_usage`."""
        stored_above = sub(self.usage.get(pair, 0), self.local_quota(pair))
        self.usage[pair] = sub(self.usage.get(pair, 0), amount)
        if stored_above > 0 and self.parent is not None:
            self.parent.remove_usage(pair, min(amount, stored_above))

    def fit(self, requests: Mapping[FlavorResource, int]) -> tuple[bool, Quotas]:
        """Return whether requests fit the subtree's quota, and what exceeds the local quota."""
        fits = all(
            self.subtree.get(pair, 0) >= add(self.usage.get(pair, 0), amount)
            for pair, amount in requests.items()
        )
        rest = {
            pair: max(0, sub(amount, self.local_available(pair)))
            for pair, amount in requests.items()
        }
        return fits, rest

    def within_nominal(self, pairs: Iterable[FlavorResource]) -> bool:
        """Return whether usage of the pairs stays within the subtree's quota."""
        return all(self.subtree.get(pair, 0) >= self.usage.get(pair, 0) for pair in pairs)


class CohortNode(Node):
    """A cohort. `explicit` tells whether an object stands behind it; else it exists by name only."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.explicit = False
        self.cohorts: dict[str, CohortNode] = {}
        self.queues: dict[str, Any] = {}
        self.admitted = 0
        """Admitted workloads below."""
        self.left: Quotas = {}
        """For the metrics: the last quota of pairs without any; upstream's gauge keeps it."""

    def borrowing_with(self, pair: FlavorResource, amount: int) -> bool:
        """Return whether the cohort would exceed its subtree's quota with an amount more."""
        return self.subtree.get(pair, 0) < add(self.usage.get(pair, 0), amount)

    def root(self) -> CohortNode:
        """The root of the tree."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def has_cycle(self) -> bool:
        """Return whether the path to the root never ends."""
        seen = {self.name}
        for above in self.path():
            if above.name in seen:
                return True
            seen.add(above.name)
        return False

    def height(self) -> int:
        """The distance to the farthest leaf."""
        highest = min(len(self.cohorts) + len(self.queues), 1)
        return max([highest, *(child.height() + 1 for child in self.cohorts.values())])

    def queues_below(self) -> list[Any]:
        """The cluster queues of the whole subtree, own ones first."""
        found = list(self.queues.values())
        for child in self.cohorts.values():
            found.extend(child.queues_below())
        return found


class QueueNode(Node):
    """A cluster queue."""

    generation = 0
    """Grows whenever quota may have become free here."""

    def borrowing_with(self, pair: FlavorResource, amount: int) -> bool:
        """Return whether the queue would exceed its own nominal quota with an amount more."""
        return self.quota(pair).nominal < add(self.usage.get(pair, 0), amount)

    def borrowing(self, pair: FlavorResource) -> bool:
        """Return whether the queue exceeds its own nominal quota."""
        return self.quota(pair).nominal < self.usage.get(pair, 0)

    def available(self, pair: FlavorResource) -> int:
        """The amount that still fits into the queue, at least 0."""
        return max(0, self.available_in_tree(pair))

    def lowest_fitting_subtree(self, pair: FlavorResource, amount: int) -> tuple[int, bool]:
        """The height of the lowest subtree that fits the amount, and whether cohorts are above it.

        A queue within its nominal quota has height 0. Without any such subtree it is the whole tree.
        """
        if self.parent is None or not self.borrowing_with(pair, amount):
            return 0, self.parent is not None
        rest = sub(amount, self.local_available(pair))
        for above in self.path():
            if not above.borrowing_with(pair, rest):
                return above.height(), above.parent is not None
            rest = sub(rest, above.local_available(pair))
        return self.parent.root().height(), False


def update_queue(queue: QueueNode) -> None:
    """Recompute the quota of a queue's subtree: its own."""
    queue.generation += 1
    queue.subtree = {pair: quota.nominal for pair, quota in queue.quotas.items()}


def update_tree(cohort: CohortNode) -> None:
    """Recompute quota and usage of a cohort and all below from the queues' own."""
    subtree = {pair: quota.nominal for pair, quota in cohort.quotas.items()}
    usage: Quotas = {}
    for child in cohort.cohorts.values():
        update_tree(child)
        _accumulate(subtree, usage, child)
    for queue in cohort.queues.values():
        update_queue(queue)
        _accumulate(subtree, usage, queue)
    lost = cohort.subtree.keys() - subtree.keys()
    cohort.left = {pair: old for pair, old in cohort.left.items() if pair not in subtree}
    cohort.left |= {pair: cohort.subtree[pair] for pair in sorted(lost)}
    cohort.subtree, cohort.usage = subtree, usage


def _accumulate(subtree: Quotas, usage: Quotas, child: Node) -> None:
    for pair, amount in child.subtree.items():
        lent = sub(amount, child.local_quota(pair))
        subtree[pair] = add(subtree.get(pair, 0), lent)
    for pair, amount in child.usage.items():
        above = max(0, sub(amount, child.local_quota(pair)))
        usage[pair] = add(usage.get(pair, 0), above)


@dataclass(frozen=True)
class ResourceGroup:
    """Resources that are given from the same flavors, in the order in which flavors are tried."""

    resources: frozenset[str]
    flavors: tuple[str, ...]


def groups_of(resource_groups: Iterable[Tree]) -> tuple[ResourceGroup, ...]:
    """The groups of `spec.resourceGroups`."""
    return tuple(
        ResourceGroup(
            frozenset(each.get("coveredResources") or ()),
            tuple(flavor["name"] for flavor in each.get("flavors") or ()),
        )
        for each in resource_groups or ()
    )
