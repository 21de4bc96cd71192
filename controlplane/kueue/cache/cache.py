"""The scheduler's cache of everything that decides who may run.

All methods are what upstream does under one lock. Follows `pkg/cache/scheduler/cache.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from controlplane.api.tree import Tree
from controlplane.gates import FixGates
from controlplane.kueue.amounts import FlavorResource, Quotas, quantity_text, sub
from controlplane.kueue.cache.cluster_queue import (
    ACTIVE,
    TERMINATING,
    AdmissionCheck,
    ClusterQueueState,
    LocalQueueState,
)
from controlplane.kueue.cache.hierarchy import Hierarchy
from controlplane.kueue.cache.quota import CohortNode, quotas_of, update_queue, update_tree
from controlplane.kueue.cache.share import Share, dominant_share, fair_weight
from controlplane.kueue.cache.snapshot import Snapshot, make_snapshot
from controlplane.kueue.cache.topology_port import NoTopologies, Topologies
from controlplane.kueue.gates import Gates
from controlplane.kueue.workload.info import Info
from controlplane.kueue.workload.requests import NO_OPTIONS, RequestOptions
from controlplane.kueue.workload.status import (
    active_quota_reservation,
    has_quota_reservation,
    is_finished,
    key_of,
)
from controlplane.kueue.workload.variants import is_variant

NO_CLUSTER_QUEUE = "cluster queue not found"
NO_LOCAL_QUEUE = "queue not found"
CYCLE = "cohort has a cycle"


class CacheError(ValueError):
    """An operation that the cache cannot do; the text is upstream's."""


@dataclass(frozen=True)
class QueueUsage:
    """Status numbers of a cluster queue or local queue; flavors as the status writes them."""

    reserved: list[Tree] = field(default_factory=list)
    reserving: int = 0
    used: list[Tree] = field(default_factory=list)
    admitted: int = 0
    weighted_share: float = 0.0
    share: Share | None = None


