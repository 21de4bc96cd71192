"""The reconcilers of ClusterQueues, LocalQueues and Cohorts: finalizers, readiness, and the numbers in a status.

Upstream compares a new status with a pointer to the old one, which never agrees: each reconcile sends its
status, and the server sees that nothing changed. Follows `pkg/controller/core/clusterqueue_controller.go`,
`localqueue_controller.go` and `cohort_controller.go`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Protocol

from attrs import field, frozen

from controlplane.api.equality import by_value
from controlplane.api.quantity import MAX_INT64
from controlplane.api.times import format_time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kueue.cache.cache import CacheError, QueueUsage
from controlplane.kueue.controllers.effects import (
    Done,
    Effect,
    Reader,
    Reconcile,
    ReconcileError,
    Update,
    ignoring_not_found,
)
from controlplane.kueue.controllers.observer import SILENT, Observer
from controlplane.kueue.controllers.workload import stop_policy
from controlplane.kueue.names import IN_USE
from controlplane.kueue.workload.status import key_of

__all__ = ["ClusterQueueController", "CohortController", "LocalQueueController", "SharingTick"]

CLUSTER_QUEUE: Final = "ClusterQueue"
LOCAL_QUEUE: Final = "LocalQueue"
COHORT: Final = "Cohort"


class QueueCounts(Protocol):
    """The queue manager, as these reconcilers call it."""

    def pending(self, name: str) -> int | None:
        """Number of pending workloads of a cluster queue, None if it is unknown."""
        ...

    def pending_workloads(self, key: str) -> int | None:
        """Number of pending workloads of a local queue (`namespace/name`), None if it is unknown."""
        ...

    def add_cluster_queue(self, queue: Tree) -> None:
        """Take a new ClusterQueue."""
        ...

    def update_cluster_queue(self, queue: Tree, spec_changed: bool) -> None:
        """Take a changed ClusterQueue."""
        ...

    def delete_cluster_queue(self, queue: Tree) -> None:
        """Forget a ClusterQueue."""
        ...

    def add_local_queue(self, queue: Tree) -> None:
        """Take a new LocalQueue with its workloads."""
        ...

    def update_local_queue(self, queue: Tree) -> None:
        """Take a changed LocalQueue."""
        ...

    def delete_local_queue(self, queue: Tree) -> None:
        """Forget a LocalQueue and its workloads."""
        ...

    def add_or_update_cohort(self, cohort: Tree) -> None:
        """Take a Cohort, and ask for a flush of its tree."""
        ...

    def delete_cohort(self, name: str) -> None:
        """Forget a Cohort."""
        ...


class QueueCache(Protocol):
    """The scheduler cache, as these reconcilers call it; see `kueue.cache.cache.Cache`."""

    @property
    def fair_sharing(self) -> bool:
        """Return whether shares are computed."""
        ...

    def add_cluster_queue(
        self, queue: Tree, local_queues: Any = (), workloads: Any = ()
    ) -> None: ...
    def update_cluster_queue(self, queue: Tree) -> None: ...
    def delete_cluster_queue(self, name: str) -> None: ...
    def terminate_cluster_queue(self, name: str) -> None: ...
    def cluster_queue_terminating(self, name: str) -> bool: ...
    def cluster_queue_empty(self, name: str) -> bool: ...
    def readiness(self, name: str) -> tuple[str, str, str]: ...
    def usage(self, name: str) -> QueueUsage: ...
    def local_queue_usage(self, local_queue: Tree) -> QueueUsage: ...
    def add_local_queue(self, queue: Tree) -> None: ...
    def update_local_queue(self, old: Tree, new: Tree) -> None: ...
    def delete_local_queue(self, queue: Tree) -> None: ...
    def add_or_update_cohort(self, cohort: Tree) -> None: ...
    def delete_cohort(self, name: str) -> None: ...
    def cohort_share(self, name: str) -> float | None: ...


@frozen
class SharingTick:
    """Usage that a local queue consumed: `status` is None until a sampling interval has passed.

    `written` is called when the status has been stored.
    """

    status: Tree | None
    requeue_after: int
    written: Callable[[], None] = lambda: None


def whole_share(share: float) -> int:
    """A weighted share in a status: rounded up, the greatest number for infinity."""
    return MAX_INT64 if math.isinf(share) else math.ceil(share)


def with_condition(queue: Tree, state: str, reason: str, message: str, now: int) -> list[Tree]:
    """The conditions of a queue with Active set; the time changes only with the status."""
    new: Tree = {
        "type": "Active",
        "status": state,
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now),
    }
    if generation := queue["metadata"].get("generation"):
        new["observedGeneration"] = generation
    conditions = list((queue.get("status") or EMPTY_MAP).get("conditions") or ())
    for index, old in enumerate(conditions):
        if old["type"] == "Active":
            if old["status"] == state and old.get("lastTransitionTime"):
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[index] = new
            return conditions
    return [*conditions, new]


def with_usage(status: Tree, usage: QueueUsage, pending: int) -> Tree:
    """A status with the numbers of a queue."""
    counted = {
        **status,
        "pendingWorkloads": pending,
        "reservingWorkloads": usage.reserving,
        "admittedWorkloads": usage.admitted,
        "flavorsReservation": usage.reserved,
        "flavorsUsage": usage.used,
    }
    for name in ("flavorsReservation", "flavorsUsage"):
        if not counted[name]:
            del counted[name]
    return counted


def with_share(status: Tree, share: float, fair_sharing: bool) -> Tree:
    """A status with the weighted share, without one when fair sharing is off."""
    kept = {name: value for name, value in status.items() if name != "fairSharing"}
    if not fair_sharing:
        return kept
    old = status.get("fairSharing") or EMPTY_MAP
    return {**kept, "fairSharing": {**old, "weightedShare": whole_share(share)}}


def without_finalizer(tree: Tree) -> Tree:
    """An object without Kueue's finalizer."""
    metadata = tree["metadata"]
    kept = [each for each in metadata.get("finalizers") or () if each != IN_USE]
    return {**tree, "metadata": {**metadata, "finalizers": kept}}


