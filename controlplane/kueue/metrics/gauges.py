"""Gauges, read from the cache, the queues and the stored objects at each scrape."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from controlplane.api.tree import Tree
from controlplane.kueue.amounts import UNLIMITED
from controlplane.kueue.cache.cache import Cache
from controlplane.kueue.cache.cluster_queue import ClusterQueueState
from controlplane.kueue.cache.quota import CohortNode
from controlplane.kueue.cache.share import dominant_share
from controlplane.kueue.gates import Gates
from controlplane.kueue.metrics import series
from controlplane.kueue.metrics.options import MetricsOptions
from controlplane.kueue.metrics.series import standalone
from controlplane.kueue.queues.cluster_queue import ClusterQueue
from controlplane.kueue.queues.manager import QueueManager
from controlplane.kueue.workload import status
from controlplane.metrics.family import Family, Series

__all__ = ["Gauges"]

QUEUE_STATUSES: Final = ("pending", "active", "terminating")
CONDITION_STATUSES: Final = ("True", "False", "Unknown")


class Objects(Protocol):
    """The stored objects."""

    def list(self, kind: str, namespace: str = "") -> Sequence[Tree]:
        """All objects of a kind."""


@dataclass
class _Values:
    """Numbers by series and labels."""

    role: str

    found: dict[Series, dict[tuple[str, ...], float]] = field(default_factory=dict)

    def set(self, what: Series, value: float, *labels: str) -> None:
        self.found.setdefault(what, {})[*labels, self.role] = value


@dataclass(frozen=True)
class Gauges:
    """The gauges of one Kueue."""

    cache: Cache
    queues: QueueManager
    objects: Objects
    gates: Gates
    options: MetricsOptions
    role: Callable[[], str] = standalone

    def families(self) -> Iterator[Family]:
        """A snapshot."""
        values = _Values(self.role())
        for name, state in self.cache.tree.queues.items():
            self._cached(values, name, state)
        for name in self.queues.cluster_queues():
            queue = self.queues.cluster_queue(name)
            if queue is not None:
                self._pending(values, name, queue)
        for name, cohort in self.cache.tree.cohorts.items():
            self._cohort(values, name, cohort)
        if self.options.any_local(self.gates):
            for tree in self.objects.list("LocalQueue"):
                if self.options.shows_local(tree["metadata"].get("labels") or {}, self.gates):
                    self._local(values, tree)
        if self.gates.enabled("UnadmittedWorkloadsObservability"):
            self._unadmitted(values, self.objects.list("Workload"))
        for what, numbers in values.found.items():
            yield what.family(numbers)

    # -- cluster queues ----------------------------------------------------------------------------

    def _cached(self, values: _Values, name: str, state: ClusterQueueState) -> None:
        for each in QUEUE_STATUSES:
            values.set(series.STATUS, int(state.status == each), name, each)
        cohort = state.parent
        parent = "" if cohort is None else cohort.name
        if self.gates.enabled("MetricsForCohorts") and not _cyclic(cohort):
            root = "" if cohort is None else cohort.root().name
            values.set(series.QUEUE_INFO, 1, name, parent, root)
        if state.counted:
            values.set(series.RESERVING, len(state.workloads), name)
        if state.counted_admitted:
            values.set(series.ACTIVE, state.admitted, name)
        if not self.options.resources:
            return
        for pair, quota in state.quotas.items():
            labels = (parent, name, pair.flavor, pair.resource)
            resource = pair.resource
            values.set(series.QUEUE_NOMINAL, shown(quota.nominal, resource), *labels)
            values.set(series.QUEUE_BORROWING, _limit(quota.borrowing_limit, resource), *labels)
            values.set(series.QUEUE_LENDING, _limit(quota.lending_limit, resource), *labels)
            values.set(series.QUEUE_RESERVED, shown(state.usage.get(pair, 0), resource), *labels)
            used = state.admitted_usage.get(pair, 0)
            values.set(series.QUEUE_USED, shown(used, resource), *labels)
        if self.cache.fair_sharing:
            share = dominant_share(state).precise()
            values.set(series.QUEUE_SHARE, math.nan if share == math.inf else share, name, parent)

    def _pending(self, values: _Values, name: str, queue: ClusterQueue) -> None:
        open_, parked = queue.pending()
        usable = self.cache.cluster_queue_active(name)
        self._by_status(values, series.PENDING, (name,), open_, parked, usable)
        if queue.served:
            values.set(series.FINISHED, len(queue.finished), name)
        if self.gates.enabled("SchedulingEquivalenceHashing"):
            waiting = queue.workloads
            now = {info.hash for info in waiting.active}
            if waiting.inflight is not None:
                now.add(waiting.inflight.hash)
            later = {info.hash for info in waiting.inadmissible.values()}
            if not usable:
                now, later = set(), now | later
            values.set(series.HASHES, len(now), name, "active")
            values.set(series.HASHES, len(later), name, "inadmissible")
        state = self.cache.tree.queues.get(name)
        if self.options.resources:
            declared = () if state is None else (pair.resource for pair in state.quotas)
            wanted = queue.left | dict.fromkeys(declared, 0) | queue.workloads.requested()
            for resource, total in wanted.items():
                amount = shown(total, resource)
                values.set(series.QUEUE_PENDING, amount, name, resource)

    @staticmethod
    def _by_status(
        values: _Values,
        what: Series,
        labels: tuple[str, ...],
        active: int,
        inadmissible: int,
        usable: bool,
    ) -> None:
        if not usable:
            active, inadmissible = 0, active + inadmissible
        values.set(what, active, *labels, "active")
        values.set(what, inadmissible, *labels, "inadmissible")

    # -- cohorts -----------------------------------------------------------------------------------

    def _cohort(self, values: _Values, name: str, cohort: CohortNode) -> None:
        if _cyclic(cohort):
            return
        if self.gates.enabled("MetricsForCohorts") and _has_object(cohort.root()):
            parent = "" if cohort.parent is None else cohort.parent.name
            values.set(series.COHORT_INFO, 1, name, parent, cohort.root().name)
        below: list[ClusterQueueState] = cohort.queues_below()
        if any(queue.counted for queue in below):
            values.set(series.COHORT_ACTIVE, cohort.admitted, name)
        if cohort.explicit and self.cache.fair_sharing:
            values.set(series.COHORT_SHARE, dominant_share(cohort).precise(), name)
        for pair, quota in (cohort.subtree | cohort.left).items():
            if quota > 0:
                amount = shown(quota, pair.resource)
                values.set(series.COHORT_QUOTA, amount, name, pair.flavor, pair.resource)
        reserved: Counter[tuple[str, str]] = Counter()
        for queue in below:
            for pair, used in queue.usage.items():
                reserved[pair.flavor, pair.resource] += used
        for (flavor, resource), used in reserved.items():
            if used > 0:
                values.set(series.COHORT_RESERVED, shown(used, resource), name, flavor, resource)

    # -- local queues ------------------------------------------------------------------------------

    def _local(self, values: _Values, tree: Tree) -> None:
        meta = tree["metadata"]
        labels = (meta["name"], meta["namespace"])
        key = f"{meta['namespace']}/{meta['name']}"
        above = (tree.get("spec") or {}).get("clusterQueue", "")
        conditions = status.status_of(tree).get("conditions") or ()
        active = next((each["status"] for each in conditions if each["type"] == "Active"), None)
        if active is not None:
            for each in CONDITION_STATUSES:
                values.set(series.LOCAL_STATUS, int(active == each), *labels, each)
        queue = self.queues.cluster_queue(above)
        waiting = self.queues.local_queue(key)
        if waiting is not None:
            open_, parked = (0, 0) if queue is None else queue.pending_in(key)
            usable = self.cache.cluster_queue_active(above)
            self._by_status(values, series.LOCAL_PENDING, labels, open_, parked, usable)
            if waiting.counted:
                values.set(series.LOCAL_FINISHED, len(waiting.finished), *labels)
        local, state = self.cache.local_queue(above, key), self.cache.tree.queues.get(above)
        if local is None or state is None:
            return
        if local.counted:
            values.set(series.LOCAL_RESERVING, local.reserving, *labels)
        if local.counted_admitted:
            values.set(series.LOCAL_ACTIVE, local.admitted, *labels)
        for pair in state.quotas:
            pairs = (*labels, pair.flavor, pair.resource)
            reserved = shown(local.reserved.get(pair, 0), pair.resource)
            values.set(series.LOCAL_RESERVED, reserved, *pairs)
            values.set(series.LOCAL_USED, shown(local.used.get(pair, 0), pair.resource), *pairs)

    # -- workloads ---------------------------------------------------------------------------------

    def _unadmitted(self, values: _Values, workloads: Iterable[Tree]) -> None:
        by_queue: Counter[tuple[str, ...]] = Counter()
        by_local: Counter[tuple[str, ...]] = Counter()
        for tree in workloads:
            done = status.is_admitted(tree) or status.is_finished(tree)
            queue, _ = self.queues.cluster_queue_for(tree)
            if done or not queue or tree["metadata"].get("deletionTimestamp"):
                continue
            why = (queue, *_reason(tree))
            by_queue[why] += 1
            by_local[(tree["spec"].get("queueName", ""), tree["metadata"]["namespace"], *why)] += 1
        for labels, count in by_queue.items():
            values.set(series.UNADMITTED, count, *labels)
        if self.options.any_local(self.gates):
            for labels, count in by_local.items():
                values.set(series.LOCAL_UNADMITTED, count, *labels)


def _reason(workload: Tree) -> tuple[str, str]:
    """Why a workload is not admitted, and what lies behind it."""
    admitted = status.find(workload, status.ADMITTED)
    reserved = status.find(workload, status.QUOTA_RESERVED)
    reason = "NoReservation" if admitted is None else admitted.get("reason", "")
    if reserved is None:
        return reason, "PendingEvaluation"
    return reason, "" if reserved["status"] == "True" else reserved.get("reason", "")


def _has_object(cohort: CohortNode) -> bool:
    """Return whether a cohort of the tree is an object and not only a name."""
    return cohort.explicit or any(_has_object(each) for each in cohort.cohorts.values())


def _cyclic(cohort: CohortNode | None) -> bool:
    return cohort is not None and cohort.has_cycle()


def shown(amount: int, resource: str) -> float:
    """An amount in the unit of its resource: cpu is kept in thousandths."""
    if amount == UNLIMITED:
        return math.inf
    return amount / 1000 if resource == "cpu" else amount


def _limit(limit: int | None, resource: str) -> float:
    return math.inf if limit is None else shown(limit, resource)
