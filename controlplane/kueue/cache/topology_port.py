"""The topology cache, as the scheduler cache calls it, and a stand-in for worlds without topologies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from controlplane.api.tree import Tree
from controlplane.kueue.workload.info import DomainRequests


class FlavorTopology(Protocol):
    """The topology of one flavor, and what workloads use of it."""

    def add_usage(self, key: str, requests: Iterable[DomainRequests]) -> None:
        """Count a workload; one that counted before is replaced."""

    def remove_usage(self, key: str) -> None:
        """Stop counting a workload."""


class Topologies(Protocol):
    """All topologies; `controlplane.kueue.topology.cache` implements it."""

    def add_or_update_flavor(self, flavor: Tree) -> None:
        """Take a ResourceFlavor with a topologyName."""

    def delete_flavor(self, name: str) -> None:
        """Forget a flavor."""

    def add_topology(self, topology: Tree) -> None:
        """Take a Topology, new or changed."""

    def delete_topology(self, name: str) -> None:
        """Forget a Topology."""

    def flavor(self, name: str) -> Any:
        """The FlavorTopology of a flavor whose Topology exists, else None."""

    def snapshots(self) -> Mapping[str, Any]:
        """A snapshot per flavor."""


class NoTopologies:
    """No topologies at all."""

    def add_or_update_flavor(self, flavor: Tree) -> None:
        """Nothing is kept."""

    def delete_flavor(self, name: str) -> None:
        """Nothing is kept."""

    def add_topology(self, topology: Tree) -> None:
        """Nothing is kept."""

    def delete_topology(self, name: str) -> None:
        """Nothing is kept."""

    def flavor(self, name: str) -> None:
        """There is none."""

    def snapshots(self) -> Mapping[str, Any]:
        """There are none."""
        return {}
