"""The order in which the workloads of a cycle are admitted.

Follows `makeClassicalIterator` of `pkg/scheduler/scheduler.go` and `fair_sharing_iterator.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.kueue.cache.quota import CohortNode
from controlplane.kueue.cache.share import Share, compare, dominant_share
from controlplane.kueue.preemption.candidates import Rules
from controlplane.kueue.scheduler.entry import Entry
from controlplane.kueue.workload.info import Usage
from controlplane.kueue.workload.status import has_quota_reservation, queue_order_time


def in_order(entries: Sequence[Entry], rules: Rules) -> Iterator[Entry]:
    """Yield the entries; with fair sharing each choice sees what the ones before it took."""
    if rules.strategies is None:
        return iter(sorted(entries, key=lambda entry: _classical_key(entry, rules)))
    return _Tournament(entries, rules).run()


def _time(entry: Entry, rules: Rules) -> int:
    return queue_order_time(entry.info.obj, rules.gates, by_eviction=rules.by_eviction)


def _classical_key(entry: Entry, rules: Rules) -> tuple[bool, bool, int, int, int]:
    """Reserved quota, preemptors, low borrowing, high priority, early time; upstream leaves ties open."""
    gates = rules.gates
    return (
        not has_quota_reservation(entry.info.obj),
        gates.enabled("PrioritizePreemptorWorkloads") and not entry.preemptor,
        entry.assignment.borrowing,
        -entry.info.priority if gates.enabled("PrioritySortingWithinCohort") else 0,
        _time(entry, rules),
    )


class _Tournament:
    """Workloads of a cohort's tree compete: first within cohorts, their winners then above."""

    def __init__(self, entries: Sequence[Entry], rules: Rules) -> None:
        self._rules = rules
        self._entries = {entry.snapshot.name: entry for entry in entries}
        """One entry per queue: a second pass and a head of the same queue collide, as upstream."""
        self._shares: dict[tuple[str, str], Share] = {}
        self._usages: dict[str, Usage] = {}

    def run(self) -> Iterator[Entry]:
        while self._entries:
            first = next(iter(self._entries.values()))
            parent = first.snapshot.parent
            winner = first
            if parent is not None:
                root = parent.root()
                self._compute(root)
                winner = self._winner(root) or first
            del self._entries[winner.snapshot.name]
            yield winner

    def _compute(self, root: CohortNode) -> None:
        """The shares at each cohort that each workload would lead to."""
        self._shares, self._usages = {}, {}
        for queue in root.queues_below():
            entry = self._entries.get(queue.name)
            if entry is None:
                continue
            usage = entry.usage(self._rules.gates)
            self._usages[queue.name] = usage
            queue.add(usage)
            share = dominant_share(queue)
            for above in queue.path():
                self._shares[above.name, queue.name] = share
                share = dominant_share(above)
            queue.remove(usage)

    def _winner(self, cohort: CohortNode) -> Entry | None:
        best: Entry | None = None
        found = [self._winner(child) for child in cohort.cohorts.values()]
        found.extend(self._entries.get(name) for name in cohort.queues)
        for entry in found:
            if entry is not None and (best is None or self._less(entry, best, cohort.name)):
                best = entry
        return best

    def _less(self, a: Entry, b: Entry, cohort: str) -> bool:
        gates = self._rules.gates
        if gates.enabled("PrioritizePreemptorWorkloads") and a.preemptor != b.preemptor:
            return a.preemptor
        names = a.snapshot.name, b.snapshot.name
        one, other = (self._shares[cohort, name] for name in names)
        if gates.enabled("FairSharingPrioritizeNonBorrowing"):
            first = one.borrows_any(self._usages[names[0]].assigned)
            second = other.borrows_any(self._usages[names[1]].assigned)
            if first != second:
                return not first
        if order := compare(one, other):
            return order < 0
        if gates.enabled("PrioritySortingWithinCohort") and a.info.priority != b.info.priority:
            return a.info.priority > b.info.priority
        return _time(a, self._rules) < _time(b, self._rules)
