"""The assignment that a cycle goes on with: the full one, or one with fewer pods.

Follows `getInitialAssignments` of `pkg/scheduler/scheduler.go`.
"""

from __future__ import annotations

from controlplane.kueue.cache.snapshot import Snapshot
from controlplane.kueue.flavors.assigner import FlavorAssigner
from controlplane.kueue.flavors.assignment import Assignment
from controlplane.kueue.flavors.modes import Mode
from controlplane.kueue.flavors.reducer import search_counts
from controlplane.kueue.preemption.candidates import Target
from controlplane.kueue.preemption.preemptor import Preemptor
from controlplane.kueue.workload.info import pod_sets

Found = tuple[Assignment, list[Target]]


def find_assignment(assigner: FlavorAssigner, preemptor: Preemptor, snapshot: Snapshot) -> Found:
    """Return the assignment and the workloads to preempt for it."""
    full = assigner.assign()
    if full.mode() is Mode.FIT:
        return full, []
    if full.mode() is Mode.PREEMPT:
        targets = preemptor.targets(assigner.info, full, snapshot)
        if targets:
            return full, targets
    if assigner.gates.enabled("PartialAdmission") and assigner.info.can_be_partially_admitted():

        def fits(counts: list[int]) -> Found | None:
            reduced = assigner.assign(counts)
            if reduced.mode() is Mode.FIT:
                return reduced, []
            if reduced.mode() is Mode.PREEMPT:
                found = preemptor.targets(assigner.info, reduced, snapshot)
                if found:
                    return reduced, found
            return None

        best = search_counts(pod_sets(assigner.info.obj), fits)
        if best is not None:
            return best
    return full, []