class Cache:
    """Cluster queues, cohorts, flavors, admission checks, and the workloads that hold quota.

    Args:
        gates: Kueue's feature gates.
        options: How requests are computed.
        fair_sharing: True to compute weighted shares for statuses.
        topologies: The topology cache, None for none.
        track_pods_ready: True if admission may wait for pods to be ready.
        fixes: The fixes of published races that are in force.

    Gate here6 (proposed here; not reported): since kueue pull request 8919 a workload that is not active does not
    count although it has not handed its quota back, and its pods may run still. When it is active again before it
    was evicted, it counts again, on top of what got the quota meanwhile. The repair counts it until it holds none.
    """

    def __init__(
        self,
        gates: Gates,
        options: RequestOptions = NO_OPTIONS,
        *,
        fair_sharing: bool = False,
        topologies: Topologies | None = None,
        track_pods_ready: bool = False,
        fixes: FixGates | None = None,
    ) -> None:
        self.gates = gates
        self.options = options
        self.fair_sharing = fair_sharing
        self.topologies: Topologies = NoTopologies() if topologies is None else topologies
        self.flavors: dict[str, Tree] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self.tree: Hierarchy[ClusterQueueState] = Hierarchy()
        self._track_pods_ready = track_pods_ready
        self._counts_inactive = fixes is not None and fixes.fixed("here6")
        self._holds_anywhere = fixes is not None and fixes.fixed("here8")
        self._queue_of: dict[str, str] = {}

    # -- flavors, topologies, checks: each returns the queues that have become active --------------

    def add_or_update_flavor(self, flavor: Tree) -> list[str]:
        """Take a ResourceFlavor."""
        self.flavors[flavor["metadata"]["name"]] = flavor
        if self._has_topology(flavor):
            self.topologies.add_or_update_flavor(flavor)
        return self._update_queues()

    def delete_flavor(self, flavor: Tree) -> list[str]:
        """Forget a ResourceFlavor."""
        name = flavor["metadata"]["name"]
        self.flavors.pop(name, None)
        if self._has_topology(flavor):
            self.topologies.delete_flavor(name)
        return self._update_queues()

    def add_or_update_topology(self, topology: Tree) -> list[str]:
        """Take a Topology."""
        self.topologies.add_topology(topology)
        return self._update_queues()

    def delete_topology(self, name: str) -> list[str]:
        """Forget a Topology."""
        self.topologies.delete_topology(name)
        return self._update_queues()

    def add_or_update_check(self, check: Tree) -> list[str]:
        """Take an AdmissionCheck."""
        conditions = (check.get("status") or {}).get("conditions") or ()
        self.checks[check["metadata"]["name"]] = AdmissionCheck(
            any(each["type"] == "Active" and each["status"] == "True" for each in conditions),
            (check.get("spec") or {}).get("controllerName", ""),
        )
        return self._update_queues()

    def delete_check(self, name: str) -> list[str]:
        """Forget an AdmissionCheck."""
        self.checks.pop(name, None)
        return self._update_queues()

    def _has_topology(self, flavor: Tree) -> bool:
        named = (flavor.get("spec") or {}).get("topologyName") is not None
        return named and self.gates.enabled("TopologyAwareScheduling")

    def _update_queues(self) -> list[str]:
        activated = []
        for queue in self.tree.queues.values():
            before = queue.status
            queue.update_flavors(self.flavors)
            queue.update_checks(self.checks)
            if before == "pending" and queue.status == ACTIVE:
                activated.append(queue.name)
        return sorted(activated)

    # -- cluster queues ----------------------------------------------------------------------------

    def add_cluster_queue(
        self, queue: Tree, local_queues: Iterable[Tree] = (), workloads: Iterable[Tree] = ()
    ) -> None:
        """Take a new ClusterQueue.

        Args:
            queue: The ClusterQueue.
            local_queues: The existing local queues that point to it.
            workloads: The existing workloads whose admission names it.

        Raises:
            CacheError: It exists, or its cohort is in a cycle (then it is kept all the same).
        """
        name = queue["metadata"]["name"]
        if name in self.tree.queues:
            raise CacheError("ClusterQueue already exists")
        state = ClusterQueueState(queue, self.gates, self.options, self.topologies)
        state.track_pods_ready = self._track_pods_ready
        self.tree.queues[name] = state
        self.tree.set_queue_parent(state, _parent_of(queue))
        self._set_spec(state, queue, None)
        for each in local_queues:
            meta = each["metadata"]
            local = LocalQueueState(labels=meta.get("labels") or {})
            state.reset_local(local)
            state.local_queues[f"{meta['namespace']}/{meta['name']}"] = local
        for each in workloads:
            if self._counts(each):
                self._add(each)

    def update_cluster_queue(self, queue: Tree) -> None:
        """Take a changed ClusterQueue.

        Raises:
            CacheError: It is unknown, or its cohort is in a cycle (then only quotas are taken).
        """
        state = self.tree.queues.get(queue["metadata"]["name"])
        if state is None:
            raise CacheError(NO_CLUSTER_QUEUE)
        before = state.parent
        self.tree.set_queue_parent(state, _parent_of(queue))
        self._set_spec(state, queue, before)
        for local in state.local_queues.values():
            state.reset_local(local)

    def _set_spec(self, state: ClusterQueueState, queue: Tree, before: CohortNode | None) -> None:
        if state.set_quotas(queue.get("spec") or {}) or before is not state.parent:
            if before is not None and before is not state.parent:
                _update_tree(before)
            if state.parent is None:
                update_queue(state)
            elif state.parent.has_cycle():
                raise CacheError(CYCLE)
            else:
                update_tree(state.parent.root())
        state.set_spec(queue, self.flavors, self.checks)

    def delete_cluster_queue(self, name: str) -> None:
        """Forget a ClusterQueue."""
        state = self.tree.queues.get(name)
        if state is None:
            return
        parent = state.parent
        self.tree.delete_queue(name)
        if parent is not None and parent.name in self.tree.cohorts:
            _update_tree(self.tree.cohorts[parent.name])

    def terminate_cluster_queue(self, name: str) -> None:
        """Let no workload in any more."""
        if name in self.tree.queues:
            self.tree.queues[name].status = TERMINATING

    def cluster_queue_active(self, name: str) -> bool:
        """Return whether the queue exists and admits workloads."""
        return name in self.tree.queues and self.tree.queues[name].status == ACTIVE

    def cluster_queue_terminating(self, name: str) -> bool:
        """Return whether the queue exists and is being deleted."""
        return name in self.tree.queues and self.tree.queues[name].status == TERMINATING

    def cluster_queue_empty(self, name: str) -> bool:
        """Return whether no workload holds quota in the queue."""
        return name not in self.tree.queues or not self.tree.queues[name].workloads

    def active_cluster_queues(self) -> list[str]:
        """The names of the active queues."""
        return [name for name, queue in self.tree.queues.items() if queue.status == ACTIVE]

    def readiness(self, name: str) -> tuple[str, str, str]:
        """Status, reason and message of the queue's condition Active."""
        if name not in self.tree.queues:
            return "False", "NotFound", "ClusterQueue not found"
        return self.tree.queues[name].readiness()

    def matching_cluster_queues(self, labels: Mapping[str, str]) -> list[str]:
        """The queues whose namespace selector matches."""
        return [name for name, queue in self.tree.queues.items() if queue.selector.matches(labels)]

    def cluster_queues_using_flavor(self, flavor: str) -> list[str]:
        """The queues that name a flavor."""
        return [
            name
            for name, queue in self.tree.queues.items()
            if any(flavor in group.flavors for group in queue.groups)
        ]

    def cluster_queues_using_topology(self, topology: str) -> list[str]:
        """The queues with a flavor on a topology."""
        return [
            name
            for name, queue in self.tree.queues.items()
            if topology in queue.tas_flavors.values()
        ]

    def cluster_queues_using_check(self, check: str) -> list[str]:
        """The queues that name an admission check."""
        return [name for name, queue in self.tree.queues.items() if check in queue.check_flavors]

    def uses_admission_fair_sharing(self, name: str) -> bool:
        """Return whether the queue orders by past usage of its local queues."""
        queue = self.tree.queues.get(name)
        return queue is not None and queue.admission_mode == "UsageBasedAdmissionFairSharing"

    # -- cohorts -----------------------------------------------------------------------------------

    def add_or_update_cohort(self, cohort: Tree) -> None:
        """Take a Cohort.

        Raises:
            CacheError: It is in a cycle (it is kept all the same).
        """
        spec = cohort.get("spec") or {}
        node = self.tree.add_cohort(cohort["metadata"]["name"])
        before = node.parent
        self.tree.set_cohort_parent(node, spec.get("parentName") or "")
        node.fair_weight = fair_weight(spec.get("fairSharing"))
        node.quotas = quotas_of(spec.get("resourceGroups") or ())
        if before is not None and before is not node.parent:
            _update_tree(before)
        if node.has_cycle():
            raise CacheError(CYCLE)
        update_tree(node.root())
        _update_tree(node)

    def delete_cohort(self, name: str) -> None:
        """Forget a Cohort; its children stay below an implicit one."""
        known = self.tree.cohorts.get(name)
        parent = None if known is None else known.parent
        if known is not None and not known.has_cycle():
            for above in known.path():
                above.admitted -= known.admitted
        self.tree.delete_cohort(name)
        if name in self.tree.cohorts:
            update_tree(self.tree.cohorts[name])
        if parent is not None:
            _update_tree(parent)

    def ancestors(self, cohort: str) -> list[str]:
        """The cohort and those above it.

        Raises:
            CacheError: It is in a cycle.
        """
        node = self.tree.cohorts.get(cohort)
        if node is None:
            return []
        if node.has_cycle():
            raise CacheError(CYCLE)
        return [node.name, *(above.name for above in node.path())]

    def cohort_share(self, name: str) -> float | None:
        """The weighted share of a cohort, 0 without fair sharing, None if it is unknown."""
        cohort = self.tree.cohorts.get(name)
        if cohort is None:
            return None
        return dominant_share(cohort).precise() if self.fair_sharing else 0.0

    # -- local queues ------------------------------------------------------------------------------

    def add_local_queue(self, queue: Tree) -> None:
        """Take a new LocalQueue.

        Raises:
            CacheError: It exists.
        """
        state = self.tree.queues.get((queue.get("spec") or {}).get("clusterQueue", ""))
        if state is None:
            return
        if key_of(queue) in state.local_queues:
            raise CacheError("queue already exists")
        state.add_local_queue(queue)

    def delete_local_queue(self, queue: Tree) -> None:
        """Forget a LocalQueue."""
        state = self.tree.queues.get((queue.get("spec") or {}).get("clusterQueue", ""))
        if state is not None:
            state.local_queues.pop(key_of(queue), None)

    def update_local_queue(self, old: Tree, new: Tree) -> None:
        """Take a changed LocalQueue; it moves when its ClusterQueue is another."""
        names = [(each.get("spec") or {}).get("clusterQueue", "") for each in (old, new)]
        if names[0] == names[1]:
            state = self.tree.queues.get(names[0])
            local = None if state is None else state.local_queues.get(key_of(new))
            if local is not None:
                local.labels = new["metadata"].get("labels") or {}
            return
        self.delete_local_queue(old)
        self.add_local_queue(new)

    def local_queue(self, cluster_queue: str, key: str) -> LocalQueueState | None:
        """The counters of a local queue."""
        state = self.tree.queues.get(cluster_queue)
        return None if state is None else state.local_queues.get(key)

    # -- workloads ---------------------------------------------------------------------------------

    def add_or_update(self, workload: Tree) -> bool:
        """Count a workload as it is now; return whether it holds quota here."""
        try:
            return self._add(workload)
        except CacheError:
            return False

    def _add(self, workload: Tree) -> bool:
        if self._has_variants(workload) and not is_variant(workload):
            return False
        key = key_of(workload)
        known = self._queue_of.get(key)
        if not self._counts(workload):
            if known is not None:
                self._delete_from(known, key)
                del self._queue_of[key]
            return False
        queue = self.tree.queues.get(workload["status"]["admission"]["clusterQueue"])
        if queue is None:
            raise CacheError(NO_CLUSTER_QUEUE)
        if known is not None and known != queue.name:
            self._delete_from(known, key)
        self._queue_of[key] = queue.name
        queue.add_workload(workload)
        return True

    def _counts(self, workload: Tree) -> bool:
        if self._counts_inactive:
            return has_quota_reservation(workload) and not is_finished(workload)
        return active_quota_reservation(workload)

    def _has_variants(self, workload: Tree) -> bool:
        """Return whether variants of the workload hold quota in its stead."""
        if not self.gates.enabled("ConcurrentAdmission"):
            return False
        admission = (workload.get("status") or {}).get("admission") or {}
        queue = self.tree.queues.get(admission.get("clusterQueue", ""))
        return queue is not None and queue.concurrent_admission is not None

    def _delete_from(self, queue: str, key: str) -> None:
        if queue in self.tree.queues:
            self.tree.queues[queue].delete_workload(key)

    def delete_workload(self, key: str) -> None:
        """Stop counting a workload.

        Raises:
            CacheError: Its queue is gone.
        """
        known = self._queue_of.get(key)
        if known is None:
            return
        if known not in self.tree.queues:
            raise CacheError(NO_CLUSTER_QUEUE)
        self.tree.queues[known].delete_workload(key)
        del self._queue_of[key]

    def is_added(self, info: Info) -> bool:
        """Return whether the workload holds quota in its queue.

        Gate here8 (proposed here; not reported): since kueue pull request 8474 only the queue is asked in which the
        workload waits now. One that has moved while its admission is being written is admitted in both queues. The
        repair asks for quota in any queue.
        """
        if self._holds_anywhere:
            return info.key in self._queue_of
        queue = self.tree.queues.get(info.cluster_queue)
        return queue is not None and info.key in queue.workloads

    def pods_ready(self) -> bool:
        """Return whether the pods of all workloads that hold quota are ready."""
        return not any(queue.not_ready for queue in self.tree.queues.values())

    # -- reading -----------------------------------------------------------------------------------

    def usage(self, name: str) -> QueueUsage:
        """Status numbers of a cluster queue.

        Raises:
            CacheError: It is unknown.
        """
        queue = self.tree.queues.get(name)
        if queue is None:
            raise CacheError(NO_CLUSTER_QUEUE)
        share = dominant_share(queue) if self.fair_sharing else None
        return QueueUsage(
            _flavors(queue, queue.usage, borrowed=True),
            len(queue.workloads),
            _flavors(queue, queue.admitted_usage, borrowed=True),
            queue.admitted,
            0.0 if share is None else share.precise(),
            share,
        )

    def local_queue_usage(self, local_queue: Tree) -> QueueUsage:
        """Status numbers of a local queue, all zero without its cluster queue.

        Raises:
            CacheError: The local queue is unknown.
        """
        queue = self.tree.queues.get((local_queue.get("spec") or {}).get("clusterQueue", ""))
        if queue is None:
            return QueueUsage()
        local = queue.local_queues.get(key_of(local_queue))
        if local is None:
            raise CacheError(NO_LOCAL_QUEUE)
        return QueueUsage(
            _flavors(queue, local.reserved),
            local.reserving,
            _flavors(queue, local.used),
            local.admitted,
        )

    def snapshot(
        self, local_queue_usage: Callable[[ClusterQueueState, Info], float | None] | None = None
    ) -> Snapshot:
        """Copy everything for a scheduling cycle; see `make_snapshot`."""
        topologies: Mapping[str, object] = {}
        if self.gates.enabled("TopologyAwareScheduling"):
            topologies = self.topologies.snapshots()
        return make_snapshot(self.tree, self.flavors, topologies, local_queue_usage)


def _parent_of(queue: Tree) -> str:
    return (queue.get("spec") or {}).get("cohortName") or ""


def _update_tree(cohort: CohortNode) -> None:
    if not cohort.has_cycle():
        update_tree(cohort.root())


def _flavors(queue: ClusterQueueState, usage: Quotas, *, borrowed: bool = False) -> list[Tree]:
    return [
        {
            "name": flavor,
            "resources": [
                _resource(queue, flavor, resource, usage, borrowed=borrowed)
                for resource in sorted(group.resources)
            ],
        }
        for group in queue.groups
        for flavor in group.flavors
    ]


def _resource(
    queue: ClusterQueueState, flavor: str, resource: str, usage: Quotas, *, borrowed: bool
) -> Tree:
    pair = FlavorResource(flavor, resource)
    used = usage.get(pair, 0)
    shown: Tree = {"name": resource, "total": quantity_text(resource, used)}
    if borrowed:
        extra = 0 if queue.parent is None else max(0, sub(used, queue.quota(pair).nominal))
        shown["borrowed"] = quantity_text(resource, extra) if extra else "0"
    return shown
