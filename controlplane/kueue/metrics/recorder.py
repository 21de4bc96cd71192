"""Counting what the scheduler and the reconcilers report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from controlplane.api.tree import Tree
from controlplane.kueue.cache.cache import Cache, CacheError
from controlplane.kueue.controllers.observer import Observer
from controlplane.kueue.gates import Gates
from controlplane.kueue.metrics import series
from controlplane.kueue.metrics.options import MetricsOptions
from controlplane.kueue.metrics.series import standalone
from controlplane.kueue.scheduler.observer import SchedulerObserver
from controlplane.kueue.workload import status
from controlplane.kueue.workload.status_evict import Eviction
from controlplane.metrics.family import Family, Series
from controlplane.metrics.histogram import Histogram

__all__ = ["ControllerMetrics", "Recorder", "SchedulerMetrics"]

T = TypeVar("T")
_RECOMPUTED: Final = {
    "NewTargets": "new_targets",
    "DeferredFit": "deferred_fit",
    "Skipped": "skipped",
}


class Recorder:
    """Counters and times of events, by series and labels.

    Args:
        cache: The scheduler's cache: cohorts and local queues of a workload.
        gates: Feature gates.
        options: What the configuration says about metrics.
        role: The role of the replica now.
    """

    def __init__(
        self,
        cache: Cache,
        gates: Gates,
        options: MetricsOptions,
        role: Callable[[], str] = standalone,
    ) -> None:
        self._cache = cache
        self._gates = gates
        self._options = options
        self._role = role
        self.times_creations = gates.enabled("MetricForWorkloadCreationLatency")
        self._counts: dict[Series, dict[tuple[str, ...], float]] = {}
        self._times: dict[Series, dict[tuple[str, ...], Histogram]] = {}

    def families(self) -> Iterator[Family]:
        """A snapshot of everything counted so far."""
        for each in series.EVENTS:
            found = self._times.get(each) if each.bounds else self._counts.get(each)
            if found:
                yield each.family(found)

    def drop(self, names: tuple[str, ...], values: tuple[str, ...]) -> None:
        """Drop the series whose labels `names` have these values."""
        for each in series.EVENTS:
            places = [at for at, label in enumerate(each.labels) if label in names]
            if len(places) == len(values):
                _without(self._counts.get(each), places, values)
                _without(self._times.get(each), places, values)

    # -- steps -------------------------------------------------------------------------------------

    def count(self, what: Series, *labels: str) -> None:
        """Count one event."""
        known = self._counts.setdefault(what, {})
        key = (*labels, self._role())
        known[key] = known.get(key, 0) + 1

    def set(self, what: Series, value: float, *labels: str) -> None:
        """Set the number of the last time."""
        self._counts.setdefault(what, {})[*labels, self._role()] = value

    def time(self, what: Series, duration: int, *labels: str) -> None:
        """Count a duration."""
        known = self._times.setdefault(what, {})
        key = (*labels, self._role())
        if key not in known:
            known[key] = what.histogram()
        known[key].observe(duration)

    def of_workload(
        self,
        workload: Tree,
        cluster_queue: str,
        *measures: tuple[tuple[Series, Series], int | None],
    ) -> None:
        """Count or time an event of a workload, for its cluster queue and its local queue."""
        priority = priority_class(workload)
        local = (workload["spec"].get("queueName", ""), workload["metadata"]["namespace"])
        shown = self.shows_local(workload)
        for (by_queue, by_local), duration in measures:
            tell: Callable[..., None] = self.count
            if duration is not None:
                for what, labels in ((by_queue, (cluster_queue,)), (by_local, local)):
                    if what is by_queue or shown:
                        self.time(what, duration, *labels, priority)
                continue
            tell(by_queue, cluster_queue, priority)
            if shown:
                tell(by_local, *local, priority)

    def shows_local(self, workload: Tree) -> bool:
        """Return whether the workload's local queue has metrics."""
        admission = status.status_of(workload).get("admission")
        if admission is None:
            return False
        key = f"{workload['metadata']['namespace']}/{workload['spec'].get('queueName', '')}"
        local = self._cache.local_queue(admission["clusterQueue"], key)
        return local is not None and self._options.shows_local(local.labels, self._gates)

    def admitted_below(self, workload: Tree) -> None:
        """Count an admission for the cohorts above it."""
        admission = status.status_of(workload).get("admission")
        queue = self._cache.tree.queues.get((admission or {}).get("clusterQueue", ""))
        if queue is None or queue.parent is None:
            return
        try:
            above = self._cache.ancestors(queue.parent.name)
        except CacheError:
            return
        for cohort in above:
            self.count(series.COHORT_ADMITTED, cohort, priority_class(workload))

    def evicted(self, workload: Tree, eviction: Eviction) -> None:
        """Count an eviction."""
        labels = (eviction.reason, eviction.cause, priority_class(workload))
        self.count(series.EVICTED, eviction.cluster_queue, *labels)
        ready = status.find(workload, status.PODS_READY)
        gone = status.find(workload, status.EVICTED)
        if ready and gone and ready["status"] == gone["status"] == "True":
            self.time(
                series.READY_TO_EVICTED,
                status.time_of(gone) - status.time_of(ready),
                eviction.cluster_queue,
                *labels[:2],
            )
        if self.shows_local(workload):
            meta = workload["metadata"]
            name = workload["spec"].get("queueName", "")
            self.count(series.LOCAL_EVICTED, name, meta["namespace"], *labels)
        if eviction.first:
            self.count(series.EVICTED_ONCE, eviction.cluster_queue, *labels)