def with_finalizer(tree: Tree) -> Tree:
    """An object with Kueue's finalizer added."""
    metadata = tree["metadata"]
    return {
        **tree,
        "metadata": {**metadata, "finalizers": [*(metadata.get("finalizers") or ()), IN_USE]},
    }


def has_finalizer(tree: Tree) -> bool:
    """Return whether an object has Kueue's finalizer."""
    return IN_USE in (tree["metadata"].get("finalizers") or ())


def _spec(tree: Tree) -> Tree:
    return tree.get("spec") or EMPTY_MAP


@frozen
class ClusterQueueController:
    """Reconciles ClusterQueues and handles their events."""

    reader: Reader
    queues: QueueCounts
    cache: QueueCache
    clock: Callable[[], int]
    observer: Observer = SILENT

    def reconcile(self, name: str) -> Reconcile:
        """Reconcile one ClusterQueue."""
        queue = self.reader.get(CLUSTER_QUEUE, "", name)
        if queue is None:
            return Done()
        return (yield from ignoring_not_found(self._reconcile(name, queue)))

    def _reconcile(self, name: str, queue: Tree) -> Reconcile:
        if not queue["metadata"].get("deletionTimestamp"):
            if not has_finalizer(queue):
                queue = yield Update(CLUSTER_QUEUE, with_finalizer(queue))
        else:
            if not self.cache.cluster_queue_terminating(name):
                self.cache.terminate_cluster_queue(name)
            if has_finalizer(queue) and self.cache.cluster_queue_empty(name):
                yield Update(CLUSTER_QUEUE, without_finalizer(queue))
                return Done()
        readiness = self.cache.readiness(name)
        pending = self.queues.pending(name)
        if pending is None:
            raise ReconcileError("clusterQueue doesn't exist")
        try:
            usage = self.cache.usage(name)
        except CacheError as error:
            raise ReconcileError(str(error)) from None
        status = with_usage(queue.get("status") or EMPTY_MAP, usage, pending)
        status["conditions"] = with_condition(queue, *readiness, self.clock())
        status = with_share(status, usage.weighted_share, self.cache.fair_sharing)
        yield Update(CLUSTER_QUEUE, {**queue, "status": status}, "status")
        return Done()

    def created(self, queue: Tree) -> None:
        """A ClusterQueue is new: cache and queue manager take it with what already points to it."""
        name = queue["metadata"]["name"]
        locals_ = [
            each
            for each in self.reader.list(LOCAL_QUEUE)
            if _spec(each).get("clusterQueue") == name
        ]
        workloads = [
            each
            for each in self.reader.list("Workload")
            if (((each.get("status") or EMPTY_MAP).get("admission")) or EMPTY_MAP).get(
                "clusterQueue"
            )
            == name
        ]
        _logged(lambda: self.cache.add_cluster_queue(queue, locals_, workloads))
        self.queues.add_cluster_queue(queue)

    def updated(self, old: Tree, new: Tree) -> None:
        """A ClusterQueue changed; one that is being deleted is left to its reconcile."""
        if new["metadata"].get("deletionTimestamp"):
            return
        changed = by_value(_spec(old)) != by_value(_spec(new))
        _logged(lambda: self.cache.update_cluster_queue(new))
        self.queues.update_cluster_queue(new, changed)

    def deleted(self, queue: Tree) -> None:
        """A ClusterQueue is gone."""
        self.cache.delete_cluster_queue(queue["metadata"]["name"])
        self.queues.delete_cluster_queue(queue)
        self.observer.cluster_queue_gone(queue["metadata"]["name"])


