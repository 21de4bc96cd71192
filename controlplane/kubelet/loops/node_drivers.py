"""The DRA drivers of a cluster's nodes: an actor each, and what it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from controlplane.kubelet.cm.dra.driver import driver_actor
from controlplane.kubelet.loops import dra_driver
from controlplane.kubelet.loops.dra_driver import DriverProbe

if TYPE_CHECKING:
    from actors import World
    from controlplane.api.tree import Tree
    from controlplane.client.loops.connection import RestConfig
    from controlplane.kubelet.node.devices import Devices

__all__ = ["NodeDrivers"]


class NodeDrivers:
    """The drivers of all nodes. `address` gives the API server of a process by its name."""

    def __init__(
        self, devices: Devices, world: World, address: Callable[[str], RestConfig]
    ) -> None:
        self._devices = devices
        self._world = world
        self._address = address
        self._actors: dict[str, dict[str, str]] = {}
        self.probes: dict[str, DriverProbe] = {}
        """By actor, what a driver holds."""

    def add(self, node: Tree, *, start: bool = False) -> None:
        """Declare the drivers of a node, or start them while the world runs.

        A second life of a node has actors of its own.
        """
        name = node["metadata"]["name"]
        actors = self._actors[name] = {}
        declare = self._world.start if start else self._world.actor
        for driver, options in self._devices.drivers(node).items():
            actor, life = driver_actor(driver, name), 1
            while self._world.has_actor(actor):
                life += 1
                actor = f"{driver_actor(driver, name)}:{life}"
            actors[driver] = actor
            probe = self.probes[actor] = DriverProbe()
            server = self._address(actor)
            declare(actor, dra_driver.run, name, options, probe, server=server)

    def of(self, node: str) -> Mapping[str, str]:
        """Return the actors of a node's drivers, by name of the driver."""
        return self._actors.get(node, {})

    def end(self, node: str) -> None:
        """End the drivers of a node."""
        for actor in self._actors.pop(node, {}).values():
            self._world.end(actor)
