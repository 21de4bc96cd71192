"""The assignment that a cycle goes on with: the full one, or one with fewer pods; its topology.

Follows `getAssignments` of `pkg/scheduler/scheduler.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from controlplane.gates import FixGates
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot, Snapshot
from controlplane.kueue.flavors.assigner import FlavorAssigner
from controlplane.kueue.flavors.assignment import Assignment
from controlplane.kueue.flavors.modes import Mode
from controlplane.kueue.flavors.reducer import search_counts
from controlplane.kueue.flavors.topology import find_places, take_places, topology_requests
from controlplane.kueue.gates import Gates
from controlplane.kueue.preemption.candidates import Rules, Target
from controlplane.kueue.preemption.preemptor import PreemptionOracle, Preemptor
from controlplane.kueue.scheduler.entry import Entry
from controlplane.kueue.topology.requests import asks_for_topology
from controlplane.kueue.workload.domains import domains_of
from controlplane.kueue.workload.info import Info, LastAssignment, pod_sets
from controlplane.kueue.workload.status import is_admitted, status_of

Found = tuple[Assignment, list[Target]]
SLICE_REPLACEMENT: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
"""Annotation: the workload (namespace/name) that this one replaces."""


@dataclass(frozen=True)
class Search:
    """The conditions of all searches of a cycle."""

    snapshot: Snapshot
    rules: Rules
    now: int
    cycle: int
    quota_check: str = ""
    fixes: FixGates = field(default_factory=FixGates)

    def run(self, entry: Entry) -> Found:
        """Return the assignment of a workload and the workloads to preempt for it."""
        queue, gates = entry.snapshot, self.rules.gates
        last = entry.info.last_assignment
        if last is not None and self._outdated(last, entry.info, queue, gates):
            entry.set_last_assignment(None)
        info = entry.info
        preemptor = Preemptor(self.rules, self.now)
        replaced = replaced_slice(info, queue, gates)
        assigner = FlavorAssigner(
            info,
            queue,
            self.snapshot.flavors,
            PreemptionOracle(preemptor, self.snapshot),
            gates,
            fair_sharing=self.rules.strategies is not None,
            quota_check=self.quota_check,
            replaced=replaced,
            cycle=self.cycle,
            begins_anew=self.fixes.fixed("here4"),
        )
        assignment, targets = find_assignment(assigner, preemptor, self.snapshot)
        if replaced is not None and (targets or assignment.mode() is Mode.FIT):
            targets = [Target(replaced, "", queue), *targets]
        self._place(info, queue, assignment, targets)
        return assignment, targets

    def _outdated(
        self, last: LastAssignment, info: Info, queue: ClusterQueueSnapshot, gates: Gates
    ) -> bool:
        if gates.enabled("FlavorFungibilityPreserveScanProgress"):
            if not last.matches(info.hash):
                return True
            if self.cycle - last.cycle <= 1:
                return False
        return queue.generation > last.generation

    def _place(
        self,
        info: Info,
        queue: ClusterQueueSnapshot,
        assignment: Assignment,
        targets: list[Target],
    ) -> None:
        """Find topology domains for after the preemptions, so that they can be held free."""
        gates = self.rules.gates
        if (
            not gates.enabled("TopologyAwareScheduling")
            or assignment.mode() is not Mode.PREEMPT
            or not (queue.topology_only or any(map(asks_for_topology, pod_sets(info.obj))))
            or replaces_nodes(info)
        ):
            return
        requests = topology_requests(assignment, info, queue, gates)
        if targets:
            put_back = self.snapshot.remove_usage_of(target.info for target in targets)
            result = find_places(queue, requests, info.obj, gates)
            put_back()
        else:
            result = find_places(queue, requests, info.obj, gates, simulate_empty=True)
        take_places(assignment, info, queue, result)


def replaces_nodes(info: Info) -> bool:
    """Return whether the workload runs on a node that failed."""
    status = status_of(info.obj)
    failed = {each.get("name", "") for each in status.get("unhealthyNodes") or ()}
    if not failed or not is_admitted(info.obj):
        return False
    return any(
        values[-1] in failed
        for each in (status.get("admission") or {}).get("podSetAssignments") or ()
        if each.get("topologyAssignment") is not None
        for values, _ in domains_of(each["topologyAssignment"])
    )


def replaced_slice(info: Info, queue: ClusterQueueSnapshot, gates: Gates) -> Info | None:
    """The admitted workload that a slice of an elastic job replaces."""
    if not gates.enabled("ElasticJobsViaWorkloadSlices"):
        return None
    key = (info.obj["metadata"].get("annotations") or {}).get(SLICE_REPLACEMENT)
    found = None if key is None else queue.workloads.get(key)
    return found if found is not None and found.namespace == info.namespace else None


def find_assignment(assigner: FlavorAssigner, preemptor: Preemptor, snapshot: Snapshot) -> Found:
    """Return the full assignment, or one with fewer pods, and the workloads to preempt for it."""
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


def with_cluster_of(info: Info, old: Info) -> Info:
    """The workload on the cluster that its predecessor runs on."""
    known = {**status_of(info.obj)}
    cluster = status_of(old.obj).get("clusterName")
    known.pop("clusterName", None)
    if cluster is not None:
        known["clusterName"] = cluster
    return replace(info, obj={**info.obj, "status": known})


def given_up(entry: Entry, *, keeps_slice: bool) -> dict[str, Info]:
    """The workloads, by key, whose quota a workload may have.

    Gate here13 (proposed here; not reported): since kueue pull request 9322 a slice of an elastic job asks for what its
    predecessor does not have yet, and upstream still counts the predecessor among these: its quota is there twice for
    this workload, and once too often for all that follow in the cycle. The repair leaves it out (`keeps_slice`).
    """
    replaced = (entry.info.obj["metadata"].get("annotations") or {}).get(SLICE_REPLACEMENT)
    return {
        target.info.key: target.info
        for target in entry.targets
        if not keeps_slice or target.info.key != replaced
    }
