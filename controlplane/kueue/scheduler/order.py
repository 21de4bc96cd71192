"""The order in which the workloads of a cycle are admitted.

Follows `makeClassicalIterator` of `pkg/scheduler/scheduler.go` and `fair_sharing_iterator.go`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol

from controlplane.decisions import Choose
from controlplane.kueue.cache.quota import CohortNode
from controlplane.kueue.cache.share import Share, compare, dominant_share
from controlplane.kueue.preemption.candidates import Rules
from controlplane.kueue.queues.manager import Head
from controlplane.kueue.scheduler.entry import Entry
from controlplane.kueue.workload.info import Usage
from controlplane.kueue.workload.status import has_quota_reservation, queue_order_time


def any_order(heads: list[Head]) -> Generator[Any, Any, list[Head]]:
    """An order that upstream leaves to two maps: any rotation of the fixed one, as the run chooses."""
    found: list[Head] = []
    again = [head for head in heads if head.info.second_pass_iteration]
    firsts = [head for head in heads if not head.info.second_pass_iteration]
    for kind, part in (("kueue.second-pass", again), ("kueue.heads", firsts)):
        first = (yield Choose(kind, len(part), kind)) if len(part) > 1 else 0
        found += part[first:] + part[:first]
    return found


class Order(Protocol):
    """The entries that are left, in their order."""

    def firsts(self) -> list[Entry]:
        """Return one entry of each cohort tree of which upstream's map may hand out the first; none at the end."""
        ...

    def take(self, first: Entry) -> Entry:
        """Take the next entry, of the tree of `first`, which is one of `firsts`."""
        ...


def order_of(entries: Sequence[Entry], rules: Rules) -> Order:
    """The order of the entries; with fair sharing each choice sees what the ones before it took."""
    return _Sorted(entries, rules) if rules.strategies is None else _Tournament(entries, rules)


class _Sorted:
    """The classical order. It is stable here; upstream's order of ties follows that of the heads."""

    def __init__(self, entries: Sequence[Entry], rules: Rules) -> None:
        self._left = sorted(entries, key=lambda entry: _classical_key(entry, rules))
        self._left.reverse()

    def firsts(self) -> list[Entry]:
        return self._left[-1:]

    def take(self, _first: Entry) -> Entry:
        return self._left.pop()


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

    def firsts(self) -> list[Entry]:
        # Upstream takes the first entry of a map, which decides the tree and no more.
        found: dict[str, Entry] = {}
        for entry in self._entries.values():
            parent = entry.snapshot.parent
            tree = f"/{entry.snapshot.name}" if parent is None else parent.root().name
            found.setdefault(tree, entry)
        return list(found.values())

    def take(self, first: Entry) -> Entry:
        winner = first
        parent = first.snapshot.parent
        if parent is not None:
            root = parent.root()
            self._compute(root)
            winner = self._winner(root) or first
        del self._entries[winner.snapshot.name]
        return winner

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
