"""The scheduling cycle of Kueue.

A cycle is a generator. It yields `Point` where upstream releases a lock, the effects of
`controllers.effects` for requests and events, `Spawn` for an admission that is written while the cycle goes
on, and `Together` for preemptions that are written side by side. Follows `pkg/scheduler/scheduler.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from controlplane.api.quantity import Quantity
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.client.errors import ApiError, ConnectionLost, RequestFailed, is_not_found
from controlplane.decisions import Choose, Locked, Point, Spawn, Together
from controlplane.gates import FixGates
from controlplane.kueue.amounts import quantity, summed
from controlplane.kueue.cache.cache import Cache, CacheError
from controlplane.kueue.cache.cluster_queue import ClusterQueueState
from controlplane.kueue.cache.snapshot import FITS, NO_TOPOLOGY, Snapshot
from controlplane.kueue.controllers.effects import ApplyStatus, Emit
from controlplane.kueue.flavors.assignment import IGNORE_UNDECLARED
from controlplane.kueue.flavors.modes import WAITING_FOR_QUOTA, Mode
from controlplane.kueue.flavors.topology import unhealthy_nodes
from controlplane.kueue.names import ADMISSION_MANAGER
from controlplane.kueue.preemption.candidates import ANY, Rules, Target
from controlplane.kueue.preemption.expectations import Expectations
from controlplane.kueue.preemption.issue import event_texts, message
from controlplane.kueue.queues.manager import Head, QueueManager
from controlplane.kueue.queues.reasons import Requeue
from controlplane.kueue.queues.usage import BY_USAGE, FairSharing, entry_penalty, local_queue_weight
from controlplane.kueue.scheduler.assignments import (
    SLICE_REPLACEMENT,
    Search,
    given_up,
    replaces_nodes,
    with_cluster_of,
)
from controlplane.kueue.scheduler.entry import Entry, State, propagate_requests
from controlplane.kueue.scheduler.observer import SILENT, SchedulerObserver
from controlplane.kueue.scheduler.order import any_order, order_of
from controlplane.kueue.scheduler.variants import (
    less_favorable_sibling,
    migration_refused,
    more_favorable_sibling,
)
from controlplane.kueue.workload import status
from controlplane.kueue.workload.admissibility import inadmissible
from controlplane.kueue.workload.info import Info, Usage
from controlplane.kueue.workload.status_checks import checks_in, has_all_required_checks
from controlplane.kueue.workload.status_evict import finish, prepare_eviction
from controlplane.kueue.workload.status_patch import admission_patch
from controlplane.kueue.workload.variants import is_variant

WORKLOAD: Final = "Workload"
PENDING_EVALUATION: Final = "PendingEvaluation"
WAITING_FOR_PREEMPTED: Final = "WaitingForPreemptedWorkloads"
PARALLEL: Final = 8
"""Preemptions that are written at the same time."""
Steps = Generator[Any, Any, None]


class Reader(Protocol):
    """The informer caches of the process."""

    def get(self, kind: str, namespace: str, name: str) -> Tree | None:
        """The object, None when it does not exist."""

    def list(self, kind: str, namespace: str = "") -> Any:
        """The objects of a kind, of one namespace or of all, by name."""


@dataclass(frozen=True)
class SchedulerOptions:
    """Configuration of the scheduler.

    Args:
        rules: Gates, fair sharing strategies, order of requeued workloads.
        quota_check: Strategy for resources without quota.
        fair_sharing: Admission fair sharing, None if it is off.
        fixes: The fixes of published races that are in force.
        chooses_orders: Orders that upstream leaves to its maps are choices of the run; else they are fixed.
    """

    rules: Rules
    quota_check: str = ""
    fair_sharing: FairSharing | None = None
    fixes: FixGates = field(default_factory=FixGates)
    chooses_orders: bool = False


@dataclass
class _Cycle:
    """State that the entries of a cycle share."""

    snapshot: Snapshot
    search: Search
    preempted: dict[str, Info] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    """Preemptions put off, by queue."""


@dataclass
class _Batch:
    """Preemptions for one workload: those that no worker has begun, and how many ended which way.

    The first failure cancels the requests on their way (the server may have carried them out) and
    keeps others from being begun.
    """

    rest: Iterator[Target]
    done: int = 0
    failed: int = 0


class Scheduler:
    """Kueue's scheduler.

    Args:
        queues: Queue manager.
        cache: Scheduler cache.
        reader: Informer caches.
        clock: The present time, nanoseconds.
        options: Configuration.
        expectations: Preemptions that were asked for; shared with the event handlers of workloads.
        observer: Metrics.
        released: Called with a workload whose admission failed, once the cache no longer counts it.
    """

    def __init__(
        self,
        queues: QueueManager,
        cache: Cache,
        reader: Reader,
        clock: Callable[[], int],
        options: SchedulerOptions,
        expectations: Expectations,
        observer: SchedulerObserver = SILENT,
        released: Callable[[Tree], None] = lambda _: None,
    ) -> None:
        self._queues, self._cache, self._reader = queues, cache, reader
        self._clock = clock
        self._options = options
        self._gates = options.rules.gates
        self._expectations = expectations
        self._observer = observer
        self._released = released
        fixed = options.fixes.fixed
        self._expects, self._satisfies = fixed("kq9437"), fixed("kq11502")
        self._loose_reasons, self._keeps_slice = fixed("kq7845"), fixed("here13")
        self._flushes, self._admits_first = fixed("here5"), fixed("kq11195")
        enabled = self._gates.enabled("AdmissionFairSharing")
        self._fair_sharing = options.fair_sharing if enabled else None
        by_usage = self._fair_sharing is not None
        self._rules = replace(options.rules, admission_fair_sharing=by_usage)
        self.cycles = 0
        self.held: dict[str, tuple[str, str]] = {}
        """By key, uid and queue of the workloads that a cycle took from their queues, until it has decided on them."""

    # -- cycle -------------------------------------------------------------------------------------

    def cycle(self) -> Generator[Any, Any, bool | None]:
        """Run one cycle.

        Returns:
            True if a workload was admitted or evicted, False if none was; None if no workload waits.
        """
        heads = self._queues.heads()
        if not heads:
            return None
        if len(heads) > 1 and self._options.chooses_orders:
            heads = yield from any_order(heads)
        self.cycles += (
            1  # one in which upstream waits for heads is no other than the one that finds some
        )
        start = self._clock()
        self.held = {
            head.info.key: (head.info.uid, head.info.cluster_queue)
            for head in heads
            if not head.info.second_pass_iteration
        }
        yield Point("kueue.scheduler.heads")
        usage = None if self._fair_sharing is None else self._local_queue_usage
        snapshot = self._cache.snapshot(usage)
        search = Search(
            snapshot,
            self._rules,
            start,
            self.cycles,
            self._options.quota_check,
            self._options.fixes,
        )
        cycle = _Cycle(snapshot, search)
        yield Point("kueue.scheduler.snapshot")
        entries, rest = yield from self._nominate(heads, cycle)
        yield Point("kueue.scheduler.nominated")
        order = order_of(entries, self._rules)
        while firsts := order.firsts():
            tree = 0
            if len(firsts) > 1 and self._options.chooses_orders:
                tree = yield Choose("kueue.fair-sharing", len(firsts), "kueue.fair-sharing")
            yield from self._process(order.take(firsts[tree]), cycle)
        success = False
        for entry in entries:
            if entry.state in (State.ASSUMED, State.EVICTED):
                success = True
            else:
                yield from self._requeue(entry)
        for entry in rest:
            yield from self._requeue(entry)
        for name, count in cycle.skipped.items():
            self._observer.preemptions_skipped(name, count)
        self._observer.cycle_done(success=success, duration=self._clock() - start)
        return success

    def _local_queue_usage(self, queue: ClusterQueueState, info: Info) -> float | None:
        assert self._fair_sharing is not None
        if queue.admission_mode != BY_USAGE:
            return None
        local = self._reader.get("LocalQueue", info.namespace, info.queue_name)
        weight = 1.0 if local is None else local_queue_weight(local)
        key = f"{info.namespace}/{info.queue_name}"
        return self._queues.ledger.usage(key, weight, self._fair_sharing.weights)

    # -- nomination --------------------------------------------------------------------------------

    def _nominate(
        self, heads: list[Head], cycle: _Cycle
    ) -> Generator[Any, Any, tuple[list[Entry], list[Entry]]]:
        """Find assignments; the second list has the workloads that cannot have one."""
        entries: list[Entry] = []
        rest: list[Entry] = []
        for head in heads:
            workload = head.info.obj
            queue = cycle.snapshot.queues.get(head.info.cluster_queue)
            entry = Entry(head.info, queue, head.preemptor)
            if not status.needs_second_pass(workload) and self._cache.is_added(head.info):
                self.held.pop(head.info.key, None)
                continue
            yield Point("kueue.scheduler.nominate")
            if self._refuse(entry, cycle.snapshot):
                rest.append(entry)
            else:
                entry.record(*cycle.search.run(entry))
                entries.append(entry)
        return entries, rest

    def _refuse(self, entry: Entry, snapshot: Snapshot) -> bool:
        """Return whether a workload gets no assignment; why stands in the entry."""
        info, name = entry.info, entry.info.cluster_queue
        if checks_in(info.obj, "Retry") or checks_in(info.obj, "Rejected"):
            entry.message = "The workload has failed admission checks"
            entry.reason = PENDING_EVALUATION
        elif name in snapshot.inactive:
            entry.message, entry.reason = f"ClusterQueue {name} is inactive", "Suspended"
        elif entry.queue is None:
            entry.message, entry.reason = f"ClusterQueue {name} not found", "Misconfigured"
        else:
            namespace = self._reader.get("Namespace", "", info.namespace)
            ranges = self._reader.list("LimitRange", info.namespace)
            failed = inadmissible(info.obj, namespace, entry.queue.selector, ranges)
            if failed is None:
                return False
            entry.message, entry.reason = failed.message, "Misconfigured"
            if failed.mismatch:
                entry.requeue = Requeue.NAMESPACE_MISMATCH
        return True

    # -- one entry ---------------------------------------------------------------------------------

    def _process(self, entry: Entry, cycle: _Cycle) -> Steps:
        """Admit a workload, preempt for it, or note why neither happens."""
        queue, info = entry.snapshot, entry.info
        variant = self._gates.enabled("ConcurrentAdmission") and is_variant(info.obj)
        if variant and more_favorable_sibling(info, queue) is not None:
            text = "A more favorable variant is already admitted"
            entry.skip(text, PENDING_EVALUATION, self._gates)
            return
        usage, fits = self._update(entry, cycle)
        mode = entry.assignment.mode()
        if (
            mode is not Mode.FIT
            and self._gates.enabled("TASFailedNodeReplacementFailFast")
            and replaces_nodes(info)
        ):
            yield from self._evict_from_failed_nodes(entry)
            return
        if not self._may_go_on(entry, mode, usage, cycle):
            return
        if not fits:
            text = "Workload no longer fits after processing another workload"
            entry.skip(text, WAITING_FOR_QUOTA, self._gates)
            if mode is Mode.PREEMPT:
                cycle.skipped[queue.name] = cycle.skipped.get(queue.name, 0) + 1
            return
        cycle.preempted |= given_up(entry, keeps_slice=self._keeps_slice)
        queue.add(usage)
        targets, old_slice = self._without_slice(entry)
        if mode is Mode.PREEMPT:
            entry.reason = WAITING_FOR_PREEMPTED
            yield from self._preempt(entry, targets)
            return
        yield from self._wait_for_ready_pods(entry)
        if old_slice is not None:
            entry.info = with_cluster_of(entry.info, old_slice.info)
        if variant:
            victim = less_favorable_sibling(info, queue)
            if victim is not None:
                yield from self._migrate(entry, victim)
                return
        entry.state = State.NOMINATED
        if old_slice is not None and not self._admits_first:
            yield from self._finish_slice(entry, old_slice.info.obj)
            old_slice = None
        yield from self._admit(entry, old_slice)

    def _may_go_on(self, entry: Entry, mode: Mode, usage: Usage, cycle: _Cycle) -> bool:
        """Return whether a workload can be admitted or preempt others now, as far as modes tell."""
        queue = entry.snapshot
        if mode is Mode.NO_FIT:
            entry.requeue, entry.reason = Requeue.NO_FIT, entry.assignment.no_fit_reason
            return False
        if mode is Mode.PREEMPT and not entry.targets:
            entry.requeue, entry.reason = Requeue.PREEMPTION_NO_CANDIDATES, WAITING_FOR_QUOTA
            prioritized = self._gates.enabled("PrioritizePreemptorWorkloads") and entry.preemptor
            if queue.preemption.reclaim_within_cohort != ANY or prioritized:
                queue.add(entry.net(entry.to_reserve(), self._gates))
            return False
        if mode is Mode.PREEMPT and self._gated(entry.info.obj):
            entry.state, entry.reason = State.GATED, "AdmissionGated"
            entry.message = "Workload requires preemption, but it's gated"
            entry.requeue = Requeue.PREEMPTION_GATED
            entry.set_last_assignment(None)
            return False
        if mode is Mode.DEFERRED_FIT:
            entry.message = (
                "Workload has overlapping preemption targets with another workload, "
                "but will fit after these preemptions complete"
            )
            entry.reason, entry.requeue = WAITING_FOR_PREEMPTED, Requeue.PENDING_PREEMPTION
            entry.set_last_assignment(None)
            queue.add(usage)
            return False
        if _overlap(entry.targets, cycle):
            text = "Workload has overlapping preemption targets with another workload"
            entry.skip(text, WAITING_FOR_QUOTA, self._gates)
            cycle.skipped[queue.name] = cycle.skipped.get(queue.name, 0) + 1
            return False
        return True

    def _gated(self, workload: Tree) -> bool:
        gates = ("ConcurrentAdmission", "MultiKueueOrchestratedPreemption")
        return any(map(self._gates.enabled, gates)) and status.has_closed_preemption_gate(workload)

    def _update(self, entry: Entry, cycle: _Cycle) -> tuple[Usage, bool]:
        """Search again if what the workload counted on is taken; its usage, and whether that fits."""
        usage = entry.usage(self._gates)
        check = self._fits(entry, usage, cycle)
        overlap = _overlap(entry.targets, cycle) and self._gates.enabled(
            "RecomputeAssignmentUponPreemptionTargetsOverlap"
        )
        misplaced = check == NO_TOPOLOGY and self._gates.enabled(
            "TASRecomputeAssignmentWithinSchedulingCycle"
        )
        if not overlap and not misplaced:
            return usage, check == FITS
        put_back = cycle.snapshot.remove_workloads(cycle.preempted.values()) if overlap else None
        nominated = {
            pod_set.name: {name: each.name for name, each in pod_set.flavors.items()}
            for pod_set in entry.assignment.pod_sets
        }
        entry.info = replace(entry.info, last_assignment=None, nomination=nominated)
        entry.record(*cycle.search.run(entry))
        entry.info = replace(entry.info, nomination=None)
        if put_back is not None:
            put_back()
            if entry.assignment.mode() is Mode.FIT:
                entry.assignment.set_mode(Mode.DEFERRED_FIT)
        usage = entry.usage(self._gates)
        check = self._fits(entry, usage, cycle)
        if overlap:
            new = entry.targets and check == FITS and not _overlap(entry.targets, cycle)
            deferred = entry.assignment.mode() is Mode.DEFERRED_FIT
            result = "DeferredFit" if deferred else "NewTargets" if new else "Skipped"
            self._observer.targets_recomputed(entry.snapshot.name, result)
        return usage, check == FITS

    def _fits(self, entry: Entry, usage: Usage, cycle: _Cycle) -> str:
        """Return why usage would not fit once all preemptions are over, or an empty text."""
        gone = cycle.preempted | given_up(entry, keeps_slice=self._keeps_slice)
        put_back = cycle.snapshot.remove_usage_of(gone.values())
        check = entry.snapshot.fits(usage)
        put_back()
        return check

    def _without_slice(self, entry: Entry) -> tuple[list[Target], Target | None]:
        """The targets, and apart from them the slice of an elastic job that the workload replaces."""
        annotations = entry.info.obj["metadata"].get("annotations") or {}
        key = annotations.get(SLICE_REPLACEMENT)
        if key is None or not self._gates.enabled("ElasticJobsViaWorkloadSlices"):
            return entry.targets, None
        old = next((each for each in entry.targets if each.info.key == key), None)
        return [each for each in entry.targets if each is not old], old

    # -- eviction ----------------------------------------------------------------------------------

    def _patch(self, workload: Tree, *, strict: bool = False) -> Generator[Any, Any, Tree]:
        stored: Tree = yield ApplyStatus(
            WORKLOAD, admission_patch(workload, strict=strict), ADMISSION_MANAGER
        )
        return stored

    def _evict(
        self, copy: Tree, reason: str, text: str, cancelled: Callable[[], bool] = lambda: False
    ) -> Steps:
        """Evict a workload, given as a working copy.

        Raises:
            ApiError, ConnectionLost: The request failed, or it was `cancelled` before its answer came.
        """
        eviction = prepare_eviction(copy, reason, text, self._clock())
        stored = yield from self._patch(copy)
        if cancelled():
            raise ConnectionLost("context canceled")
        if eviction is not None:
            self._observer.evicted(stored, eviction)
            yield Emit(WORKLOAD, stored, *eviction.event)

    def _evict_from_failed_nodes(self, entry: Entry) -> Steps:
        nodes = ",".join(unhealthy_nodes(entry.info.obj))
        text = f"Workload was evicted as there was no replacement for unhealthy node(s): {nodes}"
        try:
            yield from self._evict(status.working_copy(entry.info.obj), "NodeFailures", text)
        except RequestFailed as error:
            if not _is_gone(error):
                return
        entry.state = State.EVICTED

    def _preempt(self, entry: Entry, targets: list[Target]) -> Steps:
        """Ask for the preemption of all targets, several at a time."""
        batch = _Batch(iter(targets[PARALLEL:]))
        workers = [self._preempt_some(entry, first, batch) for first in targets[:PARALLEL]]
        yield Together("kueue.scheduler.preempt", workers)
        entry.set_last_assignment(None)
        if batch.done:
            entry.message += f". Pending the preemption of {batch.done} workload(s)"
            entry.requeue = Requeue.PENDING_PREEMPTION
        elif batch.failed:
            entry.message += f". Preempting {batch.failed} workload(s) failed, will retry."
            entry.requeue = Requeue.PREEMPTION_FAILED

    def _preempt_some(self, entry: Entry, first: Target, batch: _Batch) -> Steps:
        """Preempt one workload after the other, until none is left or a request of the batch fails."""
        target: Target | None = None if batch.failed else first
        while target is not None:
            if (yield from self._preempt_one(entry, target, batch)):
                batch.done += 1
            else:
                batch.failed += 1
            target = None if batch.failed else next(batch.rest, None)

    def _preempt_one(
        self, entry: Entry, target: Target, batch: _Batch
    ) -> Generator[Any, Any, bool]:
        """Preempt one workload; return whether it is, or is about to be, preempted.

        Gate kq9437 (kueue pull request 9437): before, nothing was kept of a preemption that the informer has not
        told of yet, and the next cycle asked for it again, with the same events.
        """
        key, uid = target.info.key, target.info.uid
        if status.is_evicted(target.info.obj):
            self._expectations.observed(key, uid)
            return True
        if self._expects:
            if not self._expectations.satisfied(key):
                return True
            self._expectations.expect(key, uid)
        text = message(entry.info, entry.snapshot, target)
        copy = status.working_copy(target.info.obj)
        status.set_preempted(copy, target.reason, text, self._clock())
        failed_before = batch.failed
        try:
            yield from self._evict(copy, "Preempted", text, lambda: batch.failed > failed_before)
        except RequestFailed:
            self._expectations.observed(key, uid)
            return False
        mine, other = event_texts(entry.info, target, text, self._gates)
        yield Emit(WORKLOAD, target.info.obj, "Normal", "Preempted", mine)
        yield Emit(WORKLOAD, entry.info.obj, "Normal", "PreemptedWorkload", other)
        self._observer.preempted(entry.info.cluster_queue, target.reason, target.info.cluster_queue)
        return True

    def _migrate(self, entry: Entry, victim: Info) -> Steps:
        """Evict the variant of the same job on a less favorable flavor."""
        refused = migration_refused(entry.info, entry.snapshot)
        if refused is not None:
            entry.reason = PENDING_EVALUATION
            entry.message = refused or entry.message
            return
        entry.reason = WAITING_FOR_PREEMPTED
        text = (
            f"Evicted to accommodate a workload (UID: {entry.info.uid}) due to migration to "
            "more favorable resource flavor"
        )
        with suppress(*RequestFailed):  # upstream only logs it; the next cycle tries again
            yield from self._evict(status.working_copy(victim.obj), "FlavorMigration", text)
        entry.set_last_assignment(None)
        entry.requeue = Requeue.PENDING_MIGRATION
        entry.message += ". Pending the migration of 1 workload(s)"

    # -- admission ---------------------------------------------------------------------------------

    def _wait_for_ready_pods(self, entry: Entry) -> Steps:
        """Hold the whole scheduler until the pods of all admitted workloads are ready."""
        if status.needs_second_pass(entry.info.obj) or self._cache.pods_ready():
            return
        observed = self._gates.enabled("UnadmittedWorkloadsObservability")
        copy = status.working_copy(entry.info.obj)
        text = "waiting for all admitted workloads to be in PodsReady condition"
        reason = "WaitingForPodsReady" if observed else "Waiting"
        if status.unset_quota_reservation(copy, reason, text, self._clock(), self._gates):
            with suppress(*RequestFailed):  # upstream only logs it
                yield from self._patch(copy)
        while not self._cache.pods_ready():
            yield Locked("kueue.scheduler.podsReady")

    def _admit(self, entry: Entry, old_slice: Target | None) -> Steps:
        """Count the workload as admitted, and have its status written while the cycle goes on."""
        admission: Tree = {
            "clusterQueue": entry.snapshot.name,
            "podSetAssignments": entry.assignment.to_trees(self._gates),
        }
        assumed = self._prepared(entry, admission)
        yield Point("kueue.scheduler.assume")
        if not self._cache.add_or_update(assumed):
            entry.message = f"Failed to admit workload: workload {entry.info.key} could not be added to the cache"
            return
        entry.state = State.ASSUMED
        self.held.pop(entry.info.key, None)
        if self._penalized(entry):
            self._queues.ledger.push_penalty(
                self._local_queue(entry), entry.info.key, self._penalty(entry), self._clock()
            )
        yield Spawn("kueue.scheduler.admit", self._write_admission(entry, admission, old_slice))

    def _prepared(self, entry: Entry, admission: Tree) -> Tree:
        """A copy of the workload with its quota reserved, admitted if nothing else is missing."""
        copy = status.working_copy(entry.info.obj)
        now = self._clock()
        status.set_quota_reservation(copy, admission, now)
        if has_all_required_checks(copy, entry.snapshot.check_flavors):
            status.sync_admitted(copy, now, self._gates)
        return copy

    def _write_admission(self, entry: Entry, admission: Tree, old_slice: Target | None) -> Steps:
        """Write the admission; if that fails the workload goes back to its queue.

        Gate kq11502 (kueue pull request 11502): a workload may be preempted between its assumption and this write,
        which then overwrites the eviction. Before, the preemption stayed expected, and its preemptor waited.
        """
        before = entry.info.obj
        copy = self._prepared(entry, admission)
        if self._gates.enabled("TopologyAwareScheduling") and unhealthy_nodes(before):
            copy["status"].pop("unhealthyNodes", None)
        try:
            stored = yield from self._patch(copy)
        except RequestFailed as error:
            yield Point("kueue.scheduler.forget")
            self._forget(entry, copy)
            if not _is_gone(error):
                yield from self._requeue(entry)
            return
        if self._satisfies:
            self._expectations.observed(entry.info.key, entry.info.uid)
        yield from self._report(entry, stored)
        if old_slice is not None and self._gates.enabled("ElasticJobsViaWorkloadSlices"):
            yield from self._finish_slice(entry, old_slice.info.obj)

    def _forget(self, entry: Entry, assumed: Tree) -> None:
        """Count a workload, which was assumed, no longer: its admission failed.

        Gate here5 (proposed here; not reported): upstream asks for no flush, and frees the quota outside the lock of
        the queues. A workload that was parked because of this one stays parked, unless this one takes the quota
        again or goes; it does neither if it has moved to another queue. The repair asks for a flush, in one step.
        """
        with suppress(CacheError):  # its queue is gone, and its usage with it
            self._cache.delete_workload(entry.info.key)
        if self._flushes:
            self._queues.notify([entry.info.cluster_queue])
        self._released(assumed)
        if self._penalized(entry):
            self._queues.ledger.drop_penalty(self._local_queue(entry), entry.info.key)

    def _report(self, entry: Entry, stored: Tree) -> Steps:
        name = entry.snapshot.name
        before = entry.info.obj
        waited = status.queued_wait(stored, self._clock())
        if not status.has_quota_reservation(before):
            text = (
                f"Quota reserved in ClusterQueue {name}, wait time since queued was "
                f"{waited / SECOND:.0f}s"
            )
            if considered := entry.assignment.considered():
                text += f"; Flavors considered: {considered}"
            yield Emit(WORKLOAD, stored, "Normal", "QuotaReserved", status.event_text(text))
            self._observer.quota_reserved(stored, name, waited)
        if status.is_admitted(stored) and not unhealthy_nodes(before):
            text = f"Admitted by ClusterQueue {name}, wait time since reservation was 0s"
            yield Emit(WORKLOAD, stored, "Normal", "Admitted", text)
            self._observer.admitted(stored, name, waited)

    def _finish_slice(self, entry: Entry, old: Tree) -> Steps:
        """Finish the slice that the admitted workload replaces; with gate kq11195 off, one that is to be admitted."""
        if status.is_finished(old):
            return
        labels = entry.info.obj["metadata"].get("labels") or {}
        text = (
            f"Replaced to accommodate a workload (UID: {entry.info.uid}, JobUID: "
            f"{labels.get('kueue.x-k8s.io/job-uid', '')}) due to workload slice aggregation"
        )
        copy = status.working_copy(old)
        finish(copy, "WorkloadSliceReplaced", text, self._clock())
        try:
            stored = yield from self._patch(copy)
        except RequestFailed:
            return  # the job's reconciler makes good for it
        yield Emit(WORKLOAD, stored, "Normal", "WorkloadSliceReplaced", text)

    # -- admission fair sharing --------------------------------------------------------------------

    def _penalized(self, entry: Entry) -> bool:
        return (
            self._fair_sharing is not None
            and entry.snapshot.admission_mode == BY_USAGE
            and not status.has_quota_reservation(entry.info.obj)
        )

    def _local_queue(self, entry: Entry) -> str:
        return f"{entry.info.namespace}/{entry.info.queue_name}"

    def _penalty(self, entry: Entry) -> dict[str, Quantity]:
        assert self._fair_sharing is not None
        requests = summed(each.requests for each in entry.info.total_requests)
        if self._options.quota_check == IGNORE_UNDECLARED:
            covered = {name for group in entry.snapshot.groups for name in group.resources}
            requests = {name: amount for name, amount in requests.items() if name in covered}
        amounts = {name: quantity(name, amount) for name, amount in requests.items()}
        return entry_penalty(amounts, self._fair_sharing)

    # -- requeue -----------------------------------------------------------------------------------

    def _requeue(self, entry: Entry) -> Steps:
        """Hand a workload back to its queue, and write why it waits.

        Gate kq7845 (kueue pull request 7845): before, the write carried the version that had been popped, and any
        change since made it a conflict, which is only logged: the workload never says why it waits.
        """
        workload = entry.info.obj
        if entry.state is not State.NONE and entry.requeue is Requeue.GENERIC:
            entry.requeue = Requeue.FAILED_AFTER_NOMINATION
        yield Point("kueue.scheduler.requeue")
        self.held.pop(entry.info.key, None)
        if self._queues.queue_second_pass(workload, entry.info.second_pass_iteration):
            text = status.event_text(entry.message)
            yield Emit(WORKLOAD, workload, "Warning", "SecondPassFailed", text)
            return
        self._queues.requeue(entry.info, entry.requeue, entry.reason)
        if entry.state not in (State.NONE, State.SKIPPED, State.GATED):
            return
        observed = self._gates.enabled("UnadmittedWorkloadsObservability")
        reason = entry.reason if observed else "Pending"
        copy = status.working_copy(workload)
        if self._unset(copy, entry, reason):
            with suppress(*RequestFailed):  # upstream only logs it
                yield from self._patch(copy, strict=not self._loose_reasons)
        yield Emit(WORKLOAD, workload, "Warning", reason, status.event_text(entry.message))

    def _unset(self, copy: Tree, entry: Entry, reason: str) -> bool:
        now = self._clock()
        changed = status.unset_quota_reservation(copy, reason, entry.message, now, self._gates)
        changed = propagate_requests(copy, entry.info) or changed
        if entry.state is State.GATED:
            # upstream forgets the other changes if this one is none
            return status.set_blocked_on_gates(copy, "PreemptionGated", entry.message, now)
        return changed


def _is_gone(error: Exception) -> bool:
    return isinstance(error, ApiError) and is_not_found(error)


def _overlap(targets: list[Target], cycle: _Cycle) -> bool:
    return any(target.info.key in cycle.preempted for target in targets)
