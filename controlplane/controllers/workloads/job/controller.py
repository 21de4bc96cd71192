"""The Job controller. Upstream: pkg/controller/job/job_controller.go.

Points: `job.expectations` (the Job was read), `job.pods` (the expectations were read),
`job.finalizers` (the pods were listed and claimed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import SECOND, format_time
from controlplane.client import calls
from controlplane.client.expectations import CountedExpectations
from controlplane.client.resources import JOBS, PODS
from controlplane.controllers.common.consistency import ConsistencyStore
from controlplane.controllers.common.controller import NORMAL, WARNING, Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry, together
from controlplane.controllers.common.features import CONSISTENT_JOB, WORKLOAD_WITH_JOB
from controlplane.controllers.common.namespaces import namespace_is_terminating
from controlplane.controllers.common.overdue import look_again
from controlplane.controllers.common.ownership import controller_of
from controlplane.controllers.common.pod_control import create_pod, delete_pod, is_gone
from controlplane.controllers.common.pods import is_ready
from controlplane.controllers.common.ref_manager import (
    claim_objects,
    controller_index,
    controller_keys,
    namespace_index,
)
from controlplane.controllers.common.slow_start import slow_start_batch
from controlplane.controllers.workloads.job import pods as jobpods
from controlplane.controllers.workloads.job.backoff import BackoffRecord, finished_at, remaining
from controlplane.controllers.workloads.job.changes import BATCH_PERIOD_NS, JobChanges
from controlplane.controllers.workloads.job.failure_policy import match_pod_failure_policy
from controlplane.controllers.workloads.job.scheduling import (
    JobScheduling,
    is_candidate,
    joined,
)
from controlplane.controllers.workloads.job.status import (
    COMPLETE_CONDITION,
    FAILED,
    FAILURE_TARGET,
    SUCCEEDED,
    SUCCESS_CRITERIA_MET,
    Ending,
    JobStatusDraft,
)
from controlplane.controllers.workloads.job.tracking import FinalizerExpectations
from controlplane.controllers.workloads.job.turn import Turn, failures
from controlplane.decisions import Point
from controlplane.sharing.replacing import replaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.batch import Job
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

NAME: Final = "kubernetes.io/job-controller"
"""The value of spec.managedBy of Jobs of this controller."""
BACKOFF_NS: Final = (SECOND, 60 * SECOND)
MAX_UNCOUNTED: Final = 500
MAX_PER_SYNC: Final = 500
REMOVALS_EXPECTED: Final = "105200"
"""Gate: a pod whose finalizer is being removed does not count until that was seen."""


class JobController(Controller):
    """Runs the pods of each Job and counts how they end."""

    name = "job-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("job")
        orphans = host.queue("job_orphan_pod")
        self.expectations = CountedExpectations()
        self.removals = FinalizerExpectations()
        self.backoffs: dict[str, BackoffRecord] = {}
        self._consistency = ConsistencyStore(caches, enabled=host.features[CONSISTENT_JOB])
        self._pods = caches.of(PODS, controller=controller_index, namespace=namespace_index)
        self._jobs = caches.of(JOBS, namespace=namespace_index)
        self._scheduling = JobScheduling(host, caches) if host.features[WORKLOAD_WITH_JOB] else None
        self._changes = JobChanges(
            host, self._pods, self._jobs, self.queue, orphans, self.expectations, self.removals
        )

    def work(self) -> tuple[Work, ...]:
        """One queue of Jobs, and one of pods without a Job to remove their finalizer."""
        return (
            Work("job", self.sync, backoff_ns=BACKOFF_NS),
            Work("job_orphan_pod", self.sync_orphan, workers=1, backoff_ns=BACKOFF_NS),
        )

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Pods tell of their Jobs; what pods and status changes ask for is batched for a second."""
        return {
            PODS: self._changes.of_pods(),
            JOBS: Handlers(self._changes.added, self._changes.updated, self._deleted),
        }

    def _deleted(self, obj: Object[Job], _unknown: bool) -> None:
        self._consistency.forget(obj.key, obj.uid)
        self._changes.deleted(obj)

    # ------------------------------------------------------------------ orphans

    def sync_orphan(self, key: str) -> Reconcile[None]:
        """Remove the tracking finalizer of a pod that no unfinished Job of ours controls."""
        obj = self._pods.get(key)
        if obj is None:
            return
        pod = obj.view
        reference = controller_of(pod)
        if reference is not None:
            if (reference.kind, reference.api_version) != ("Job", JOBS.api_version):
                return
            owner = self._changes.owners.of(pod)
            if owner is not None and (
                _managed_elsewhere(owner.view) or not jobpods.is_finished(owner.view)
            ):
                return
        if jobpods.is_tracked(pod):
            try:
                yield from calls.patch(PODS, pod.namespace, pod.name, jobpods.UNTRACK)
            except RequestFailed as error:
                if not is_gone(error):
                    raise

    # ------------------------------------------------------------------ reconcile

    def sync(self, key: str) -> Reconcile[None]:
        """Run what the Job wants, count what has finished, end it when it is done."""
        obj = self._jobs.get(key)
        if obj is None:
            self.expectations.forget(key)
            self.removals.forget(key)
            self.backoffs.pop(key, None)
            self._consistency.forget(key)
            return
        job = obj.view
        if _managed_elsewhere(job):
            return
        self._consistency.ensure_ready(key)
        if jobpods.is_finished(job):
            self.backoffs.pop(key, None)
            return
        if job.spec.completion_mode not in (None, "NonIndexed", "Indexed"):
            message = "Skipped Job sync because completion mode is unknown"
            self.host.event(job, WARNING, "UnknownCompletionMode", message)
            return
        yield Point("job.expectations")
        may_act = self.expectations.satisfied(key, self.host.now)
        if not may_act:
            look_again(self.host.fixes, self.queue, self.expectations, key, self.host.now)
        yield Point("job.pods")
        pods = yield from self._claim(job)
        group = None
        if self._scheduling is not None and is_candidate(job):
            group = yield from self._scheduling.ensure(job, pods)
        yield Point("job.finalizers")
        before = self.backoffs.get(key, BackoffRecord())
        removing: frozenset[str] = frozenset()
        if self.host.fixes.fixed(REMOVALS_EXPECTED):
            removing = self.removals.expected(key)
        turn = Turn(job, pods, removing, before, self.host.now, group)
        if turn.started_at is None and not turn.suspended:
            self._start(turn)
        deadline = turn.judge()
        if deadline is not None:
            self.queue.add_after(key, deadline)
        failed, changed = yield from self._act(turn, may_act=may_act)
        status, counts = turn.status, (turn.active, turn.ready, turn.terminating)
        old = job.status.active, job.status.ready, job.status.terminating
        status.set_count("active", turn.active)
        status.set_present("ready", turn.ready)
        status.set_present("terminating", turn.terminating)
        try:
            yield from self._track(turn, flush=changed or counts != old)
        except (*RequestFailed, Retry) as error:
            raise Retry(f"tracking status: {error}") from error
        if failed is not None:
            raise failed

    def _start(self, turn: Turn) -> None:
        turn.started_at = self.host.now
        turn.status.set_present("startTime", format_time(self.host.now))

    def _claim(self, job: Job) -> Reconcile[list[Pod]]:
        """The Job's pods, after adopting and releasing; adopted ones count as tracked at once."""
        related = [
            each.view
            for index in controller_keys(job)
            for each in self._pods.by_index("controller", index)
        ]
        tracking = (jobpods.TRACKING,)
        claimed = yield from claim_objects(PODS, JOBS, job, job.spec.selector, related, tracking)
        return [_as_adopted(pod, job) for pod in claimed]

    def _act(self, turn: Turn, *, may_act: bool) -> Reconcile[tuple[Exception | None, bool]]:
        """Delete or create pods; what failed, and whether condition Suspended changed."""
        job = turn.job
        if turn.ending is not None:
            active = turn.active
            deleted, failed = yield from self._delete_active(turn)
            if deleted != active or not may_act:
                turn.ending = None
            return failed, False
        failed = None
        managed = may_act and job.metadata.deletion_timestamp is None
        if managed:
            failed = yield from self._manage(turn)
        if turn.is_complete():
            message = "Reached expected number of succeeded pods"
            turn.ending = Ending(SUCCESS_CRITERIA_MET, "CompletionsReached", message, self.host.now)
            return failed, False
        return failed, managed and self._note_suspension(turn)

    def _note_suspension(self, turn: Turn) -> bool:
        now = self.host.now
        if turn.suspended:
            said = "Suspended", "True", "JobSuspended", "Job suspended"
        else:
            said = "Suspended", "False", "JobResumed", "Job resumed"
        if not turn.status.ensure(*said, now):
            return False
        reason = "Suspended" if turn.suspended else "Resumed"
        self.host.event(turn.job, NORMAL, reason, said[3])
        if turn.suspended:
            turn.status.set_present("startTime", None)
        else:
            self._start(turn)
        return True

    # ------------------------------------------------------------------ pods to run

    def _manage(self, turn: Turn) -> Reconcile[Exception | None]:
        """Bring the number of active pods to what is wanted: either delete or create in one turn."""
        job = turn.job
        if turn.suspended:
            return (
                yield from self._delete(
                    turn, jobpods.for_removal(job, turn.active_pods, turn.active)
                )
            )
        wanted = turn.wanted()
        surplus = max(0, turn.active - wanted)
        victims = jobpods.for_removal(job, turn.active_pods, surplus)[:MAX_PER_SYNC]
        if victims:
            return (yield from self._delete(turn, victims))
        leaving = turn.terminating if jobpods.replaces_failed_only(job) else 0
        missing = wanted - leaving - turn.active
        if missing <= 0:
            return None
        wait = 0 if turn.per_index else turn.backoff.remaining(self.host.now)
        indexes: list[int] = []
        if not wait:
            missing = min(missing, MAX_PER_SYNC)
            if turn.indexed:
                indexes, wait = self._due_indexes(turn, missing)
                missing = len(indexes)
        if wait:
            self.queue.add_after(job.key, max(wait, BATCH_PERIOD_NS))
            turn.active = 0
            return None
        return (yield from self._create(turn, missing, indexes))

    def _due_indexes(self, turn: Turn, count: int) -> tuple[list[int], int]:
        """The indexes that may be tried now, or how long until the first may be."""
        pending = turn.pending_indexes(count)
        if not turn.per_index:
            return pending, 0
        waits = {index: self._wait(turn.delayed.get(index)) for index in pending}
        due = [index for index, wait in waits.items() if not wait]
        return due, 0 if due else min(waits.values(), default=0)

    def _wait(self, lost: Pod | None) -> int:
        """Return the wait of the replacement of an index's failed pod."""
        if lost is None:
            return 0
        return remaining(failures(lost) + 1, finished_at(lost), self.host.now)

    def _create(
        self, turn: Turn, count: int, indexes: Sequence[int]
    ) -> Reconcile[Exception | None]:
        """Create pods in growing batches; after a batch with an error no further one is begun."""
        job = turn.job
        self.expectations.expect(job.key, count, 0, self.host.now)
        tried: list[int] = []

        def part(number: int) -> Reconcile[Exception | None]:
            tried.append(number)
            index = indexes[number] if indexes else None
            failed = None if index is None else turn.new_failures(index)
            pod = jobpods.new_pod(job, index, failed)
            if turn.group is not None:
                pod = joined(pod, turn.group)
            try:
                made = yield from create_pod(self.host, job, pod)
            except (*RequestFailed, Retry) as error:
                if namespace_is_terminating(error):
                    return None
                self.expectations.creation_observed(job.key)
                return error
            self._consistency.wrote(job.key, job.uid, PODS, made)
            return None

        made, error = yield from slow_start_batch("job.create", count, part)
        for _ in range(count - len(tried)):
            self.expectations.creation_observed(job.key)
        turn.active += made
        return error

    def _delete_active(self, turn: Turn) -> Reconcile[tuple[int, Exception | None]]:
        """Delete the pods of a Job that ends; their finalizers go later. How many are on their way, and what failed."""
        parts = [self._delete_one(turn, pod, untrack=False) for pod in turn.active_pods]
        return (yield from self._delete_all(turn, parts))

    def _delete(self, turn: Turn, pods: Sequence[Pod]) -> Reconcile[Exception | None]:
        """Delete pods that are too many; they are not counted, so their finalizers go first."""
        self.expectations.expect(turn.job.key, 0, len(pods), self.host.now)
        parts = [self._delete_one(turn, pod, untrack=True) for pod in pods]
        _, failed = yield from self._delete_all(turn, parts)
        return failed

    def _delete_all(
        self, turn: Turn, parts: Sequence[Reconcile[Exception | None]]
    ) -> Reconcile[tuple[int, Exception | None]]:
        errors = [error for error in (yield from together("job.delete", parts)) if error]
        deleted = len(parts) - len(errors)
        turn.active -= deleted
        turn.terminating += deleted
        return deleted, errors[0] if errors else None

    def _delete_one(self, turn: Turn, pod: Pod, *, untrack: bool) -> Reconcile[Exception | None]:
        """Delete a pod. That it is not there any more is no error."""
        job = turn.job
        if untrack and jobpods.is_tracked(pod):
            try:
                yield from calls.patch(PODS, pod.namespace, pod.name, jobpods.UNTRACK)
            except RequestFailed as error:
                self.expectations.deletion_observed(job.key)
                if is_gone(error):
                    return None
                return Retry(f"removing completion finalizer: {error}")
        try:
            yield from delete_pod(self.host, job, pod.name)
        except RequestFailed as error:
            if untrack:
                self.expectations.deletion_observed(job.key)
            return None if is_gone(error) else Retry(f"unable to delete pods: {error}")
        finally:
            turn.ready -= is_ready(pod)
        return None

    # ------------------------------------------------------------------ counting

    def _track(self, turn: Turn, *, flush: bool) -> Reconcile[None]:
        """Count finished pods exactly once, remove their finalizers, end the Job.

        A pod's uid goes into status.uncountedTerminatedPods before its finalizer is removed, and
        into the counter afterwards: whatever is overtaken or crashes in between, nothing is lost.
        """
        tracked = {
            pod.uid: None
            for pod in turn.pods
            if jobpods.is_tracked(pod) and pod.uid not in turn.removing
        }
        flush |= turn.status.count_untracked(tracked)
        untrack, full, counted = self._count(turn)
        flush |= counted
        if turn.indexed:
            flush |= self._write_indexes(turn)
        flush |= self._note_ending(turn)
        flush = yield from self._flush_and_untrack(turn, untrack, tracked, flush=flush)
        ended = None if full else self._end(turn)
        if not (flush or ended):
            return
        try:
            yield from self._write(turn)
        except RequestFailed as error:
            raise Retry(f"removing uncounted pods from status: {error}") from error
        if ended is not None:
            self._report(turn, ended)

    def _count(self, turn: Turn) -> tuple[list[Pod], bool, bool]:
        """Note finished pods as uncounted: whose finalizers may go, whether the list is full, whether it changed."""
        job, uncounted = turn.job, turn.status.uncounted
        pods: Sequence[Pod] = turn.pods
        if turn.indexed:
            pods = sorted(pods, key=lambda pod: _or_minus_one(jobpods.completion_index(pod)))
        untrack: list[Pod] = []
        indexes: list[int] = []
        changed = full = False
        for pod in pods:
            if pod.uid in turn.removing or not jobpods.is_tracked(pod):
                continue
            failed = jobpods.is_failed(pod, job)
            if not self._may_untrack(turn, pod, failed=failed):
                continue
            untrack.append(pod)
            index = jobpods.valid_index(pod, job)
            ended_badly = turn.ending is not None and turn.ending.kind != SUCCESS_CRITERIA_MET
            if pod.status.phase == "Succeeded" and pod.uid not in turn.counted[FAILED]:
                if turn.indexed:
                    if index is not None and index not in turn.succeeded_before:
                        indexes.append(index)
                        changed = True
                elif pod.uid not in turn.counted[SUCCEEDED]:
                    uncounted[SUCCEEDED].append(pod.uid)
                    changed = True
            elif (
                (failed or ended_badly)
                and pod.uid not in turn.counted[FAILED]
                and (not turn.indexed or index is not None)
                and match_pod_failure_policy(job.spec.pod_failure_policy, pod).counts
            ):
                uncounted[FAILED].append(pod.uid)
                changed = True
            if len(indexes) + sum(map(len, uncounted.values())) >= MAX_UNCOUNTED:
                full = True
                break
        turn.succeeded_indexes = turn.succeeded_indexes.with_indexes(indexes)
        return untrack, full, changed

    def _may_untrack(self, turn: Turn, pod: Pod, *, failed: bool) -> bool:
        """Return whether the finalizer may go: the pod is done, or the Job is."""
        ending = turn.job.metadata.deletion_timestamp is not None or turn.ending is not None
        if ending or pod.status.phase == "Succeeded":
            return True
        if not failed:
            return False
        index = jobpods.completion_index(pod)
        delayed = turn.delayed.get(index) if index is not None else None
        return delayed is None or delayed.uid != pod.uid

    def _write_indexes(self, turn: Turn) -> bool:
        """Write the indexes into the status; whether that changed it."""
        status = turn.status
        texts: dict[str, str | None] = {"completedIndexes": str(turn.succeeded_indexes) or None}
        failed = turn.failed_indexes
        texts["failedIndexes"] = None if failed is None else str(failed)
        changed = any(status.tree.get(name) != text for name, text in texts.items())
        for name, text in texts.items():
            status.set_present(name, text)
        status.set_count(SUCCEEDED, turn.succeeded_indexes.total)
        return changed

    def _note_ending(self, turn: Turn) -> bool:
        """Write the interim condition before finalizers go, and prepare the final one; whether it was new."""
        ending = turn.ending
        if ending is None:
            return False
        known = turn.status.condition(SUCCESS_CRITERIA_MET)
        met = known is not None and known.get("status") == "True"
        new = ending.kind == FAILURE_TARGET or (ending.kind == SUCCESS_CRITERIA_MET and not met)
        if new:
            turn.status.append(ending.kind, "True", ending.reason, ending.message, ending.at)
        turn.ending = ending.final(self.host.now)
        return new

    def _flush_and_untrack(
        self, turn: Turn, untrack: Sequence[Pod], tracked: dict[str, None], *, flush: bool
    ) -> Reconcile[bool]:
        """Write what is uncounted, remove finalizers, count; whether there is something to write again."""
        if flush:
            try:
                yield from self._write(turn)
            except RequestFailed as error:
                raise Retry(f"adding uncounted pods to status: {error}") from error
            self.backoffs[turn.job.key] = turn.backoff
            flush = False
        failed = yield from self._untrack(turn, untrack, tracked)
        flush |= turn.status.count_untracked(tracked)
        if failed is not None:
            if flush:
                try:
                    yield from self._write(turn)
                except RequestFailed as error:
                    raise Retry(f"removing uncounted pods from status: {error}") from error
            raise failed
        return flush

    def _untrack(
        self, turn: Turn, pods: Sequence[Pod], tracked: dict[str, None]
    ) -> Reconcile[Exception | None]:
        """Remove the finalizers of these pods; those that went are no longer `tracked`."""
        if not pods:
            return None
        key = turn.job.key
        self.removals.expect_removed(key, [pod.uid for pod in pods])

        def part(pod: Pod) -> Reconcile[Exception | None]:
            try:
                yield from calls.patch(PODS, pod.namespace, pod.name, jobpods.UNTRACK)
            except RequestFailed as error:
                self.removals.removal_observed(key, pod.uid)
                if not is_gone(error):
                    return error
            tracked.pop(pod.uid, None)
            return None

        results = yield from together("job.untrack", [part(pod) for pod in pods])
        return next((error for error in results if error is not None), None)

    def _end(self, turn: Turn) -> Ending | None:
        """Put the final condition into the status, unless pods are still uncounted or terminating."""
        ending = turn.ending
        if ending is None or any(turn.status.uncounted.values()) or turn.terminating > 0:
            return None
        now = self.host.now
        turn.status.ensure(ending.kind, "True", ending.reason, ending.message, now)
        if ending.kind == COMPLETE_CONDITION:
            turn.status.set_present("completionTime", format_time(ending.at))
        return ending

    def _report(self, turn: Turn, ending: Ending) -> None:
        job = turn.job
        if ending.kind != COMPLETE_CONDITION:
            self.host.event(job, WARNING, ending.reason, ending.message)
            return
        completions = job.spec.completions
        if completions is not None and turn.status.count(SUCCEEDED) > completions:
            message = "Too many succeeded pods running after completion count reached"
            self.host.event(job, WARNING, "TooManySucceededPods", message)
        self.host.event(job, NORMAL, "Completed", "Job completed")

    def _write(self, turn: Turn) -> Reconcile[None]:
        """Write the status over the version that this turn read, or wrote last."""
        job = turn.job
        tree = turn.base if turn.base is not None else job.tree
        written = yield from calls.update(JOBS, {**tree, "status": turn.status.body()}, "status")
        self._consistency.wrote(job.key, job.uid, JOBS, written)
        turn.base = written.tree
        turn.status = JobStatusDraft(written.tree.get("status"))


def _as_adopted(pod: Pod, job: Job) -> Pod:
    """The pod as it is once adopted; the cache does not show that yet."""
    metadata = pod.metadata
    if jobpods.is_tracked(pod) or any(each.uid == job.uid for each in metadata.owner_references):
        return pod
    finalizers = (*metadata.finalizers, jobpods.TRACKING)
    return replaced(pod, metadata=replaced(metadata, finalizers=finalizers))


def _or_minus_one(index: int | None) -> int:
    return -1 if index is None else index


def _managed_elsewhere(job: Job) -> bool:
    """Return whether another controller looks after the Job."""
    return job.spec.managed_by is not None and job.spec.managed_by != NAME
