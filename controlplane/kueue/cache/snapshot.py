"""A copy of the cache that a scheduling cycle may change: what if this ran, what if that were gone.

Follows `pkg/cache/scheduler/snapshot.go` and `clusterqueue_snapshot.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.kueue.cache.cluster_queue import ClusterQueueState
from controlplane.kueue.cache.hierarchy import Hierarchy
from controlplane.kueue.cache.quota import CohortNode, QueueNode, ResourceGroup
from controlplane.kueue.workload.info import Info, Usage

FITS: Final = ""
NO_QUOTA: Final = "NoQuota"
NO_TOPOLOGY: Final = "NoTAS"


class ClusterQueueSnapshot(QueueNode):
    """A cluster queue as a cycle sees it."""

    def __init__(self, queue: ClusterQueueState) -> None:
        super().__init__(queue.name)
        self.quotas = queue.quotas
        self.subtree = queue.subtree
        self.usage = dict(queue.usage)
        self.fair_weight = queue.fair_weight
        self.generation = queue.generation
        self.groups: tuple[ResourceGroup, ...] = queue.groups
        self.workloads = dict(queue.workloads)
        self.selector = queue.selector
        self.preemption = queue.preemption
        self.fungibility = queue.fungibility
        self.check_flavors = queue.check_flavors
        self.admission_mode = queue.admission_mode
        self.concurrent_admission = queue.concurrent_admission
        self.topology_only = queue.topology_only()
        self.provisioning_flavors = queue.flavors_with_provisioning()
        self.has_multikueue = bool(queue.checks.multikueue)
        self.topologies: dict[str, Any] = {}
        """A topology snapshot by flavor."""

    def group_of(self, resource: str) -> ResourceGroup | None:
        """The resource group that covers a resource."""
        return next((group for group in self.groups if resource in group.resources), None)

    def add(self, usage: Usage) -> None:
        """Count usage in the tree and in the topologies."""
        for pair, amount in usage.assigned.items():
            self.add_usage(pair, amount)
        for flavor, requests in usage.tas.items():
            if flavor in self.topologies:
                self.topologies[flavor].add_usage(requests)

    def remove(self, usage: Usage) -> None:
        """Undo `add`."""
        for pair, amount in usage.assigned.items():
            self.remove_usage(pair, amount)
        for flavor, requests in usage.tas.items():
            if flavor in self.topologies:
                self.topologies[flavor].remove_usage(requests)

    def fits(self, usage: Usage) -> str:
        """Return why usage does not fit (NoQuota, NoTAS), or an empty text."""
        if any(self.available(pair) < amount for pair, amount in usage.assigned.items()):
            return NO_QUOTA
        for flavor, requests in usage.tas.items():
            if not self.topologies[flavor].fits(requests):
                return NO_TOPOLOGY
        return FITS


class Snapshot(Hierarchy[ClusterQueueSnapshot]):
    """All usable cluster queues and their cohorts."""

    def __init__(self) -> None:
        super().__init__()
        self.flavors: Mapping[str, Tree] = {}
        self.inactive: dict[str, str] = {}
        """Cluster queues that are left out, and why."""

    def remove_workload(self, info: Info) -> None:
        """Take a workload out with its usage."""
        queue = self.queues[info.cluster_queue]
        queue.workloads.pop(info.key, None)
        queue.remove(info.usage)

    def add_workload(self, info: Info) -> None:
        """Put a workload in with its usage."""
        queue = self.queues[info.cluster_queue]
        queue.workloads[info.key] = info
        queue.add(info.usage)

    def remove_workloads(self, infos: Iterable[Info]) -> Callable[[], None]:
        """Take workloads out; the result puts them back."""
        removed = list(infos)
        for info in removed:
            self.remove_workload(info)

        def put_back() -> None:
            for info in removed:
                self.add_workload(info)

        return put_back

    def remove_usage_of(self, infos: Iterable[Info]) -> Callable[[], None]:
        """Take only the usage of workloads out; the result puts it back."""
        removed = [(self.queues[info.cluster_queue], info.usage) for info in infos]
        for queue, usage in removed:
            queue.remove(usage)

        def put_back() -> None:
            for queue, usage in removed:
                queue.add(usage)

        return put_back


def make_snapshot(
    live: Hierarchy[ClusterQueueState],
    flavors: Mapping[str, Tree],
    topologies: Mapping[str, Any],
    local_queue_usage: Callable[[ClusterQueueState, Info], float | None] | None,
) -> Snapshot:
    """Copy the cache. Queues that are inactive, in a cohort cycle or not counted yet stay out.

    Args:
        live: The cache's nodes.
        flavors: All flavors by name.
        topologies: A topology snapshot by flavor, shared by the queues that use the flavor.
        local_queue_usage: Past usage of a workload's local queue, with admission fair sharing.
    """
    snapshot = Snapshot()
    for cohort in live.cohorts.values():
        if not cohort.has_cycle():
            _copy_cohort(snapshot, cohort)
    for queue in live.queues.values():
        if reason := queue.usable():
            snapshot.inactive[queue.name] = reason
            continue
        copied = ClusterQueueSnapshot(queue)
        snapshot.queues[queue.name] = copied
        if queue.parent is not None:
            snapshot.set_queue_parent(copied, queue.parent.name)
        if topologies:
            used = [name for group in queue.groups for name in group.flavors]
            copied.topologies = {name: topologies[name] for name in used if name in topologies}
        if local_queue_usage is not None:
            copied.workloads = {
                key: _with_usage(info, local_queue_usage(queue, info))
                for key, info in copied.workloads.items()
            }
    snapshot.flavors = dict(flavors)
    return snapshot


def _copy_cohort(snapshot: Snapshot, cohort: CohortNode) -> None:
    copied = snapshot.add_cohort(cohort.name)
    copied.quotas, copied.subtree = cohort.quotas, cohort.subtree
    copied.usage = dict(cohort.usage)
    copied.fair_weight = cohort.fair_weight
    if cohort.parent is not None:
        snapshot.set_cohort_parent(copied, cohort.parent.name)


def _with_usage(info: Info, usage: float | None) -> Info:
    return info if usage is None else replace(info, local_queue_usage=usage)