class SchedulerMetrics(SchedulerObserver):
    """Reports of the scheduler."""

    def __init__(self, recorder: Recorder) -> None:
        self._to = recorder

    def cycle_done(self, *, success: bool, duration: int) -> None:
        """Count a cycle."""
        result = "success" if success else "inadmissible"
        self._to.count(series.ATTEMPTS, result)
        self._to.time(series.ATTEMPT_TIMES, duration, result)

    def preemptions_skipped(self, cluster_queue: str, count: int) -> None:
        """Keep the number of the last cycle."""
        self._to.set(series.SKIPS, count, cluster_queue)

    def targets_recomputed(self, cluster_queue: str, result: str) -> None:
        """Count a search for other targets."""
        self._to.count(series.RECOMPUTATIONS, cluster_queue, _RECOMPUTED.get(result, result))

    def quota_reserved(self, workload: Tree, cluster_queue: str, waited: int) -> None:
        """Count a reservation."""
        measures = ((series.RESERVED, None), (series.RESERVED_WAITS, waited))
        self._to.of_workload(workload, cluster_queue, *measures)

    def admitted(self, workload: Tree, cluster_queue: str, waited: int) -> None:
        """Count an admission without checks to wait for."""
        self._to.admitted_below(workload)
        measures = ((series.ADMITTED, None), (series.ADMITTED_WAITS, waited))
        self._to.of_workload(workload, cluster_queue, *measures)
        if status.status_of(workload).get("admissionChecks"):
            self._to.of_workload(workload, cluster_queue, (series.CHECK_WAITS, 0))

    def evicted(self, workload: Tree, eviction: Eviction) -> None:
        """Count an eviction."""
        self._to.evicted(workload, eviction)

    def preempted(self, preempting: str, reason: str, target: str) -> None:
        """Count a preemption."""
        self._to.count(series.PREEMPTED, preempting, reason)


class ControllerMetrics(Observer):
    """Reports of the reconcilers."""

    def __init__(self, recorder: Recorder) -> None:
        self._to = recorder

    def evicted(self, workload: Tree, eviction: Eviction) -> None:
        """Count an eviction."""
        self._to.evicted(workload, eviction)

    def admitted(self, workload: Tree, cluster_queue: str, waited: int, now: int) -> None:
        """Count an admission after its checks."""
        self._to.admitted_below(workload)
        self._to.of_workload(
            workload,
            cluster_queue,
            (series.ADMITTED, None),
            (series.ADMITTED_WAITS, status.queued_wait(workload, now)),
            (series.CHECK_WAITS, waited),
        )

    def cluster_queue_gone(self, name: str) -> None:
        """Drop the series of a deleted cluster queue."""
        self._to.drop(("cluster_queue", "preempting_cluster_queue"), (name,))

    def local_queue_gone(self, namespace: str, name: str) -> None:
        """Drop the series of a local queue that is deleted or stopped."""
        self._to.drop(("name", "namespace"), (name, namespace))

    def workload_created(self, job: Tree, kind: str, workload: Tree) -> None:
        """Count the time until a job's first workload."""
        if job["metadata"].get("generation", 0) == 1 and self._to.times_creations:
            waited = status.created_at(workload) - status.created_at(job)
            self._to.time(series.CREATION_TIMES, waited, kind)

    def pods_ready(self, workload: Tree, now: int) -> None:
        """Count the time until readiness."""
        queue = (status.status_of(workload).get("admission") or {}).get("clusterQueue", "")
        admitted = status.find(workload, status.ADMITTED)
        waits = [(series.READY_WAITS, status.queued_wait(workload, now))]
        if admitted is not None:
            waits.append((series.ADMITTED_READY_WAITS, now - status.time_of(admitted)))
        self._to.of_workload(workload, queue, *waits)

    def finished(self, workload: Tree) -> None:
        """Count a finished workload."""
        queue = (status.status_of(workload).get("admission") or {}).get("clusterQueue", "")
        self._to.of_workload(workload, queue, (series.FINISHED_TOTAL, None))
        ran = status.total_execution_time(workload)
        if ran is not None:
            self._to.of_workload(workload, queue, (series.EXECUTION_TIMES, max(ran, 0)))

    def pending_after_eviction(self, cluster_queue: str, reason: str, latency: int) -> None:
        """Count the time until the quota came back."""
        self._to.time(series.EVICTION_TIMES, max(latency, 0), cluster_queue, reason)


def _without(
    kept: dict[tuple[str, ...], T] | None, places: list[int], values: tuple[str, ...]
) -> None:
    for key in list(kept or ()):
        if kept is not None and tuple(key[at] for at in places) == values:
            del kept[key]


def priority_class(workload: Tree) -> str:
    """The name of a workload's priority class, "" without one."""
    return str((workload["spec"].get("priorityClassRef") or {}).get("name", ""))
