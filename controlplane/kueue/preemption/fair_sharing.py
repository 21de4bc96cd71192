"""The order in which fair sharing takes workloads from cluster queues.

Follows `pkg/scheduler/preemption/fairsharing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from controlplane.kueue.cache.quota import CohortNode, Node
from controlplane.kueue.cache.share import LEAST, Share, compare, dominant_share
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.preemption.candidates import order_key
from controlplane.kueue.workload.info import Info

FINAL_SHARE: Final = "LessThanOrEqualToFinalShare"
INITIAL_SHARE: Final = "LessThanInitialShare"
BOTH: Final = (FINAL_SHARE, INITIAL_SHARE)


def passes(strategy: str, own_new: Share, target_old: Share, target_new: Share) -> bool:
    """Return whether a strategy lets a workload be preempted, by shares below the common cohort."""
    if strategy == FINAL_SHARE:
        return compare(own_new, target_new) <= 0
    return compare(own_new, target_old) < 0


class QueueOrdering:
    """Yields the queue to take the next workload from, by the shares at that moment.

    Args:
        queue: The preemptor's queue.
        candidates: Ordered candidates; those of a queue are taken in this order.
        now: Nanoseconds.
    """

    def __init__(self, queue: ClusterQueueSnapshot, candidates: Iterable[Info], now: int) -> None:
        self._queue = queue
        self._now = now
        self._above = {above.name for above in queue.path()}
        self._left: dict[str, list[Info]] = {}
        for info in candidates:
            self._left.setdefault(info.cluster_queue, []).append(info)
        for infos in self._left.values():
            infos.reverse()
        self._pruned_queues: dict[str, None] = {}
        self._pruned_cohorts: dict[str, None] = {}

    def __iter__(self) -> Iterator[ClusterQueueSnapshot]:
        own = self._queue
        if own.parent is None:
            while own.name not in self._pruned_queues and self.has(own):
                yield own
            return
        root = own.parent.root()
        while root.name not in self._pruned_cohorts:
            found = self._next(root)
            if found is not None:
                yield found

    def has(self, queue: ClusterQueueSnapshot) -> bool:
        """Return whether candidates of the queue are left."""
        return bool(self._left.get(queue.name))

    def pop(self, queue: ClusterQueueSnapshot) -> Info:
        """Take the next candidate of the queue."""
        return self._left[queue.name].pop()

    def drop(self, queue: ClusterQueueSnapshot) -> None:
        """Never yield the queue again."""
        self._pruned_queues[queue.name] = None

    def shares(self, target: ClusterQueueSnapshot) -> tuple[Share, Share]:
        """The shares of own and target side, of the nodes just below their common cohort."""
        common = next(above for above in target.path() if above.name in self._above)
        own = dominant_share(_below(self._queue, common))
        return own, dominant_share(_below(target, common))

    def share_without(self, target: ClusterQueueSnapshot, info: Info) -> Share:
        """The target side's share if a workload was gone."""
        target.remove(info.usage)
        share = self.shares(target)[1]
        target.add(info.usage)
        return share

    def _next(self, cohort: CohortNode) -> ClusterQueueSnapshot | None:
        queue, queue_share = self._highest_queue(cohort)
        child, child_share = self._highest_cohort(cohort)
        if queue is None and child is None:
            self._pruned_cohorts[cohort.name] = None
            return None
        if child is not None and compare(child_share, queue_share) >= 0:
            return self._next(child)
        return queue

    def _highest_queue(self, cohort: CohortNode) -> tuple[ClusterQueueSnapshot | None, Share]:
        best: ClusterQueueSnapshot | None = None
        best_share = LEAST
        for queue in cohort.queues.values():
            if queue.name in self._pruned_queues:
                continue
            share = dominant_share(queue)
            if (not share.borrowing and queue is not self._queue) or not self.has(queue):
                self._pruned_queues[queue.name] = None
                continue
            order = compare(share, best_share)
            if order > 0:
                best, best_share = queue, share
            elif order == 0 and best is not None and self._before(queue, best):
                best = queue
        return best, best_share

    def _before(self, a: ClusterQueueSnapshot, b: ClusterQueueSnapshot) -> bool:
        first, second = (
            order_key(self._left[each.name][-1], self._queue.name, self._now) for each in (a, b)
        )
        return first < second

    def _highest_cohort(self, cohort: CohortNode) -> tuple[CohortNode | None, Share]:
        best: CohortNode | None = None
        best_share = LEAST
        for child in cohort.cohorts.values():
            if child.name in self._pruned_cohorts:
                continue
            share = dominant_share(child)
            if not share.borrowing and child.name not in self._above:
                self._pruned_cohorts[child.name] = None
            elif compare(share, best_share) >= 0:
                best, best_share = child, share
        return best, best_share


def _below(queue: ClusterQueueSnapshot, common: CohortNode) -> Node:
    node: Node = queue
    for above in queue.path():
        if above is common:
            break
        node = above
    return node
