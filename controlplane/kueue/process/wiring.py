"""The event handlers of Kueue's controllers, joined by resource.

Upstream each controller has a listener of its own for a kind; here those of one kind follow each other in one
step, in the order in which upstream sets the controllers up. Follows `SetupWithManager` and the `Notify...` methods of
`pkg/controller/core` and `pkg/controller/tas`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.api.equality import by_value
from controlplane.api.times import SECOND
from controlplane.client.resources import NAMESPACES, NODES, PODS
from controlplane.controllers.common.controller import Handlers
from controlplane.kueue.controllers.queue_objects import CohortController
from controlplane.kueue.placement.pods import is_over, is_placed
from controlplane.kueue.process import kinds
from controlplane.kueue.queues.cluster_queue import local_queue_of
from controlplane.kueue.workload.status import (
    has_quota_reservation,
    is_admissible,
    key_of,
    status_of,
)

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Queue
    from controlplane.kueue.cache.cache import Cache
    from controlplane.kueue.controllers.flavor_objects import (
        AdmissionCheckController,
        ResourceFlavorController,
    )
    from controlplane.kueue.controllers.queue_objects import (
        ClusterQueueController,
        LocalQueueController,
    )
    from controlplane.kueue.controllers.workload import WorkloadController
    from controlplane.kueue.controllers.workload_events import WorkloadEvents
    from controlplane.kueue.process.reader import CacheReader
    from controlplane.kueue.queues.manager import QueueManager
    from controlplane.kueue.topology.cache import TopologyCache

FREED: Final = 10 * SECOND
"""The time for which nodes on which pods gave room back are collected."""
BATCH: Final = SECOND
"""Changes that only count something are worked off together after this time (UpdatesBatchPeriod)."""
Changed = Callable[[Any, Any], None]
"""Hears of the old tree, None when the object is new, and of the new one, None when it is gone."""


@frozen
class Queues:
    """The work queues of the reconcilers."""

    workloads: Queue
    cluster_queues: Queue
    local_queues: Queue
    cohorts: Queue
    flavors: Queue
    checks: Queue
    topologies: Queue
    topology_flavors: Queue
    freed_nodes: Queue


@frozen
class Controllers:
    """The reconcilers with event handlers."""

    workloads: WorkloadController
    events: WorkloadEvents
    cluster_queues: ClusterQueueController
    local_queues: LocalQueueController
    flavors: ResourceFlavorController
    checks: AdmissionCheckController


@frozen
class Wiring:
    """The handlers of a process.

    Args:
        reader: Informer caches.
        manager: Queue manager.
        cache: Scheduler cache.
        topologies: Topology cache, None without topology aware placement.
        queues: Work queues.
        controllers: Reconcilers.
        wake: Lets the scheduler look at its heads again; called after every change.
        others: Who hears of changes after the handlers here, in this order.
    """

    reader: CacheReader
    manager: QueueManager
    cache: Cache
    topologies: TopologyCache | None
    queues: Queues
    controllers: Controllers
    wake: Callable[[], None]
    others: Sequence[Mapping[Resource[Any], Changed]] = ()

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """The handlers by resource."""
        found: dict[Resource[Any], list[Changed]] = {
            kinds.WORKLOADS: [self.workload],
            kinds.CLUSTER_QUEUES: [self.cluster_queue],
            kinds.LOCAL_QUEUES: [self.local_queue],
            kinds.COHORTS: [self.cohort],
            kinds.FLAVORS: [self.flavor],
            kinds.CHECKS: [self.check],
            NAMESPACES: [self.namespace],
            kinds.LIMIT_RANGES: [self.limit_range],
            kinds.RUNTIME_CLASSES: [self.runtime_class],
        }
        if self.topologies is not None:
            found |= {kinds.TOPOLOGIES: [self.topology], NODES: [self.node], PODS: [self.pod]}
        for each in self.others:
            for resource, changed in each.items():
                found.setdefault(resource, []).append(changed)
        return {resource: self._handlers(changed) for resource, changed in found.items()}

    def _handlers(self, all_changed: Sequence[Changed]) -> Handlers:
        def call(old: Object[Any] | None, new: Object[Any] | None) -> None:
            for changed in all_changed:
                changed(None if old is None else old.tree, None if new is None else new.tree)
            self.wake()

        return Handlers(lambda obj: call(None, obj), call, lambda obj, _unknown: call(obj, None))

    # -- workloads ---------------------------------------------------------------------------------

    def workload(self, old: Tree | None, new: Tree | None) -> None:
        """A Workload changed: queues and cache take it over, the counters of its queues are stale."""
        events = self.controllers.events
        _pass_on(events, old, new)
        for each in _touched(old, new):
            self.count_again(each)
        self.queues.workloads.add(key_of(new or old or {}))

    def count_again(self, workload: Tree) -> None:
        """The scheduler gave a Workload's quota back: the counters of its queues are stale."""
        self.queues.local_queues.add_after(local_queue_of(workload), BATCH)
        name = self._cluster_queue_of(workload)
        if name:
            self.queues.cluster_queues.add_after(name, BATCH)

    def _cluster_queue_of(self, workload: Tree) -> str:
        if has_quota_reservation(workload):
            return str((status_of(workload).get("admission") or {}).get("clusterQueue") or "")
        name, known = self.manager.cluster_queue_for(workload)
        return name if known else ""

    def _reconcile_workloads_of(self, local_queue: Tree) -> None:
        key = key_of(local_queue)
        for each in self.reader.list("Workload", local_queue["metadata"].get("namespace", "")):
            if local_queue_of(each) == key:
                self.queues.workloads.add(key_of(each))

    def limit_range(self, old: Tree | None, new: Tree | None) -> None:
        """Requests of pending workloads of the namespace are adjusted anew."""
        namespace = (new or old or {})["metadata"].get("namespace", "")
        self._queue_again(self.reader.list("Workload", namespace))

    def runtime_class(self, old: Tree | None, new: Tree | None) -> None:
        """Overhead of pending workloads with this class is computed anew."""
        name = (new or old or {})["metadata"]["name"]
        self._queue_again(
            each for each in self.reader.list("Workload") if name in _runtime_classes(each)
        )

    def _queue_again(self, workloads: Iterable[Tree]) -> None:
        owner = self.controllers.workloads
        for each in workloads:
            if is_admissible(each, owner.gates):
                self.manager.add_or_update(owner.adjust(each))

    # -- queues ------------------------------------------------------------------------------------

    def cluster_queue(self, old: Tree | None, new: Tree | None) -> None:
        """A ClusterQueue changed."""
        controller = self.controllers.cluster_queues
        name = (new or old or {})["metadata"]["name"]
        _pass_on(controller, old, new)
        self.queues.cluster_queues.add(name)
        if new is None or not new["metadata"].get("deletionTimestamp"):
            self._tell_of_cluster_queue(old, new)
        locals_ = [
            each
            for each in self.reader.list("LocalQueue")
            if _spec(each).get("clusterQueue") == name
        ]
        if old is None or new is None or _conditions(old) != _conditions(new):
            for each in locals_:
                self.queues.local_queues.add(key_of(each))
        if old is None or new is None or _stops_or_checks_differ(old, new):
            for each in locals_:
                self._reconcile_workloads_of(each)

    def _tell_of_cluster_queue(self, old: Tree | None, new: Tree | None) -> None:
        """Flavors and checks may be free to go; the cohorts above have another share."""
        if old is not None:
            gone = new is None
            if gone or _flavors(old) != _flavors(new or {}):
                for flavor in _flavors(old):
                    if not self.cache.cluster_queues_using_flavor(flavor):
                        self.queues.flavors.add(flavor)
            if gone or _checks(old) != _checks(new or {}):
                for check in _checks(old):
                    if not self.cache.cluster_queues_using_check(check):
                        self.queues.checks.add(check)
        cohort = _spec(new or old or {}).get("cohortName")
        if cohort:
            for each in self.cache.ancestors(cohort):
                self.queues.cohorts.add(each)

    def local_queue(self, old: Tree | None, new: Tree | None) -> None:
        """A LocalQueue changed."""
        controller = self.controllers.local_queues
        _pass_on(controller, old, new)
        either = new or old or {}
        self.queues.local_queues.add(key_of(either))
        if (
            old is None
            or new is None
            or new["metadata"].get("deletionTimestamp")
            or _spec(old).get("stopPolicy") != _spec(new).get("stopPolicy")
        ):
            self._reconcile_workloads_of(either)

    def cohort(self, old: Tree | None, new: Tree | None) -> None:
        """A Cohort changed; its reconcile does everything."""
        if old is None or new is None or CohortController.needs_reconcile(old, new):
            self.queues.cohorts.add((new or old or {})["metadata"]["name"])

    def namespace(self, old: Tree | None, new: Tree | None) -> None:
        """Labels of a namespace changed: cluster queues that match now may admit from it."""
        if old is None or new is None:
            return
        before, after = (each["metadata"].get("labels") or {} for each in (old, new))
        if before != after:
            matched = self.cache.matching_cluster_queues(before)
            now = self.cache.matching_cluster_queues(after)
            self.manager.notify(sorted(name for name in now if name not in matched))

    # -- flavors, checks, topologies ---------------------------------------------------------------

    def flavor(self, old: Tree | None, new: Tree | None) -> None:
        """A ResourceFlavor changed."""
        controller = self.controllers.flavors
        name = (new or old or {})["metadata"]["name"]
        if new is None:
            assert old is not None
            again = controller.deleted(old)
            topology = _spec(old).get("topologyName")
            if topology and self.topologies is not None:
                self.queues.topologies.add_after(topology, BATCH)
        else:
            again = controller.created(new) if old is None else controller.updated(old, new)
        if again:
            self.queues.flavors.add(name)
        if old is None or new is None:
            self._count_later(self.cache.cluster_queues_using_flavor(name))
        if _spec(new or old or {}).get("topologyName") and (
            old is None or new is None or _placement_differs(old, new)
        ):
            self.queues.topology_flavors.add(name)

    def check(self, old: Tree | None, new: Tree | None) -> None:
        """An AdmissionCheck changed."""
        controller = self.controllers.checks
        name = (new or old or {})["metadata"]["name"]
        again = _pass_on(controller, old, new)
        if again:
            self.queues.checks.add(name)
        self._count_later(self.cache.cluster_queues_using_check(name))

    def topology(self, old: Tree | None, new: Tree | None) -> None:
        """A Topology changed."""
        name = (new or old or {})["metadata"]["name"]
        self.queues.topologies.add(name)
        if new is None:
            self.cache.delete_topology(name)
        elif old is None:
            self.cache.add_or_update_topology(new)
        elif by_value(_spec(old).get("levels")) != by_value(_spec(new).get("levels")):
            activated = self.cache.add_or_update_topology(new)
            self.manager.notify(
                sorted({*activated, *self.cache.cluster_queues_using_topology(name)})
            )
        if old is None or new is None:
            users = self.cache.cluster_queues_using_topology(name)
            self._count_later(users)
            if old is None:
                self.manager.notify(users)

    def _count_later(self, cluster_queues: Iterable[str]) -> None:
        for name in cluster_queues:
            self.queues.cluster_queues.add_after(name, BATCH)

    # -- nodes and pods ----------------------------------------------------------------------------

    def node(self, old: Tree | None, new: Tree | None) -> None:
        """A node changed: workloads that were not placed may be now."""
        assert self.topologies is not None
        before = self.topologies.nodes.generation
        if new is None:
            assert old is not None
            self.topologies.delete_node(old["metadata"]["name"])
        else:
            self.topologies.sync_node(new)
        if self.topologies.nodes.generation != before:
            nodes = [each for each in (old, new) if each is not None]
            for flavor in self.topologies.flavors_of_nodes(*nodes):
                self.queues.topology_flavors.add_after(flavor, BATCH)

    def pod(self, old: Tree | None, new: Tree | None) -> None:
        """A pod outside topology aware placement takes room, or gives it back."""
        assert self.topologies is not None
        if new is not None and _takes_room(new):
            freed = self.topologies.update_pod(new)
        else:
            freed = self.topologies.delete_pod(key_of(new or old or {}))
        if freed:
            self.queues.freed_nodes.add_after(freed, FREED)


