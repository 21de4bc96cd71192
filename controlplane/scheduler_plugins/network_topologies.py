"""The controller of NetworkTopologies: turns measurements of a ConfigMap into the weights that NetworkOverhead goes by.

It is a project of its own beside scheduler-plugins, and so a process of its own here. As upstream, weights are made
when a NetworkTopology comes or changes, at most every five minutes, and only if its ConfigMap is there then: neither
the ConfigMap nor a node brings it back. The bandwidth that is allocated to pods is not counted.

Points: those of `controllers.loops.worker`, and one for every request.
Follows `pkg/controller/networktopology.go` of diktyo-io/networktopology-controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.request import MERGE_PATCH
from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.client import calls
from controlplane.client.resources import CONFIG_MAPS, NODES, Resource
from controlplane.controllers.common.controller import Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile
from controlplane.scheduler.community.network_aware import NETWORK_TOPOLOGY
from controlplane.scheduler_plugins.controller import changed_object, merge_difference
from controlplane.scheduler_plugins.network_costs import measured_weights, place_of

if TYPE_CHECKING:
    from controlplane.controllers.common.controller import Caches, Host

__all__ = ["NetworkTopologyController"]

QUEUE: Final = "networktopology"
MADE_FOR: Final = 300 * SECOND
_TOPOLOGIES: Final = NETWORK_TOPOLOGY.resource


class NetworkTopologyController(Controller):
    """Keeps the measured weights of NetworkTopologies."""

    name = "networktopology-controller"
    component = "NetworkTopologyController"
    client_rate = (5, 10)

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self._queue = host.queue(QUEUE)
        self._topologies = caches.of(_TOPOLOGIES)
        self._nodes = caches.of(NODES)
        self._maps = caches.of(CONFIG_MAPS)

    def work(self) -> tuple[Work, ...]:
        """One worker."""
        return (Work(QUEUE, self.sync, workers=1),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Every change of a NetworkTopology."""

        def changed(*told: Any) -> None:
            self._queue.add(changed_object(told).key)

        return {_TOPOLOGIES: Handlers(changed, changed, changed)}

    def sync(self, key: str) -> Reconcile[None]:
        """Bring weights and status up to the measurements and the nodes."""
        obj = self._topologies.get(key)
        if obj is None:
            return
        tree = obj.tree
        measured = self._maps.get(f"{obj.namespace}/{tree['spec']['configmapName']}")
        if measured is None:
            return
        nodes = [each.tree for each in self._nodes]
        status = {**(tree.get("status") or {}), "nodeCount": len(nodes)}
        spec = tree["spec"]
        made = status.get("weightCalculationTime")
        if not made or self.host.now - parse_time(made) > MADE_FOR:
            places = [place_of(node) for node in nodes]
            weights = measured_weights(spec, places, measured.tree.get("data") or {})
            spec = {**spec, "weights": weights}
            status["weightCalculationTime"] = format_time(self.host.now)
        before = {"spec": tree["spec"], "status": tree.get("status") or {}}
        body = merge_difference(before, {"spec": spec, "status": status})
        if body:
            yield from calls.patch(_TOPOLOGIES, obj.namespace, obj.name, body, kind=MERGE_PATCH)
