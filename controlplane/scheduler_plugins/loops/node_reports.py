"""The topology updaters of a cluster: an actor on each node with a machine whose kubelet assigns something."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from controlplane.kubelet.cm.errors import ManagerError
from controlplane.scheduler.community.node_resource_topology import TOPOLOGY
from controlplane.scheduler_plugins.loops import topology_updater
from controlplane.scheduler_plugins.zones import first_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors import World
    from controlplane.api.tree import Tree
    from controlplane.client.loops.connection import RestConfig
    from controlplane.client.resources import Resource
    from controlplane.kubelet.loops.host import Host
    from controlplane.kubelet.node.settings import KubeletSettings

__all__ = ["NodeReports", "first_reports"]


def _reports(settings: KubeletSettings) -> bool:
    return settings.machine is not None and settings.hands_out


def first_reports(of_nodes: Mapping[str, KubeletSettings]) -> list[tuple[Resource[Any], Tree]]:
    """The reports of nodes of before the first step, when they have no pods."""
    found: list[tuple[Resource[Any], Tree]] = []
    for name, settings in of_nodes.items():
        if settings.machine is not None and _reports(settings):
            given = (settings.machine, settings.policies, settings.features)
            with suppress(ManagerError):  # the kubelet will say so
                found.append((TOPOLOGY.resource, first_report(name, *given)))
    return found


class NodeReports:
    """The updaters; `address` gives the API server of a process by its name."""

    def __init__(
        self, world: World, interval_ns: int, address: Callable[[str], RestConfig]
    ) -> None:
        self._world = world
        self._interval_ns = interval_ns
        self._address = address
        self._actors: dict[str, str] = {}

    def add(
        self,
        node: str,
        settings: KubeletSettings,
        host: Host,
        *,
        kubelet: str = "",
        start: bool = False,
    ) -> None:
        """Declare the updater of a node, or start it while the world runs; some nodes have none.

        `kubelet` is the actor of the node's kubelet, unless that has the node's name.
        """
        if not _reports(settings):
            return
        name = self._actors[node] = topology_updater.actor_of(kubelet or node)
        declare = self._world.start if start else self._world.actor
        main, address = topology_updater.run, self._address(name)
        declare(name, main, node, host.sockets, self._interval_ns, server=address)

    def __contains__(self, node: str) -> bool:
        """Return whether a node has one."""
        return node in self._actors

    def end(self, node: str) -> None:
        """End the updater of a node; its report stays."""
        actor = self._actors.pop(node, "")
        if actor:
            self._world.end(actor)
