"""Candidates of classical preemption, with the advantage that a place in the cohort tree gives.

Follows `pkg/scheduler/preemption/classical`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from controlplane.kueue.amounts import FlavorResource, Quotas
from controlplane.kueue.cache.cluster_queue import NEVER
from controlplane.kueue.cache.quota import CohortNode
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot, Snapshot
from controlplane.kueue.preemption.candidates import (
    IN_CLUSTER_QUEUE,
    IN_COHORT_RECLAIM_WHILE_BORROWING,
    IN_COHORT_RECLAMATION,
    Rules,
    ordered,
    satisfies_policy,
    uses_any,
)
from controlplane.kueue.workload.info import Info
from controlplane.kueue.workload.status import is_evicted


class Variant(Enum):
    """Reasons for which a candidate may be preempted; the value is the reason that is written."""

    WITHIN_QUEUE = (IN_CLUSTER_QUEUE, 0)
    HIERARCHICAL = (IN_COHORT_RECLAMATION, 1)
    WITHOUT_BORROWING = (IN_COHORT_RECLAMATION, 2)
    WHILE_BORROWING = (IN_COHORT_RECLAIM_WHILE_BORROWING, 3)


@dataclass(frozen=True)
class Candidate:
    """A candidate; `ancestor` is the lowest cohort common with the preemptor, None in its queue."""

    info: Info
    ancestor: CohortNode | None
    variant: Variant


class Candidates:
    """All candidates for a workload, in the order in which they are tried.

    Args:
        info: The preemptor.
        queue: Its queue in the snapshot.
        snapshot: The cycle's snapshot.
        pairs: Flavors and resources that are short.
        requests: What the preemptor takes.
        rules: Settings.
        now: Nanoseconds.
    """

    def __init__(
        self,
        info: Info,
        queue: ClusterQueueSnapshot,
        snapshot: Snapshot,
        pairs: tuple[FlavorResource, ...],
        requests: Mapping[FlavorResource, int],
        rules: Rules,
        now: int,
    ) -> None:
        self._info, self._queue, self._snapshot = info, queue, snapshot
        self._pairs, self._rules, self._now = pairs, rules, now
        own = self._ordered(self._own())
        hierarchical, by_priority = (self._ordered(each) for each in self._others(requests))
        self.none_from_others = not hierarchical and not by_priority
        self.none_hierarchical = not hierarchical
        lists = (hierarchical, by_priority, own)
        self.all = [
            each
            for evicted in (True, False)
            for part in lists
            for each in part
            if is_evicted(each.info.obj) is evicted
        ]

    def valid(self, *, borrow: bool) -> Iterator[Candidate]:
        """The candidates that still help, asked of the snapshot as it is at that moment."""
        return (each for each in self.all if self._helps(each, borrow))

    def _helps(self, candidate: Candidate, borrow: bool) -> bool:
        if candidate.info.cluster_queue == self._queue.name:
            return True
        if borrow and candidate.variant is Variant.WITHOUT_BORROWING:
            return False
        queue = self._snapshot.queues[candidate.info.cluster_queue]
        if queue.within_nominal(self._pairs):
            return False
        for above in queue.path():
            if above is candidate.ancestor:
                break
            if above.within_nominal(self._pairs):
                return False
        return True

    def _ordered(self, candidates: list[Candidate]) -> list[Candidate]:
        if len(candidates) < 2:
            return candidates
        by_key = {each.info.key: each for each in candidates}
        infos = ordered(
            (each.info for each in candidates), self._queue.name, self._now, self._rules
        )
        return [by_key[info.key] for info in infos]

    # -- collection --------------------------------------------------------------------------------

    def _own(self) -> list[Candidate]:
        if self._queue.preemption.within_cluster_queue == NEVER:
            return []
        return self._from_queue(self._queue, None, False)

    def _others(self, requests: Mapping[FlavorResource, int]) -> tuple[list[Candidate], ...]:
        hierarchical: list[Candidate] = []
        by_priority: list[Candidate] = []
        if self._queue.preemption.reclaim_within_cohort != NEVER:
            advantage, rest = self._queue.fit(requests)
            below: CohortNode | None = None
            for cohort in self._queue.path():
                found = hierarchical if advantage else by_priority
                self._from_subtree(cohort, cohort, below, advantage, found)
                fits, rest = cohort.fit(rest)
                # what fits a subtree has a better claim to its quota than all outside
                advantage = advantage or fits
                below = cohort
        return hierarchical, by_priority

    def _from_subtree(
        self,
        cohort: CohortNode,
        ancestor: CohortNode,
        done: CohortNode | None,
        advantage: bool,
        found: list[Candidate],
    ) -> None:
        for child in cohort.cohorts.values():
            if child is not done and not child.within_nominal(self._pairs):
                self._from_subtree(child, ancestor, done, advantage, found)
        for queue in cohort.queues.values():
            if queue is not self._queue and not queue.within_nominal(self._pairs):
                found.extend(self._from_queue(queue, ancestor, advantage))

    def _from_queue(
        self, queue: ClusterQueueSnapshot, ancestor: CohortNode | None, advantage: bool
    ) -> list[Candidate]:
        found = []
        for info in queue.workloads.values():
            variant = self._variant(info, advantage)
            if variant is not None:
                found.append(Candidate(info, ancestor, variant))
        return found

    def _variant(self, info: Info, advantage: bool) -> Variant | None:
        if not uses_any(info, self._pairs):
            return None
        preemption = self._queue.preemption
        own = info.cluster_queue == self._queue.name
        policy = preemption.within_cluster_queue if own else preemption.reclaim_within_cohort
        if not satisfies_policy(self._info, info, policy, self._rules):
            return None
        if own:
            return Variant.WITHIN_QUEUE
        if advantage:
            return Variant.HIERARCHICAL
        if preemption.borrowing_forbidden() or info.priority >= self._info.priority:
            return Variant.WITHOUT_BORROWING
        threshold = preemption.max_priority_threshold
        if threshold is not None and info.priority > threshold:
            return Variant.WITHOUT_BORROWING
        return Variant.WHILE_BORROWING


def attempts(
    candidates: Candidates, queue: ClusterQueueSnapshot, pairs: tuple[FlavorResource, ...]
) -> tuple[bool, ...]:
    """The attempts to make, each with borrowing allowed or not."""
    forbidden = queue.preemption.borrowing_forbidden()
    if candidates.none_from_others or (forbidden and not _under_nominal(queue, pairs)):
        return (True,)
    if forbidden and candidates.none_hierarchical:
        return (False, True)
    return (True, False)


def _under_nominal(queue: ClusterQueueSnapshot, pairs: tuple[FlavorResource, ...]) -> bool:
    usage: Quotas = queue.usage
    return all(queue.quota(pair).nominal > usage.get(pair, 0) for pair in pairs)
