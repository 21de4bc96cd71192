"""The reconciler of Workloads: deactivation, requeues, admission checks, Admitted, evictions.

Follows `pkg/controller/core/workload_controller.go`; each method is one of its stages and returns Done when
it ends the reconcile.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from attrs import field, frozen

from controlplane.api.times import SECOND
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kueue.controllers.effects import (
    ApplyStatus,
    Delete,
    Done,
    Effect,
    Emit,
    MergePatch,
    Queues,
    Reader,
    Reconcile,
    ReconcileError,
    Update,
    WorkloadCache,
    ignoring_not_found,
)
from controlplane.kueue.controllers.observer import SILENT, Observer
from controlplane.kueue.controllers.orphans import finalize_orphan, remove_finalizer
from controlplane.kueue.controllers.pending import PendingReason
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import ADMISSION_GATED_BY, ADMISSION_MANAGER, JOB_UID
from controlplane.kueue.workload import status
from controlplane.kueue.workload.adjust import adjusted
from controlplane.kueue.workload.status_checks import (
    checks_for,
    checks_in,
    needs_requeue_at,
    requeue_at,
    set_requeue_state,
    sync_checks,
    update_requeue_state,
)
from controlplane.kueue.workload.status_evict import prepare_eviction
from controlplane.kueue.workload.status_patch import admission_patch

__all__ = ["WaitForPodsReady", "WorkloadController", "is_orphaned"]

Change = Callable[[Tree], bool]
Stage = Generator[Effect, Any, Done | None]
Patched = Generator[Effect, Any, tuple[Tree, bool]]

WORKLOAD: Final = "Workload"


@frozen
class WaitForPodsReady:
    """Timeouts for pods of admitted workloads, and the backoff after them.

    Args:
        timeout: Nanoseconds from admission to PodsReady.
        recovery_timeout: Nanoseconds for a pod that failed after the start; None waits forever.
        backoff_limit: Evictions after which the Workload is deactivated; None for no limit.
        backoff_base_seconds: First wait before a Workload is queued again.
        backoff_max_seconds: Longest such wait.
        block_admission: Admit nothing while an admitted Workload is not ready.
    """

    timeout: int
    recovery_timeout: int | None = None
    backoff_limit: int | None = None
    backoff_base_seconds: int = 60
    backoff_max_seconds: int = 3600
    block_admission: bool = False


def is_orphaned(workload: Tree, gates: Gates) -> bool:
    """Return whether the Workload has lost its job: no owner, and being deleted or once owned."""
    metadata = workload["metadata"]
    if metadata.get("ownerReferences"):
        return False
    if metadata.get("deletionTimestamp"):
        return True
    once_owned = bool((metadata.get("labels") or EMPTY_MAP).get(JOB_UID))
    return once_owned and gates.enabled("FinishOrphanedWorkloads")


def has_resource_claims(workload: Tree, field_name: str) -> bool:
    """Return whether a pod of the Workload names a claim by `field_name`."""
    return any(
        claim.get(field_name) is not None
        for pod_set in workload["spec"].get("podSets") or ()
        for claim in (pod_set["template"].get("spec") or EMPTY_MAP).get("resourceClaims") or ()
    )


def has_devices(workload: Tree) -> bool:
    """Return whether a pod of the Workload uses dynamic resource allocation."""
    return has_resource_claims(workload, "resourceClaimName") or has_resource_claims(
        workload, "resourceClaimTemplateName"
    )


@frozen
class WorkloadController:
    """Reconciles Workloads and handles their events.

    Args:
        reader: Informer caches.
        queues: Queue manager.
        cache: Scheduler cache.
        clock: Current time in nanoseconds.
        gates: Feature gates.
        pods_ready: Timeouts for pods, None when not used.
        retention: Nanoseconds that a finished Workload is kept, None for ever.
        observer: Metrics.
    """

    reader: Reader
    queues: Queues
    cache: WorkloadCache
    clock: Callable[[], int]
    gates: Gates = field(factory=Gates)
    pods_ready: WaitForPodsReady | None = None
    retention: int | None = None
    observer: Observer = SILENT

    # -- helpers -----------------------------------------------------------------------------------

    def adjust(self, workload: Tree) -> Tree:
        """The Workload with overhead, limit ranges and limits filled into its requests."""
        namespace = workload["metadata"].get("namespace", "")
        classes: Mapping[str, Tree] = {
            each["metadata"]["name"]: each for each in self.reader.list("RuntimeClass")
        }
        return adjusted(workload, self.reader.list("LimitRange", namespace), classes)

    def _patch(self, workload: Tree, change: Change, *, strict: bool = True) -> Patched:
        """Change the part of the status that Kueue's admission owns; nothing is sent without a change."""
        copy = status.working_copy(workload)
        if not change(copy):
            return workload, False
        body = admission_patch(copy, strict=strict)
        return (yield ApplyStatus(WORKLOAD, body, ADMISSION_MANAGER)), True

    def _evict(
        self,
        workload: Tree,
        reason: str,
        message: str,
        *,
        cause: str = "",
        prepare: Change | None = None,
    ) -> Generator[Effect, Any, Tree]:
        copy = status.working_copy(workload)
        if prepare is not None:
            prepare(copy)
        eviction = prepare_eviction(copy, reason, message, self.clock(), cause=cause)
        stored: Tree = yield ApplyStatus(WORKLOAD, admission_patch(copy), ADMISSION_MANAGER)
        if eviction is not None:
            self.observer.evicted(stored, eviction)
            yield Emit(WORKLOAD, stored, *eviction.event)
        return stored

    def _reason(self, granular: str, otherwise: str) -> str:
        return granular if self.gates.enabled("UnadmittedWorkloadsObservability") else otherwise

    def _unset(self, reason: str, message: str) -> Change:
        return lambda copy: status.unset_quota_reservation(
            copy, reason, message, self.clock(), self.gates
        )

    def _requeued(self, reason: str, message: str) -> Change:
        return lambda copy: status.set_requeued(copy, reason, message, self.clock(), status=True)

    # -- reconcile ---------------------------------------------------------------------------------

    def reconcile(self, namespace: str, name: str) -> Reconcile:
        """Reconcile one Workload."""
        workload = self.reader.get(WORKLOAD, namespace, name)
        if workload is None:
            self.observer.gone(f"{namespace}/{name}")
            return Done()
        return (yield from ignoring_not_found(self._reconcile(workload)))

    def _reconcile(self, workload: Tree) -> Reconcile:
        if is_orphaned(workload, self.gates):
            workload = yield from finalize_orphan(
                workload, self.clock(), self.gates, can_finish=True
            )
            finishing = self.gates.enabled("FinishOrphanedWorkloads")
            if not finishing or workload["metadata"].get("deletionTimestamp"):
                return Done()
        if status.is_finished(workload):
            return (yield from self._retain(workload))
        if (at := needs_requeue_at(workload, self.clock())) is not None:
            until = at
            yield from self._patch(
                workload, lambda copy: set_requeue_state(copy, until, count=False) or True
            )
            return Done()
        if (done := (yield from self._devices(workload))) is not None:
            return done
        stage = self._active if status.is_active(workload) else self._inactive
        if (done := (yield from stage(workload))) is not None:
            return done
        return (yield from self._in_queue(workload))

    def _retain(self, workload: Tree) -> Reconcile:
        if self.retention is None:
            return Done()
        finished = status.find(workload, status.FINISHED) or EMPTY_MAP
        left = status.time_of(finished) + self.retention - self.clock()
        if left > 0:
            return Done(left)
        workload = yield from remove_finalizer(workload)
        if workload["metadata"].get("deletionTimestamp"):
            return Done()
        yield Delete(WORKLOAD, workload)
        text = "Deleted finished workload due to elapsed retention"
        yield Emit(WORKLOAD, workload, "Normal", "Deleted", text)
        return Done()

    def _devices(self, workload: Tree) -> Stage:
        """Refuse what dynamic resource allocation cannot account for."""
        if status.state_of(workload) != status.PENDING_STATE or not has_devices(workload):
            return None
        if status.is_on_hold(workload):
            return None
        reason = self._reason("Misconfigured", "Inadmissible")
        if not self.gates.enabled("KueueDRAIntegration"):
            if not self.gates.enabled("KueueDRARejectWorkloadsWhenDRADisabled"):
                return None
            text = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
            requeued = text
        elif has_resource_claims(workload, "resourceClaimName"):
            text = "KueueDRAIntegration feature does not support use of resource claims"
            requeued = "DRA resource claims not supported"
        else:
            return None

        def change(copy: Tree) -> bool:
            changed = status.unset_quota_reservation(copy, reason, text, self.clock(), self.gates)
            refused = status.set_requeued(
                copy, "Inadmissible", requeued, self.clock(), status=False
            )
            return changed or refused

        yield from self._patch(workload, change)
        return Done()

    def _active(self, workload: Tree) -> Stage:
        if status.is_true(workload, status.DEACTIVATION_TARGET):
            yield Update(WORKLOAD, {**workload, "spec": {**workload["spec"], "active": False}})
            return Done()
        at = requeue_at(workload)
        if at is not None:
            if (left := at - self.clock()) > 0:
                return Done(left)
            if status.state_of(workload) == status.PENDING_STATE:
                return (yield from self._backoff_over(workload))
        requeued = status.find(workload, status.REQUEUED)
        if requeued is None or requeued["status"] != "False":
            return None
        if requeued.get("reason") == "Deactivated":
            change = self._requeued("Reactivated", "The workload was reactivated")
        elif requeued.get("reason") in {"PodsReadyTimeout", "AdmissionCheck"}:
            change = self._backoff_finished
        else:
            return None
        yield from self._patch(workload, lambda copy: change(copy) or True)
        return Done()

    def _backoff_finished(self, copy: Tree) -> bool:
        if copy["status"].get("requeueState") is not None:
            copy["status"]["requeueState"].pop("requeueAt", None)
        return self._requeued("BackoffFinished", "The workload backoff was finished")(copy)

    def _backoff_over(self, workload: Tree) -> Reconcile:
        """The wait is over: the Workload goes back to its queue."""

        def change(copy: Tree) -> bool:
            copy["status"]["requeueState"].pop("requeueAt", None)
            return True

        workload, _ = yield from self._patch(workload, change)
        if status.is_admissible(workload, self.gates):
            if error := self.queues.add_or_update(workload):
                raise ReconcileError(error)
        return Done()

    def _inactive(self, workload: Tree) -> Stage:
        """Evict a deactivated Workload; a requeue state is dropped."""
        target = status.find(workload, status.DEACTIVATION_TARGET)

        def prepare(copy: Tree) -> bool:
            if target is not None:
                status.remove_condition(copy, status.DEACTIVATION_TARGET)
            copy["status"].pop("requeueState", None)
            return True

        if not status.is_evicted(workload):
            cause, text = "", "The workload is deactivated"
            if target is not None:
                cause = target.get("reason", "")
                text = f"{text} due to {target.get('message', '')}"
            yield from self._evict(workload, "Deactivated", text, cause=cause, prepare=prepare)
            return Done()
        if status.status_of(workload).get("requeueState") is None:
            return None
        copy = status.working_copy(workload)
        prepare(copy)
        yield MergePatch(WORKLOAD, workload, copy, "status")
        return Done()

    def _in_queue(self, workload: Tree) -> Reconcile:
        """Stages that depend on the queues of the Workload."""
        namespace = workload["metadata"].get("namespace", "")
        local = self.reader.get("LocalQueue", namespace, workload["spec"].get("queueName") or "")
        local_active = stop_policy(local) == "None"
        if local is not None and local_active and _stopped_requeue(workload, "LocalQueueStopped"):
            text = "The LocalQueue was restarted after being stopped"
            yield from self._patch(workload, self._requeued("LocalQueueRestarted", text))
            return Done()
        if (done := (yield from self._gated(workload))) is not None:
            return done
        queue_name, known = self.queues.cluster_queue_for(workload)
        queue: Tree | None = None
        if known:
            queue = self.reader.get("ClusterQueue", "", queue_name)
            if queue is None:
                return Done()
            if (done := (yield from self._cluster_queue(workload, queue))) is not None:
                return done
        if not status.is_admitted(workload):
            workload = yield from self._admitted(workload, local, queue_name, queue)
        if not status.has_quota_reservation(workload):
            self.observer.unadmitted(workload)
            return Done()
        for stage in (
            self._checks_evict(workload),
            self._local_queue_stops(workload, local),
            self._cluster_queue_stops(workload, queue_name),
        ):
            if (done := (yield from stage)) is not None:
                return done
        waits = [
            (yield from self._pods_ready_timeout(workload)),
            (yield from self._execution_timeout(workload)),
        ]
        return Done(min((each for each in waits if each), default=0))

    def _gated(self, workload: Tree) -> Stage:
        """Enter or leave the state of a Workload that the annotation `admission-gated-by` holds."""
        if not self.gates.enabled("AdmissionGatedBy"):
            return None
        gated = status.has_admission_gate(workload, self.gates)
        reserved = status.find(workload, status.QUOTA_RESERVED)
        shown = reserved is not None and reserved.get("reason") == "AdmissionGated"
        if gated == shown:
            return None
        if gated:
            holders = workload["metadata"]["annotations"][ADMISSION_GATED_BY]
            text = f"Admission is gated by: {holders}"
            workload, _ = yield from self._patch(workload, self._unset("AdmissionGated", text))
            event = ("AdmissionGated", f"Workload admission is gated by: {holders}")
        else:
            reason = self._reason("PendingEvaluation", "Pending")
            text = "AdmissionGatedBy cleared, waiting for quota reservation"
            workload, _ = yield from self._patch(workload, self._unset(reason, text))
            event = (
                "AdmissionGateCleared",
                "Admission gate cleared, workload is now admissible",
            )
        yield Emit(WORKLOAD, workload, "Normal", *event)
        return Done()

    def _cluster_queue(self, workload: Tree, queue: Tree) -> Stage:
        if _stopped_requeue(workload, "ClusterQueueStopped") and stop_policy(queue) == "None":
            text = "The ClusterQueue was restarted after being stopped"
            yield from self._patch(workload, self._requeued("ClusterQueueRestarted", text))
            return Done()
        checks, changed = sync_checks(
            status.status_of(workload).get("admissionChecks") or (),
            checks_for(workload, queue),
            self.clock(),
        )
        if not changed:
            return None
        new = {**status.status_of(workload), "admissionChecks": checks}
        if not checks:
            del new["admissionChecks"]
        yield Update(WORKLOAD, {**workload, "status": new}, "status")
        return Done()

    def _admitted(
        self, workload: Tree, local: Tree | None, queue_name: str, queue: Tree | None
    ) -> Generator[Effect, Any, Tree]:
        """Bring QuotaReserved=False and Admitted up to date."""
        pending = PendingReason(self.reader, self.queues, self.cache, self.gates)

        def change(copy: Tree) -> bool:
            changed = False
            if not status.has_quota_reservation(copy):
                found = pending.resolve(copy, local, queue_name, queue)
                if found is not None:
                    reason, text = found
                    new = status.condition(
                        copy, status.QUOTA_RESERVED, reason, text, self.clock(), status=False
                    )
                    changed = status.set_condition(copy, new)
            return status.sync_admitted(copy, self.clock(), self.gates) or changed

        workload, _ = yield from self._patch(workload, change)
        if status.is_admitted(workload):
            reserved = status.find(workload, status.QUOTA_RESERVED) or EMPTY_MAP
            waited = self.clock() - status.time_of(reserved)
            name = workload["status"]["admission"]["clusterQueue"]
            self.observer.admitted(workload, queue_name, waited, self.clock())
            yield Emit(
                WORKLOAD,
                workload,
                "Normal",
                "Admitted",
                f"Admitted by ClusterQueue {name}, wait time since reservation was {waited / SECOND:.0f}s",
            )
        return workload

    def _checks_evict(self, workload: Tree) -> Stage:
        """Deactivate for a rejected check, evict for one that must be tried again."""
        rejected, retry = checks_in(workload, "Rejected"), checks_in(workload, "Retry")
        if status.is_evicted(workload) or not (rejected or retry):
            return None
        if rejected:
            text = _checks_text(rejected, "Rejected")
            workload, _ = yield from self._patch(
                workload,
                lambda copy: status.set_deactivation_target(
                    copy, "AdmissionCheck", text, self.clock()
                ),
            )
            note = status.event_text(f"Deactivated due to {text}")
            yield Emit(WORKLOAD, workload, "Warning", "AdmissionCheckRejected", note)
            return Done()
        text = f"Evicted due to {_checks_text(retry, 'Retry')}"
        yield from self._evict(workload, "AdmissionCheck", text)
        return Done()

    def _local_queue_stops(self, workload: Tree, local: Tree | None) -> Stage:
        name = workload["spec"].get("queueName") or ""
        return (yield from self._queue_stops(workload, "LocalQueue", name, local))

    def _cluster_queue_stops(self, workload: Tree, name: str) -> Stage:
        queue = self.reader.get("ClusterQueue", "", name)
        return (yield from self._queue_stops(workload, "ClusterQueue", name, queue))

    def _queue_stops(self, workload: Tree, kind: str, name: str, queue: Tree | None) -> Stage:
        """Evict an admitted Workload of a drained queue; others give their quota back."""
        policy = stop_policy(queue)
        if status.is_admitted(workload):
            if policy != "HoldAndDrain" or status.is_evicted(workload):
                return None
            yield from self._evict(workload, f"{kind}Stopped", f"The {kind} is stopped")
            return Done()
        if queue is None or queue["metadata"].get("deletionTimestamp"):
            reason = self._reason("Misconfigured", "Inadmissible")
            text = f"{kind} {name} is terminating or missing"
        elif policy != "None":
            reason = self._reason("Suspended", "Inadmissible")
            text = f"{kind} {name} is stopped"
        else:
            return None
        yield from self._patch(workload, self._unset(reason, text))
        return Done()

    def _pods_ready_timeout(self, workload: Tree) -> Generator[Effect, Any, int]:
        """Evict a Workload whose pods are not ready in time; the time left, 0 when there is no limit."""
        ready = self.pods_ready
        if ready is None or not status.is_active(workload) or status.is_evicted(workload):
            return 0
        cause, left = self._time_left(workload, ready)
        if not cause or left > 0:
            return left
        state = status.status_of(workload).get("requeueState") or EMPTY_MAP
        if ready.backoff_limit is not None and (state.get("count") or 0) >= ready.backoff_limit:
            text = "exceeding the maximum number of re-queuing retries"
            yield from self._patch(
                workload,
                lambda copy: status.set_deactivation_target(
                    copy, "RequeuingLimitExceeded", text, self.clock()
                ),
            )
            return 0

        def prepare(copy: Tree) -> bool:
            update_requeue_state(
                copy, ready.backoff_base_seconds, ready.backoff_max_seconds, self.clock()
            )
            return True

        text = f"Exceeded the PodsReady timeout {status.key_of(workload)}"
        yield from self._evict(workload, "PodsReadyTimeout", text, cause=cause, prepare=prepare)
        return 0

    def _time_left(self, workload: Tree, ready: WaitForPodsReady) -> tuple[str, int]:
        found = status.find(workload, status.PODS_READY)
        if not status.is_admitted(workload) or (found is not None and found["status"] == "True"):
            return "", 0
        if found is None or found.get("reason") in {"WaitForStart", "PodsReady"}:
            admitted = status.find(workload, status.ADMITTED) or EMPTY_MAP
            elapsed = self.clock() - status.time_of(admitted)
            return "WaitForStart", max(ready.timeout - elapsed, 0)
        if found.get("reason") == "WaitForRecovery" and ready.recovery_timeout is not None:
            elapsed = self.clock() - status.time_of(found)
            return "WaitForRecovery", max(ready.recovery_timeout - elapsed, 0)
        return "", 0

    def _execution_timeout(self, workload: Tree) -> Generator[Effect, Any, int]:
        """Deactivate a Workload that ran too long; the time left, 0 when there is no limit."""
        limit = workload["spec"].get("maximumExecutionTimeSeconds")
        admitted = status.find(workload, status.ADMITTED)
        if limit is None or admitted is None or admitted["status"] != "True":
            return 0
        past = status.status_of(workload).get("accumulatedPastExecutionTimeSeconds") or 0
        left: int = (limit - past) * SECOND - (self.clock() - status.time_of(admitted))
        if left > 0:
            return left
        if status.is_true(workload, status.DEACTIVATION_TARGET):
            return 0

        def change(copy: Tree) -> bool:
            text = "exceeding the maximum execution time"
            changed = status.set_deactivation_target(
                copy, "MaximumExecutionTimeExceeded", text, self.clock()
            )
            past = copy["status"].pop("accumulatedPastExecutionTimeSeconds", None)
            return changed or past is not None

        workload, _ = yield from self._patch(workload, change)
        text = f"The maximum execution time ({limit}s) exceeded"
        yield Emit(WORKLOAD, workload, "Warning", "MaximumExecutionTimeExceeded", text)
        return 0


def stop_policy(queue: Tree | None) -> str:
    """The stop policy of a local or cluster queue, None when absent."""
    return ((queue or EMPTY_MAP).get("spec") or EMPTY_MAP).get("stopPolicy") or "None"


def _stopped_requeue(workload: Tree, reason: str) -> bool:
    found = status.find(workload, status.REQUEUED)
    return found is not None and found["status"] == "False" and found.get("reason") == reason


def _checks_text(checks: list[Tree], state: str) -> str:
    parts = [
        f'"{each["name"]}" ({each["message"]})' if each.get("message") else f'"{each["name"]}"'
        for each in sorted(checks, key=lambda each: str(each["name"]))
    ]
    noun = "AdmissionChecks" if len(checks) > 1 else "AdmissionCheck"
    return f"{noun} in {state} state: {'; '.join(parts)}"