@frozen
class LocalQueueController:
    """Reconciles LocalQueues and handles their events.

    Args:
        reader: Informer caches.
        queues: Queue manager.
        cache: Scheduler cache.
        clock: Current time in nanoseconds.
        sharing: Samples consumed usage for admission fair sharing; None when it is off.
        observer: Metrics.
    """

    reader: Reader
    queues: QueueCounts
    cache: QueueCache
    clock: Callable[[], int]
    sharing: Callable[[Tree, int], SharingTick] | None = field(default=None)
    observer: Observer = SILENT

    def reconcile(self, namespace: str, name: str) -> Reconcile:
        """Reconcile one LocalQueue."""
        queue = self.reader.get(LOCAL_QUEUE, namespace, name)
        if queue is None:
            return Done()
        return (yield from ignoring_not_found(self._reconcile(queue)))

    def _reconcile(self, queue: Tree) -> Reconcile:
        if stop_policy(queue) != "None":
            yield from self._write(queue, "False", "Stopped", "LocalQueue is stopped")
            return Done()
        text = "Can't submit new workloads to clusterQueue"
        cluster_queue = self.reader.get(CLUSTER_QUEUE, "", _spec(queue).get("clusterQueue", ""))
        if cluster_queue is None:
            reason = "ClusterQueueDoesNotExist"
            yield from self._write(queue, "False", reason, text, QueueUsage())
            return Done()
        if not _active(cluster_queue):
            yield from self._write(queue, "False", "ClusterQueueIsInactive", text)
            return Done()
        text = "Can submit new workloads to localQueue"
        queue = yield from self._write(queue, "True", "Ready", text)
        if self.sharing is None:
            return Done()
        tick = self.sharing(queue, self.clock())
        if tick.status is not None:
            old = queue.get("status") or EMPTY_MAP
            sharing = {
                "weightedShare": 0,
                **(old.get("fairSharing") or EMPTY_MAP),
                "admissionFairSharingStatus": tick.status,
            }
            yield Update(
                LOCAL_QUEUE, {**queue, "status": {**old, "fairSharing": sharing}}, "status"
            )
            tick.written()
        return Done(tick.requeue_after)

    def _write(
        self, queue: Tree, state: str, reason: str, message: str, usage: QueueUsage | None = None
    ) -> Generator[Effect, Any, Tree]:
        pending = 0
        if stop_policy(queue) == "None":
            counted = self.queues.pending_workloads(key_of(queue))
            if counted is None:
                raise ReconcileError("localQueue doesn't exist or inactive")
            pending = counted
        if usage is None:
            try:
                usage = self.cache.local_queue_usage(queue)
            except CacheError as error:
                raise ReconcileError(str(error)) from None
        status = with_usage(queue.get("status") or EMPTY_MAP, usage, pending)
        status["conditions"] = with_condition(queue, state, reason, message, self.clock())
        stored: Tree = yield Update(LOCAL_QUEUE, {**queue, "status": status}, "status")
        return stored

    def created(self, queue: Tree) -> None:
        """A LocalQueue is new; a stopped one takes no part in queueing."""
        if stop_policy(queue) == "None":
            self.queues.add_local_queue(queue)
        _logged(lambda: self.cache.add_local_queue(queue))

    def updated(self, old: Tree, new: Tree) -> None:
        """A LocalQueue changed, was stopped, or was started again."""
        before, after = stop_policy(old), stop_policy(new)
        moved = _spec(old).get("clusterQueue") != _spec(new).get("clusterQueue")
        if before == after:
            if after == "None":
                self.queues.update_local_queue(new)
            _logged(lambda: self.cache.update_local_queue(old, new))
        elif after == "None":
            if moved:
                _logged(lambda: self.cache.update_local_queue(old, new))
            self.queues.add_local_queue(new)
        else:
            self.queues.delete_local_queue(old)
            self._unobserved(old)

    def deleted(self, queue: Tree) -> None:
        """A LocalQueue is gone."""
        self.queues.delete_local_queue(queue)
        self.cache.delete_local_queue(queue)
        self._unobserved(queue)

    def _unobserved(self, queue: Tree) -> None:
        self.observer.local_queue_gone(queue["metadata"]["namespace"], queue["metadata"]["name"])


