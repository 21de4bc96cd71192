"""The controller of AppGroups: counts their running workloads and orders them, for TopologicalSort.

It is a project of its own beside scheduler-plugins, and so a process of its own here. The order is made once, and again
at a change that comes a day later. Where upstream walks a map, the first of its keys is a choice of the run.

Points: those of `controllers.loops.worker`, and one for every request.
Follows `pkg/controller/appgroup.go` of diktyo-io/appgroup-controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.request import MERGE_PATCH
from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.client import calls
from controlplane.client.indexer import label_index
from controlplane.client.resources import PODS, Resource
from controlplane.controllers.common.controller import Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile
from controlplane.decisions import Choose
from controlplane.scheduler.community.network_aware import APP_GROUP, GROUP
from controlplane.scheduler_plugins.controller import changed_object, merge_difference
from controlplane.scheduler_plugins.ordering import dependencies, topology_order

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.controllers.common.controller import Caches, Host

__all__ = ["AppGroupController"]

QUEUE: Final = "appgroup"
ORDERED_FOR: Final = 24 * 3600 * SECOND
_GROUPS: Final = APP_GROUP.resource
_groups_of = label_index(GROUP)


class AppGroupController(Controller):
    """Keeps the statuses of AppGroups."""

    name = "appgroup-controller"
    component = "AppGroupController"
    client_rate = (5, 10)

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self._queue = host.queue(QUEUE)
        self._groups = caches.of(_GROUPS)
        self._pods = caches.of(PODS, group=_groups_of)

    def work(self) -> tuple[Work, ...]:
        """One worker."""
        return (Work(QUEUE, self.sync, workers=1),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Every change of a group, and of a pod that names one which is there."""

        def of_group(*told: Any) -> None:
            self._queue.add(changed_object(told).key)

        def of_pod(*told: Any) -> None:
            pod: Object[Pod] = changed_object(told)
            for name in _groups_of(pod):
                if self._groups.get(f"{pod.namespace}/{name}") is not None:
                    self._queue.add(f"{pod.namespace}/{name}")

        return {
            _GROUPS: Handlers(of_group, of_group, of_group),
            PODS: Handlers(of_pod, of_pod, of_pod),
        }

    def sync(self, key: str) -> Reconcile[None]:
        """Bring the status of a group up to its pods, which are those of all namespaces."""
        obj = self._groups.get(key)
        if obj is None:
            return
        group = obj.tree
        pods = [each.view for each in self._pods.by_index("group", obj.name)]
        status = dict(group.get("status") or {})
        status["runningWorkloads"] = sum(pod.status.phase == "Running" for pod in pods)
        made = {**group, "status": status}
        ordered = status.get("topologyCalculationTime")
        if not ordered or self.host.now - parse_time(ordered) > ORDERED_FOR:
            status["topologyOrder"] = yield from self._order(group)
            status["topologyCalculationTime"] = format_time(self.host.now)
        before = {**group, "status": group.get("status") or {}}
        body = merge_difference(before, {**made, "status": _marshalled(status)})
        if body:
            yield from calls.patch(_GROUPS, obj.namespace, obj.name, body, kind=MERGE_PATCH)

    def _order(self, group: Tree) -> Reconcile[list[Tree]]:
        edges = dependencies(group)
        names = list(edges)
        first = 0
        if len(names) > 1:
            first = yield Choose("cache order", len(names), "workloads of an AppGroup")
        return topology_order(group, {name: edges[name] for name in names[first:] + names[:first]})


def _marshalled(status: Tree) -> Tree:
    """A status without what its Go type leaves out when it is zero."""
    return {name: value for name, value in status.items() if value}
