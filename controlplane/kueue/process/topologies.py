"""The reconciler of Topologies: a finalizer while a flavor uses one.

Follows `pkg/controller/tas/topology_controller.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from controlplane.kueue.controllers.effects import Done, Reader, Reconcile, Update
from controlplane.kueue.controllers.queue_objects import (
    has_finalizer,
    with_finalizer,
    without_finalizer,
)

if TYPE_CHECKING:
    from controlplane.kueue.topology.cache import TopologyCache

TOPOLOGY: Final = "Topology"


@frozen
class TopologyReconciler:
    """Reconciles Topologies."""

    reader: Reader
    topologies: TopologyCache | None

    def reconcile(self, name: str) -> Reconcile:
        """Keep the finalizer while a flavor names the topology."""
        tree = self.reader.get(TOPOLOGY, "", name)
        if tree is None:
            return Done()
        if not tree["metadata"].get("deletionTimestamp"):
            if not has_finalizer(tree):
                yield Update(TOPOLOGY, with_finalizer(tree))
        elif has_finalizer(tree) and not self._is_used(name):
            yield Update(TOPOLOGY, without_finalizer(tree))
        return Done()

    def _is_used(self, name: str) -> bool:
        flavors = {} if self.topologies is None else self.topologies.flavors()
        return any(each.info.topology == name for each in flavors.values())