@frozen
class CohortController:
    """Reconciles Cohorts; a Cohort has no event handlers of its own."""

    reader: Reader
    queues: QueueCounts
    cache: QueueCache

    def reconcile(self, name: str) -> Reconcile:
        """Reconcile one Cohort; caches are changed here, for deleted ones too."""
        cohort = self.reader.get(COHORT, "", name)
        if cohort is None:
            self.cache.delete_cohort(name)
            self.queues.delete_cohort(name)
            return Done()
        try:
            self.cache.add_or_update_cohort(cohort)
        except CacheError as error:
            raise ReconcileError(str(error)) from None
        self.queues.add_or_update_cohort(cohort)
        share = self.cache.cohort_share(name)
        if share is None:
            raise ReconcileError("cohort not found")
        status = with_share(cohort.get("status") or EMPTY_MAP, share, self.cache.fair_sharing)
        yield from ignoring_not_found(_status_update(COHORT, {**cohort, "status": status}))
        return Done()

    @staticmethod
    def needs_reconcile(old: Tree, new: Tree) -> bool:
        """Return whether an update must be reconciled: its specification changed."""
        return by_value(_spec(old)) != by_value(_spec(new))


def _status_update(kind: str, tree: Tree) -> Reconcile:
    yield Update(kind, tree, "status")
    return Done()


def _active(cluster_queue: Mapping[str, Any]) -> bool:
    conditions = (cluster_queue.get("status") or EMPTY_MAP).get("conditions") or ()
    return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)


def _logged(action: Callable[[], None]) -> None:
    """Run what upstream only logs the failure of."""
    try:
        action()
    except CacheError:
        return