def _pass_on(controller: Any, old: Tree | None, new: Tree | None) -> Any:
    """Call the controller's handler of a creation, a change or a deletion; return its answer."""
    if new is None:
        return controller.deleted(old)
    return controller.created(new) if old is None else controller.updated(old, new)


def _touched(old: Tree | None, new: Tree | None) -> list[Tree]:
    """The versions of a workload whose queues have to count anew."""
    if old is None:
        return [] if new is None else [new]
    if new is not None and _spec(old).get("queueName") != _spec(new).get("queueName"):
        return [old, new]
    return [old]


def _spec(tree: Tree) -> Tree:
    return tree.get("spec") or {}


def _conditions(queue: Tree) -> object:
    return by_value((queue.get("status") or {}).get("conditions") or [])


def _flavors(queue: Tree) -> dict[str, None]:
    return {
        flavor["name"]: None
        for group in _spec(queue).get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
    }


def _checks(queue: Tree) -> dict[str, None]:
    strategy = _spec(queue).get("admissionChecksStrategy") or {}
    return {each["name"]: None for each in strategy.get("admissionChecks") or ()}


def _stops_or_checks_differ(old: Tree, new: Tree) -> bool:
    before, after = _spec(old), _spec(new)
    return bool(new["metadata"].get("deletionTimestamp")) or any(
        by_value(before.get(name)) != by_value(after.get(name))
        for name in ("admissionChecksStrategy", "stopPolicy")
    )


def _placement_differs(old: Tree, new: Tree) -> bool:
    before, after = _spec(old), _spec(new)
    return any(
        by_value(before.get(name)) != by_value(after.get(name))
        for name in ("topologyName", "nodeLabels", "nodeTaints", "tolerations")
    )


def _runtime_classes(workload: Tree) -> list[str]:
    return [
        ((each.get("template") or {}).get("spec") or {}).get("runtimeClassName") or ""
        for each in _spec(workload).get("podSets") or ()
    ]


def _takes_room(pod: Tree) -> bool:
    """Return whether a bound, running pod is none that topology aware placement put there."""
    return bool(_spec(pod).get("nodeName")) and not is_over(pod) and not is_placed(pod)
