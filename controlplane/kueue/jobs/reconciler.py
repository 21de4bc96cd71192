"""The reconciler of all jobs. Follows `ReconcileGenericJob` of `pkg/controller/jobframework/reconciler.go`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from attrs import field, frozen

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.client.errors import ApiError, is_not_found
from controlplane.kueue.controllers.effects import (
    ApplyStatus,
    Create,
    Delete,
    Done,
    Emit,
    MergePatch,
    Reconcile,
    ReconcileError,
    Update,
)
from controlplane.kueue.controllers.observer import SILENT, Observer
from controlplane.kueue.controllers.orphans import (
    finalize_orphan,
    finish_workload,
    remove_finalizer,
)
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.ancestors import (
    LONGEST_CHAIN,
    AncestorError,
    ChainTooLong,
    Surroundings,
    controller_of,
)
from controlplane.kueue.jobs.kinds import ManagedJob, Steps, Unretryable
from controlplane.kueue.jobs.objects import is_elastic, labels_of, prebuilt_workload, queue_name
from controlplane.kueue.jobs.pod_sets import Info, PermanentError, from_pod_set, infos_from_status
from controlplane.kueue.jobs.slices import ensure_slices, is_replacement, latest_active
from controlplane.kueue.jobs.workloads import (
    WORKLOAD,
    prepare,
    slices_of,
    update_gated_by,
    update_priority,
)
from controlplane.kueue.names import (
    ADMISSION_MANAGER,
    JOB_CONTROLLER,
    RECLAIMABLE_PODS_MANAGER,
)
from controlplane.kueue.workload import status
from controlplane.kueue.workload.status_patch import admission_patch, base_patch

__all__ = ["JobController"]

NOT_READY: Final = "Not all pods are ready or succeeded"
RECOVERING: Final = "At least one pod has failed, waiting for recovery"
READY: Final = "All pods reached readiness and the workload is running"
_REQUEUED: Final = frozenset(("Preempted", "NodeFailures"))
"""Reasons of an eviction after which a Workload goes back to the queue at once."""


@frozen
class JobController:
    """Reconciles jobs of all kinds.

    Args:
        around: Surroundings of the jobs.
        clock: Current time in nanoseconds.
        waits_for_pods: Report whether the pods of admitted jobs are ready.
        retention: Nanoseconds that a job deactivated by Kueue is kept, None for ever.
        observer: Metrics.
    """

    around: Surroundings
    clock: Callable[[], int]
    waits_for_pods: bool = True
    retention: int | None = None
    observer: Observer = field(default=SILENT)

    @property
    def gates(self) -> Gates:
        """Feature gates."""
        return self.around.gates

    def reconcile(self, job: ManagedJob, namespace: str, name: str) -> Reconcile:
        """Reconcile one job, which has not been read yet."""
        try:
            return (yield from self._reconcile(job, namespace, name))
        except Unretryable:
            return Done()

    def _reconcile(self, job: ManagedJob, namespace: str, name: str) -> Reconcile:
        gone = job.load(namespace, name)
        if job.is_skipped():
            return Done()
        if gone:
            yield from self._finalize(job)
            return Done()
        if not self._is_managed_here(job):
            return Done()
        ancestor = yield from self._ancestor(job)
        if not queue_name(job.tree) and not self._managed_without_queue(job, ancestor):
            return Done()
        if ancestor is not None:
            yield from self._child(job, ancestor)
            return Done()
        workload = yield from self._ensure_one(job)
        if workload is not None:
            conditions = job.custom_conditions(workload)
            if conditions is not None:
                manager = f"kueue-{job.kind.kind.lower()}-controller"
                yield from self._apply(workload, {"conditions": conditions}, manager)
                return Done()
            if status.is_finished(workload):
                yield from self._over(job, workload)
                yield from remove_finalizer(workload)
                return Done()
            if workload["metadata"].get("deletionTimestamp"):
                yield from self._stop(job, workload, "WorkloadDeleted", "Workload is deleted")
                yield from remove_finalizer(workload)
                return Done()
        if (ended := job.finished()) is not None:
            message, succeeded = ended
            yield from self._job_finished(job, workload, message, succeeded)
            return Done()
        if workload is None:
            yield from self._without_workload(job)
            return Done()
        return (yield from self._with_workload(job, workload))

    # -- whether the job is Kueue's business -------------------------------------------------------

    def _is_managed_here(self, job: ManagedJob) -> bool:
        namespace = self.around.reader.get("Namespace", "", job.namespace)
        if namespace is None:
            return False
        selector = self.around.namespaces
        return selector is None or selector.matches(labels_of(namespace))

    def _ancestor(self, job: ManagedJob) -> Steps:
        if job.top_level:
            return None
        try:
            return self.around.managed_ancestor(job.tree)
        except ChainTooLong as error:
            text = (
                "Terminated search for Kueue-managed Job because ancestor depth exceeded limit of"
                f" {LONGEST_CHAIN}"
            )
            yield Emit(job.kind.kind, job.tree, "Warning", "JobNestingTooDeep", text)
            raise ReconcileError(str(error)) from None
        except AncestorError as error:
            raise ReconcileError(str(error)) from None

    def _managed_without_queue(self, job: ManagedJob, ancestor: Tree | None) -> bool:
        if self.around.manage_without_queue:
            return True
        return ancestor is not None and bool(queue_name(ancestor))

    def _child(self, job: ManagedJob, ancestor: Tree) -> Steps:
        """Suspend a running child of a job that has no quota."""
        if job.finished() is not None or job.is_suspended():
            return
        latest = self._latest_workload(ancestor)
        if latest is not None:
            elastic = self._is_elastic(job) or is_elastic(ancestor, self.gates)
            if not status.is_evicted(latest) if elastic else status.is_admitted(latest):
                return
        old = job.tree
        job.tree = yield MergePatch(job.kind.kind, old, job.suspended(old))
        text = "Kueue managed child job suspended"
        yield Emit(job.kind.kind, job.tree, "Normal", "Suspended", text)

    def _latest_workload(self, job: Tree) -> Tree | None:
        uid = job["metadata"].get("uid", "")
        owned = [
            each
            for each in self.around.reader.list(WORKLOAD, job["metadata"].get("namespace", ""))
            if not status.is_finished(each)
            and any(
                owner.get("uid", "") == uid
                for owner in each["metadata"].get("ownerReferences") or ()
            )
        ]
        return max(
            owned,
            key=lambda each: (status.created_at(each), each["metadata"].get("uid", "")),
            default=None,
        )

    # -- the one Workload of the job ---------------------------------------------------------------

    def _ensure_one(self, job: ManagedJob) -> Steps:
        """The Workload of the job, None without one; others are deleted, and then an error ends this pass."""
        if prebuilt := prebuilt_workload(job.tree, self.gates):
            return (yield from self._prebuilt(job, prebuilt))
        if self._is_elastic(job):
            slice_, fits = yield from ensure_slices(slices_of(job), job.pod_sets(), self.clock)
            if fits:
                return (yield from self._with_priority(job, slice_))
        match, others = yield from job.find_matching()
        to_update: Tree | None = None
        if match is None and others and job.is_suspended():
            if not status.has_quota_reservation(others[0]):
                to_update, *others = others
        if match is None and not job.is_suspended():
            yield from self._stop_unmatched(job, others)
        yield from self._delete_others(job, others, matched=match is not None)
        if to_update is not None:
            return (yield from self._update_to_match(job, to_update))
        if match is not None:
            match = yield from update_gated_by(job, match)
            match = yield from update_priority(job, match)
        return match

    def _is_elastic(self, job: ManagedJob) -> bool:
        return is_elastic(job.tree, self.gates)

    def _with_priority(self, job: ManagedJob, workload: Tree | None) -> Steps:
        """The slice with the priority of the job; the one that still has quota gets it, too."""
        active = latest_active(slices_of(job))
        if workload is not None:
            workload = yield from update_priority(job, workload)
        if active is not None and (
            workload is None or active["metadata"]["name"] != workload["metadata"]["name"]
        ):
            yield from update_priority(job, active)
        return workload

    def _prebuilt(self, job: ManagedJob, name: str) -> Steps:
        workload = self.around.reader.get(WORKLOAD, job.namespace, name)
        if workload is None:
            return None
        owner = controller_of(workload)
        if owner is not None and owner.get("uid", "") != job.uid:
            return None
        workload = yield from job.own(workload)
        if self._is_elastic(job) and is_replacement(workload):
            return workload  # the job follows
        if job.is_equivalent(workload):
            return workload
        text = "The prebuilt workload is out of sync with its user job"
        yield from finish_workload(workload, "OutOfSync", text, self.clock())
        return None

    def _stop_unmatched(self, job: ManagedJob, others: Sequence[Tree]) -> Steps:
        if job.finished() is not None:
            return
        only = others[0] if len(others) == 1 else None
        if only is None:
            text = "Missing Workload; unable to restore pod templates"
        else:
            text = "No matching Workload; restoring pod templates according to existent Workload"
        yield from self._stop(job, only, "NoMatchingWorkload", text)

    def _delete_others(self, job: ManagedJob, others: Sequence[Tree], *, matched: bool) -> Steps:
        deleted = 0
        for each in others:
            key = status.key_of(each)
            try:
                each = yield from remove_finalizer(each)
                if each["metadata"].get("deletionTimestamp"):
                    continue
                yield Delete(WORKLOAD, each)
            except ApiError as error:
                if not is_not_found(error):
                    raise
                continue
            deleted += 1
            text = f"Deleted not matching Workload: {key}"
            yield Emit(job.kind.kind, job.tree, "Normal", "DeletedWorkload", text)
        if deleted:
            what = "extra workloads" if matched else "no matching workloads"
            raise ReconcileError(f"{what}: deleted {len(others)} workloads")

    def _update_to_match(self, job: ManagedJob, workload: Tree) -> Steps:
        try:
            made = yield from job.constructed()
            made = yield from prepare(job, made, workload["spec"].get("active"))
        except ReconcileError as error:
            raise ReconcileError(f"can't construct workload for update: {error}") from None
        stored = yield Update(WORKLOAD, {**workload, "spec": made["spec"]})
        text = f"Updated not matching Workload for suspended job: {status.key_of(stored)}"
        yield Emit(job.kind.kind, job.tree, "Normal", "UpdatedWorkload", text)
        return stored

    def _without_workload(self, job: ManagedJob) -> Steps:
        """Make the Workload, once no pod is active."""
        prebuilt = prebuilt_workload(job.tree, self.gates)
        if prebuilt:
            yield from self._stop(job, None, "NoMatchingWorkload", "missing workload")
        if job.is_active() and not self._is_elastic(job):
            return  # a new slice is made while the pods of the one before run
        if prebuilt:
            raise ReconcileError("prebuilt workload not found")
        made = yield from job.constructed()
        made = yield from prepare(job, made, None)
        stored = yield Create(WORKLOAD, made)
        text = f"Created Workload: {status.key_of(stored)}"
        yield Emit(job.kind.kind, job.tree, "Normal", "CreatedWorkload", text)
        self.observer.workload_created(job.tree, job.kind.kind, stored)

    # -- the end of job or Workload ----------------------------------------------------------------

    def _finalize(self, job: ManagedJob) -> Steps:
        """Let go of the Workloads of a job that is gone, and of a job that is going."""
        for workload in job.child_workloads():
            controlled = controller_of(workload) is not None
            try:
                yield from finalize_orphan(
                    workload, self.clock(), self.gates, can_finish=controlled
                )
            except ApiError as error:
                if not is_not_found(error):
                    raise
        if job.tree["metadata"].get("deletionTimestamp"):
            yield from job.finalize()

    def _over(self, job: ManagedJob, workload: Tree) -> Steps:
        yield from job.finalize()
        text = f"Workload '{status.key_of(workload)}' is declared finished"
        yield Emit(job.kind.kind, job.tree, "Normal", "FinishedWorkload", text)

    def _job_finished(
        self, job: ManagedJob, workload: Tree | None, message: str, succeeded: bool
    ) -> Steps:
        if workload is not None:
            reason = "Succeeded" if succeeded else "Failed"
            try:
                yield from finish_workload(workload, reason, message, self.clock())
            except ApiError as error:
                if not is_not_found(error):
                    raise
            text = f"Workload '{status.key_of(workload)}' is declared finished"
            yield Emit(job.kind.kind, job.tree, "Normal", "FinishedWorkload", text)
        yield from job.finalize()

    # -- a job with its Workload -------------------------------------------------------------------

    def _with_workload(self, job: ManagedJob, workload: Tree) -> Reconcile:
        if (yield from self._reclaim(job, workload)):
            return Done()
        if self.waits_for_pods and (yield from self._report_pods(job, workload)):
            return Done()
        evicted = status.find(workload, status.EVICTED)
        if evicted is not None and evicted["status"] == "True":
            return (yield from self._evicted(job, workload, evicted))
        if job.is_suspended():
            yield from self._suspended(job, workload)
        elif not status.is_admitted(workload) and not self._is_elastic(job):
            text = "Not admitted by cluster queue"
            yield from self._stop(job, workload, "NotAdmitted", text)
        return Done()

    def _apply(self, workload: Tree, part: Tree, manager: str) -> Steps:
        body = {**base_patch(workload, strict=True), **({"status": part} if part else {})}
        return (yield ApplyStatus(WORKLOAD, body, manager))

    def _reclaim(self, job: ManagedJob, workload: Tree) -> Steps:
        """Report pods that need their quota no more; return whether that changed."""
        pods = job.reclaimable_pods()
        if pods is None or not self.gates.enabled("ReclaimablePods"):
            return False
        sizes = {each["name"]: each.get("count") or 0 for each in workload["spec"]["podSets"]}
        pods = [
            {**each, "count": min(each["count"], sizes.get(each["name"], each["count"]))}
            for each in pods
        ]
        known = status.status_of(workload).get("reclaimablePods") or []
        counts = [{each["name"]: each.get("count") or 0 for each in some} for some in (pods, known)]
        if len(pods) == len(known) and counts[0] == counts[1]:
            return False
        part: Tree = {"reclaimablePods": pods} if pods else {}
        yield from self._apply(workload, part, RECLAIMABLE_PODS_MANAGER)
        return True

    def _report_pods(self, job: ManagedJob, workload: Tree) -> Steps:
        """Set PodsReady; return whether it changed."""
        ready, reason, text = self._pods_ready(job, workload)
        found = status.find(workload, status.PODS_READY)
        value = "True" if ready else "False"
        if found is not None and (found["status"], found.get("reason")) == (value, reason):
            return False
        new = status.condition(
            workload, status.PODS_READY, reason, text, self.clock(), status=ready
        )
        manager = f"{JOB_CONTROLLER}-{status.PODS_READY}"
        stored = yield from self._apply(workload, {"conditions": [new]}, manager)
        if ready and reason == "Started":
            self.observer.pods_ready(stored, self.clock())
        return True

    def _pods_ready(self, job: ManagedJob, workload: Tree) -> tuple[bool, str, str]:
        if not status.is_admitted(workload):
            return False, "WaitForStart", NOT_READY
        found = status.find(workload, status.PODS_READY) or EMPTY_MAP
        reason = found.get("reason", "")
        if job.pods_ready():
            again = reason in {"WaitForRecovery", "Recovered"}
            return True, "Recovered" if again else "Started", READY
        if found.get("status") == "True" or reason == "WaitForRecovery":
            return False, "WaitForRecovery", RECOVERING
        return False, "WaitForStart", NOT_READY

    def _evicted(self, job: ManagedJob, workload: Tree, evicted: Tree) -> Reconcile:
        """Stop an evicted job; when its pods are gone the quota is given back."""
        reason, message = evicted.get("reason", ""), evicted.get("message", "")
        yield from self._stop(job, workload, "WorkloadEvicted", message)
        if status.has_quota_reservation(workload) and not job.is_active():
            again = reason in _REQUEUED and not self._dies_with_its_pod(workload)
            copy = status.working_copy(workload)
            status.set_requeued(copy, reason, message, self.clock(), status=again)
            granular = self.gates.enabled("UnadmittedWorkloadsObservability")
            pending = "PendingEvaluation" if granular else "Pending"
            status.unset_quota_reservation(copy, pending, message, self.clock(), self.gates)
            workload = yield ApplyStatus(WORKLOAD, admission_patch(copy), ADMISSION_MANAGER)
        return (yield from self._retain(job, workload, evicted))

    def _dies_with_its_pod(self, workload: Tree) -> bool:
        if not self.gates.enabled("SkipReassignmentForPodOwnedWorkloads"):
            return False
        owners: list[Tree] = workload["metadata"].get("ownerReferences") or []
        annotations = workload["metadata"].get("annotations") or EMPTY_MAP
        group = annotations.get("kueue.x-k8s.io/is-group-workload") == "true"
        if len(owners) != 1 or group:
            return False
        owner: Tree = owners[0]
        return bool(owner["kind"] == "Pod" and owner["apiVersion"] == "v1")

    def _retain(self, job: ManagedJob, workload: Tree, evicted: Tree) -> Reconcile:
        """Delete a job that Kueue deactivated, once it was kept long enough."""
        if self.retention is None or status.is_active(workload):
            return Done()
        if not status.is_evicted_by_kueue_deactivation(workload):
            return Done()
        left = status.time_of(evicted) + self.retention - self.clock()
        if left > 0:
            return Done(left)
        yield Delete(job.kind.kind, job.tree, "Background")
        text = "Deleted job: deactivation retention period expired"
        yield Emit(job.kind.kind, job.tree, "Normal", "Deleted", text)
        yield from job.finalize()
        return Done()

    def _suspended(self, job: ManagedJob, workload: Tree) -> Steps:
        """Start an admitted job; otherwise pass on what admission checks say, and a changed queue."""
        if status.is_admitted(workload):
            yield from self._start(job, workload)
            return
        if status.has_quota_reservation(workload):
            parts = [
                f"{check['name']}: {check['message']}"
                for check in status.status_of(workload).get("admissionChecks") or ()
                if check.get("state") == "Pending" and check.get("message")
            ]
            if parts:
                text = status.event_text("; ".join(parts))
                for each in job.each_object():
                    yield Emit(job.kind.kind, each, "Normal", "UpdatedAdmissionCheck", text)
        queue = queue_name(job.tree)
        if job.queue_is_followed() and (workload["spec"].get("queueName") or "") != queue:
            spec = {**workload["spec"], "queueName": queue}
            yield Update(WORKLOAD, {**workload, "spec": spec})

    def _start(self, job: ManagedJob, workload: Tree) -> Steps:
        queue = status.status_of(workload)["admission"].get("clusterQueue", "")
        try:
            infos = infos_from_status(workload, self.around.reader, self.gates)
            yield from job.run(infos, f"Admitted by clusterQueue {queue}")
        except PermanentError as error:
            yield from finish_workload(workload, "FailedToStart", str(error), self.clock())

    def _stop(self, job: ManagedJob, workload: Tree | None, reason: str, message: str) -> Steps:
        infos: list[Info] = []
        if workload is not None:
            infos = [from_pod_set(each) for each in workload["spec"].get("podSets") or ()]
            evicted = status.find(workload, status.EVICTED) or EMPTY_MAP
            if reason == "WorkloadEvicted" and evicted.get("status") == "True":
                reason = f"{reason}DueTo{evicted.get('reason', '')}"
        stopped = yield from job.stop(infos, reason, message)
        for each in stopped:
            text = status.event_text(message)
            yield Emit(job.kind.kind, each, "Normal", "Stopped", text)
