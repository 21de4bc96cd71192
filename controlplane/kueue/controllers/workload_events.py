"""Events of Workloads: how queue manager and scheduler cache follow them, before any reconcile.

Follows the predicates of `pkg/controller/core/workload_controller.go`. Each call of the queue manager or the
cache is a lock region of its own; what `release` runs happens under the queue manager's lock.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Protocol

from attrs import field, frozen

from controlplane.api.equality import by_value
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.gates import FixGates
from controlplane.kueue.cache.cache import CacheError
from controlplane.kueue.controllers.workload import WorkloadController, has_devices
from controlplane.kueue.workload import status
from controlplane.kueue.workload.priority import effective_priority
from controlplane.kueue.workload.status_checks import requeue_at

__all__ = ["NO_PENALTIES", "Expectations", "Penalties", "WorkloadEvents"]


class Expectations(Protocol):
    """Preemptions that were asked for and have not been seen yet."""

    def observed(self, key: str, uid: str) -> None:
        """Forget an expected preemption."""
        ...


class Penalties:
    """Fair sharing of admission; without it nothing happens."""

    def settle(self, workload: Tree, now: int) -> None:
        """A Workload was admitted: its penalty becomes consumed usage."""

    def drop(self, local_queue: str, key: str) -> None:
        """A Workload will not be admitted through this local queue (`namespace/name`)."""


@frozen
class _NoPenalties(Penalties):
    """Without fair sharing of admission; processes share it."""


NO_PENALTIES: Final = _NoPenalties()


@frozen
class WorkloadEvents:
    """Handles events of Workloads; the caller queues the reconcile after each."""

    controller: WorkloadController
    expectations: Expectations | None = None
    penalties: Penalties = field(default=NO_PENALTIES)
    fixes: FixGates = field(factory=FixGates)

    def created(self, workload: Tree) -> None:
        """A Workload is new (or was there when the process started)."""
        owner = self.controller
        if status.is_finished(workload):
            owner.queues.add_finished(workload)
            return
        if self._waits_for_devices(workload):
            return
        adjusted = owner.adjust(workload)
        if status.is_admissible(workload, owner.gates):
            owner.queues.add_or_update(adjusted)
            return
        owner.cache.add_or_update(adjusted)
        owner.queues.queue_second_pass(adjusted, 0)

    def deleted(self, workload: Tree) -> None:
        """A Workload is gone; it may have been assumed by the scheduler, so the cache is asked always."""
        key = status.key_of(workload)
        if self.expectations is not None:
            self.expectations.observed(key, workload["metadata"].get("uid", ""))
        if self.fixes.fixed("kq10518"):
            self.forget(key)
        self.penalties.drop(_local_queue(workload), key)

    def forget(self, key: str) -> None:
        """Take a Workload that is gone out of cache and queues.

        Gate kq10518 (issue 10495): since pull request 8655 (0.17.0) the reconcile that found no object did it. Replicas
        that do not lead dropped such keys, and kept the Workload for ever. With the fix the event does it again.
        """
        owner = self.controller
        owner.queues.release(key, lambda: _delete(owner, key))
        owner.queues.forget(key)

    def updated(self, old: Tree, new: Tree) -> None:
        """A Workload changed."""
        adjusted = self.controller.adjust(new)
        self._follow(old, new, adjusted)
        self._settle(old, new, adjusted)
        self.controller.queues.queue_second_pass(adjusted, 0)

    def _waits_for_devices(self, workload: Tree) -> bool:
        gates = self.controller.gates
        return (
            has_devices(workload)
            and not status.is_on_hold(workload)
            and (
                gates.enabled("KueueDRAIntegration")
                or gates.enabled("KueueDRARejectWorkloadsWhenDRADisabled")
            )
        )

    def _follow(self, old: Tree, new: Tree, adjusted: Tree) -> None:
        owner, key = self.controller, status.key_of(new)
        before, after = status.state_of(old), status.state_of(new)
        finished = after == status.FINISHED_STATE
        holds = self.fixes.fixed("here6") and status.has_quota_reservation(new)
        if not finished and not status.is_active(new) and holds:
            owner.queues.delete(key)
            owner.cache.add_or_update(adjusted)
        elif finished or not status.is_active(new):
            if finished and before != status.FINISHED_STATE:
                owner.observer.finished(adjusted)
            owner.queues.delete(key)
            owner.queues.add_finished(adjusted)
            owner.queues.release(key, lambda: _delete(owner, key))
        elif before == after == status.PENDING_STATE:
            if status.is_on_hold(new):
                owner.queues.delete(key)
            elif not self._waits_for_devices(new):
                owner.queues.add_or_update(adjusted)
        elif before == status.PENDING_STATE:
            owner.queues.delete(key)
            owner.cache.add_or_update(adjusted)
        elif status.lost_its_quota(before, after):
            self._back_to_pending(old, new, adjusted)
        elif self._frees_quota(old, new, before, after):
            owner.queues.release(key, lambda: _update(owner, adjusted))
        else:
            owner.cache.add_or_update(adjusted)

    def _back_to_pending(self, old: Tree, new: Tree, adjusted: Tree) -> None:
        owner, key, now = self.controller, status.key_of(new), self.controller.clock()
        evicted = status.find(new, status.EVICTED)
        admission = status.status_of(old).get("admission") or EMPTY_MAP
        if evicted is not None and evicted["status"] == "True" and admission.get("clusterQueue"):
            owner.observer.pending_after_eviction(
                admission["clusterQueue"],
                evicted.get("reason", ""),
                now - status.time_of(evicted),
            )
        at = requeue_at(new)
        immediate = at is None or at <= now

        def action() -> None:
            _delete(owner, key)
            if immediate and not status.is_on_hold(new) and not self._waits_for_devices(new):
                owner.queues.add_or_update_locked(adjusted)
                owner.queues.delete_second_pass(key)
            if not status.needs_second_pass(adjusted):
                owner.queues.delete_second_pass(key)

        owner.queues.release(key, action)

    def _frees_quota(self, old: Tree, new: Tree, before: str, after: str) -> bool:
        gates = self.controller.gates
        reclaimed = [status.status_of(each).get("reclaimablePods") or [] for each in (old, new)]
        if before == after == status.ADMITTED_STATE and by_value(reclaimed[0]) != by_value(
            reclaimed[1]
        ):
            return True
        if gates.enabled("ElasticJobsViaWorkloadSlices") and _scaled_down(old, new):
            return True
        return self._priority_changed(old, new)

    def _priority_changed(self, old: Tree, new: Tree) -> bool:
        if _class_of(old)[0] == "PriorityClass" or _class_of(new)[0] != "WorkloadPriorityClass":
            return False
        if _class_of(new)[1] and _class_of(old)[1] != _class_of(new)[1]:
            return True
        gates = self.controller.gates
        return effective_priority(old, gates) != effective_priority(new, gates)

    def _settle(self, old: Tree, new: Tree, adjusted: Tree) -> None:
        key = status.key_of(new)
        before, after = status.state_of(old), status.state_of(new)
        active = status.is_active(new)
        if active and after == status.ADMITTED_STATE and before != status.ADMITTED_STATE:
            self.penalties.settle(adjusted, self.controller.clock())
        if _local_queue(old) != _local_queue(new):
            self.penalties.drop(_local_queue(old), key)
        gone = not active and not status.has_quota_reservation(new)
        was_there = status.is_active(old) or status.has_quota_reservation(old)
        finished = after == status.FINISHED_STATE and before != status.FINISHED_STATE
        if (gone and was_there) or finished:
            self.penalties.drop(_local_queue(new), key)


def _delete(owner: WorkloadController, key: str) -> None:
    """Stop counting a Workload; upstream only logs that its cluster queue is gone."""
    with suppress(CacheError):
        owner.cache.delete_workload(key)


def _update(owner: WorkloadController, workload: Tree) -> None:
    owner.cache.add_or_update(workload)


def _local_queue(workload: Tree) -> str:
    namespace = workload["metadata"].get("namespace", "")
    return f"{namespace}/{workload['spec'].get('queueName') or ''}"


def _class_of(workload: Tree) -> tuple[str, str]:
    reference = workload["spec"].get("priorityClassRef") or EMPTY_MAP
    return reference.get("kind", ""), reference.get("name", "")


def _scaled_down(old: Tree, new: Tree) -> bool:
    """Return whether a pod set has fewer pods than before, and none has more."""
    before, after = (
        {each["name"]: each.get("count") or 0 for each in workload["spec"].get("podSets") or ()}
        for workload in (old, new)
    )
    changes = [after[name] - before[name] for name in before if name in after]
    return min(changes, default=0) < 0 and max(changes, default=0) <= 0
