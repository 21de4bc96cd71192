"""The search for workloads to preempt.

Follows `pkg/scheduler/preemption/preemption.go` and `preemption_oracle.go`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from controlplane.kueue.amounts import FlavorResource
from controlplane.kueue.cache.cluster_queue import NEVER
from controlplane.kueue.cache.share import LEAST
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot, Snapshot
from controlplane.kueue.flavors.assignment import Assignment
from controlplane.kueue.flavors.modes import Possibility
from controlplane.kueue.flavors.topology import TopologyRequests, find_places, topology_requests
from controlplane.kueue.preemption.candidates import (
    IN_CLUSTER_QUEUE,
    IN_COHORT_FAIR_SHARING,
    IN_COHORT_RECLAMATION,
    Rules,
    Target,
    ordered,
    satisfies_policy,
    uses_any,
)
from controlplane.kueue.preemption.classical import Candidates, attempts
from controlplane.kueue.preemption.fair_sharing import INITIAL_SHARE, QueueOrdering, passes
from controlplane.kueue.topology.workloads import first_failure
from controlplane.kueue.workload.info import Info, Usage


@dataclass
class _Search:
    """One search: for whom, for how much, and the snapshot that is changed and restored."""

    info: Info
    queue: ClusterQueueSnapshot
    snapshot: Snapshot
    pairs: tuple[FlavorResource, ...]
    usage: Usage
    topology: TopologyRequests = field(default_factory=dict)


@dataclass(frozen=True)
class Preemptor:
    """Finds targets.

    Args:
        rules: Settings.
        now: Nanoseconds.
    """

    rules: Rules
    now: int

    def targets(self, info: Info, assignment: Assignment, snapshot: Snapshot) -> list[Target]:
        """The workloads to preempt so that an assignment fits, none if that is not possible."""
        queue = snapshot.queues[info.cluster_queue]
        places: TopologyRequests = {}
        if self.rules.gates.enabled("TopologyAwareScheduling"):
            places = topology_requests(assignment, info, queue, self.rules.gates)
        usage = Usage(assignment.total_requests_for(info), {}, info.tas_usage)
        pairs = assignment.pairs_needing_preemption()
        return self._targets(_Search(info, queue, snapshot, pairs, usage, places))

    def targets_for(
        self, info: Info, pair: FlavorResource, amount: int, snapshot: Snapshot
    ) -> list[Target]:
        """The workloads to preempt for an amount of one flavor's resource."""
        queue = snapshot.queues[info.cluster_queue]
        usage = Usage({pair: amount})
        return self._targets(_Search(info, queue, snapshot, (pair,), usage))

    def _targets(self, search: _Search) -> list[Target]:
        if self.rules.strategies is None:
            return self._classical(search)
        return self._fair(search, self.rules.strategies)

    # -- classical ---------------------------------------------------------------------------------

    def _classical(self, search: _Search) -> list[Target]:
        candidates = Candidates(
            search.info,
            search.queue,
            search.snapshot,
            search.pairs,
            search.usage.assigned,
            self.rules,
            self.now,
        )
        if not candidates.all:
            return []
        for borrow in attempts(candidates, search.queue, search.pairs):
            targets: list[Target] = []
            for each in candidates.valid(borrow=borrow):
                targets.append(_take(search, each.info, each.variant.value[0]))
                if self._fits(search, borrow=borrow):
                    self._fill_back(search, targets, borrow=borrow)
                    _restore(search, targets)
                    return targets
            _restore(search, targets)
        return []

    def _fill_back(self, search: _Search, targets: list[Target], *, borrow: bool) -> None:
        """Put back what can stay after all, from the last but one to the first."""
        for at in range(len(targets) - 2, -1, -1):
            search.snapshot.add_workload(targets[at].info)
            if self._fits(search, borrow=borrow):
                targets[at] = targets[-1]
                targets.pop()
            else:
                search.snapshot.remove_workload(targets[at].info)

    def _fits(self, search: _Search, *, borrow: bool) -> bool:
        queue = search.queue
        for pair, amount in search.usage.assigned.items():
            if not borrow and queue.borrowing_with(pair, amount):
                return False
            if amount > queue.available(pair):
                return False
        if not search.topology:
            return True
        result = find_places(queue, search.topology, search.info.obj, self.rules.gates)
        return first_failure(result) is None

    # -- fair sharing ------------------------------------------------------------------------------

    def _fair(self, search: _Search, strategies: tuple[str, ...]) -> list[Target]:
        candidates = ordered(self._fair_candidates(search), search.queue.name, self.now, self.rules)
        if not candidates:
            return []
        search.queue.add(search.usage)
        fits, targets, rejected = self._first_strategy(search, candidates, strategies[0])
        if not fits and len(strategies) > 1:
            fits = self._second_strategy(search, rejected, targets)
        search.queue.remove(search.usage)
        if not fits:
            _restore(search, targets)
            return []
        self._fill_back(search, targets, borrow=True)
        _restore(search, targets)
        return targets

    def _fair_candidates(self, search: _Search) -> list[Info]:
        own, policies = search.queue, search.queue.preemption
        queues: list[tuple[ClusterQueueSnapshot, str]] = []
        if policies.within_cluster_queue != NEVER:
            queues.append((own, policies.within_cluster_queue))
        if own.parent is not None and policies.reclaim_within_cohort != NEVER:
            queues.extend(
                (each, policies.reclaim_within_cohort)
                for each in own.parent.root().queues_below()
                if each is not own and any(each.borrowing(pair) for pair in search.pairs)
            )
        return [
            info
            for queue, policy in queues
            for info in queue.workloads.values()
            if satisfies_policy(search.info, info, policy, self.rules)
            and uses_any(info, search.pairs)
        ]

    def _first_strategy(
        self, search: _Search, candidates: list[Info], strategy: str
    ) -> tuple[bool, list[Target], list[Info]]:
        ordering = QueueOrdering(search.queue, candidates, self.now)
        targets: list[Target] = []
        rejected: list[Info] = []
        entitled = self.rules.gates.enabled("FairSharingPreemptWithinNominal") and not any(
            search.queue.borrowing(pair) for pair in search.pairs
        )
        for queue in ordering:
            if queue is search.queue or entitled:
                reason = IN_CLUSTER_QUEUE if queue is search.queue else IN_COHORT_RECLAMATION
                targets.append(_take(search, ordering.pop(queue), reason))
                if self._fits_without_own(search):
                    return True, targets, []
                continue
            own_new, target_old = ordering.shares(queue)
            if math.isinf(own_new.precise()) and not math.isinf(target_old.precise()):
                while ordering.has(queue):
                    rejected.append(ordering.pop(queue))
                continue
            while ordering.has(queue):
                info = ordering.pop(queue)
                target_new = ordering.share_without(queue, info)
                if not passes(strategy, own_new, target_old, target_new):
                    rejected.append(info)
                    continue
                targets.append(_take(search, info, IN_COHORT_FAIR_SHARING))
                if self._fits_without_own(search):
                    return True, targets, []
                break
        return False, targets, rejected

    def _second_strategy(
        self, search: _Search, rejected: list[Info], targets: list[Target]
    ) -> bool:
        ordering = QueueOrdering(search.queue, rejected, self.now)
        for queue in ordering:
            own_new, target_old = ordering.shares(queue)
            info = ordering.pop(queue)
            if passes(INITIAL_SHARE, own_new, target_old, LEAST):
                targets.append(_take(search, info, IN_COHORT_FAIR_SHARING))
                if self._fits_without_own(search):
                    return True
            ordering.drop(queue)
        return False

    def _fits_without_own(self, search: _Search) -> bool:
        """`_fits` while the preemptor's own usage is counted in the snapshot."""
        search.queue.remove(search.usage)
        fits = self._fits(search, borrow=True)
        search.queue.add(search.usage)
        return fits


def _take(search: _Search, info: Info, reason: str) -> Target:
    search.snapshot.remove_workload(info)
    return Target(info, reason, search.snapshot.queues[info.cluster_queue])


def _restore(search: _Search, targets: list[Target]) -> None:
    for target in targets:
        search.snapshot.add_workload(target.info)


@dataclass(frozen=True)
class PreemptionOracle:
    """Tells the search for flavors what preemption could do."""

    preemptor: Preemptor
    snapshot: Snapshot

    def simulate(
        self, queue: ClusterQueueSnapshot, info: Info, pair: FlavorResource, amount: int
    ) -> tuple[Possibility, int]:
        """The possible outcome of preemption for an amount, and the height of borrowing after it."""
        targets = self.preemptor.targets_for(info, pair, amount, self.snapshot)
        if not targets:
            return Possibility.NO_CANDIDATES, queue.lowest_fitting_subtree(pair, amount)[0]
        put_back = self.snapshot.remove_usage_of(target.info for target in targets)
        height = queue.lowest_fitting_subtree(pair, amount)[0]
        put_back()
        own = any(target.info.cluster_queue == queue.name for target in targets)
        return (Possibility.PREEMPT if own else Possibility.RECLAIM), height
