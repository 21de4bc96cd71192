"""Topologies in the process: their finalizers, pods let go to their domains, failed nodes.

Follows `pkg/controller/tas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from controlplane.api.times import SECOND
from controlplane.client.resources import NODES, PODS
from controlplane.controllers.common.controller import Work
from controlplane.kueue.controllers.effects import Done, Reader, Reconcile, Update
from controlplane.kueue.controllers.queue_objects import (
    has_finalizer,
    with_finalizer,
    without_finalizer,
)
from controlplane.kueue.placement.node_failures import BATCH, NodeFailures
from controlplane.kueue.placement.pods import is_admitted_to_domains
from controlplane.kueue.placement.ungater import TopologyUngater
from controlplane.kueue.process.kinds import WORKLOADS
from controlplane.kueue.workload.status import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import Any

    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Host, Queue
    from controlplane.kueue.gates import Gates
    from controlplane.kueue.process.carrying import Carried
    from controlplane.kueue.process.reader import CacheReader
    from controlplane.kueue.process.wiring import Changed
    from controlplane.kueue.topology.cache import TopologyCache

    Carry = Callable[[Queue, str, Generator[Any, Any, Done]], Carried[None]]

UNGATER: Final = "kueue-tas-ungater"
NODES_QUEUE: Final = "kueue-tas-node"

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


class PlacementControllers:
    """The ungater and the detection of failed nodes, with their queues.

    Args:
        host: The controller's host.
        reader: Informer caches.
        gates: Kueue's feature gates.
        workers: Workers of the ungater's queue.
        carry: Carries a reconcile of a key of a queue out.
    """

    def __init__(
        self, host: Host, reader: CacheReader, gates: Gates, workers: int, carry: Carry
    ) -> None:
        self._workers = workers
        self._carry = carry
        self._ungater = TopologyUngater(reader)
        self._failures = NodeFailures(reader, gates, lambda: host.now)
        self._workloads = host.queue(UNGATER)
        self._nodes = host.queue(NODES_QUEUE)

    def changes(self) -> Mapping[Resource[Any], Changed]:
        """Return the event handlers by resource."""
        return {WORKLOADS: self._workload, PODS: self._pod, NODES: self._node}

    def work(self) -> Sequence[Work]:
        """The queues and their reconciles."""
        return (
            Work(UNGATER, self._ungate, workers=self._workers),
            Work(NODES_QUEUE, self._look, workers=1),
        )

    def _workload(self, old: Tree | None, new: Tree | None) -> None:
        workload = new or old or {}
        if is_admitted_to_domains(workload):
            self._workloads.add(key_of(workload))

    def _pod(self, old: Tree | None, new: Tree | None) -> None:
        key = self._ungater.pod_changed(old, new)
        if key is not None:
            self._workloads.add_after(key, SECOND)
        for node in self._failures.nodes_of(new or old or {}):
            self._nodes.add_after(node, BATCH)

    def _node(self, old: Tree | None, new: Tree | None) -> None:
        if self._failures.concerns(old, new):
            self._nodes.add((new or old or {})["metadata"]["name"])

    def _ungate(self, key: str) -> Carried[None]:
        yield from self._carry(self._workloads, key, self._ungater.reconcile(key))

    def _look(self, name: str) -> Carried[None]:
        yield from self._carry(self._nodes, name, self._failures.reconcile(name))
