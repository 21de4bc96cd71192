"""The autoscaler's listers: its caches as the loop, the deletions and the scheduler's filters read them.

Upstream: `utils/kubernetes/listers.go`, `context/autoscaling_context.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic

from controlplane.api.generic import V
from controlplane.api.node import Node
from controlplane.api.object import Object
from controlplane.api.pod import Pod
from controlplane.autoscaler.budgets import RemainingBudgets
from controlplane.autoscaler.drain import Controllers, Draining
from controlplane.autoscaler.loop import View
from controlplane.autoscaler.nodes import as_started
from controlplane.autoscaler.options import Options
from controlplane.autoscaler.planner import Ongoing
from controlplane.client.indexer import Indexer
from controlplane.client.resources import (
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    DAEMON_SETS,
    DISRUPTION_BUDGETS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from controlplane.controllers.common.controller import Caches
from controlplane.scheduler.state.listers import Listers

_CONTROLLERS: Final[dict[str, Resource[Any]]] = {
    "ReplicationController": REPLICATION_CONTROLLERS,
    "DaemonSet": DAEMON_SETS,
    "Job": JOBS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
}


def _by_node(obj: Object[Pod]) -> tuple[str, ...]:
    node = obj.view.spec.node_name
    return (node,) if node else ()


class _Lister(Generic[V]):
    """The views of a cache, as plugins of the scheduler look for them."""

    def __init__(self, store: Indexer[V]) -> None:
        self._store = store

    def get(self, namespace: str, name: str) -> V | None:
        found = self._store.get(f"{namespace}/{name}" if namespace else name)
        return None if found is None else found.view

    def list(self) -> Iterator[V]:
        return (obj.view for obj in self._store)

    def labelled(self, key: str, value: str) -> Iterator[V]:
        return (view for view in self.list() if view.metadata.labels.get(key) == value)


class Cluster:
    """The cluster as the caches have it now."""

    def __init__(self, caches: Caches, options: Options, clock: Callable[[], int]) -> None:
        self._options = options
        self._clock = clock
        self._pods = caches.of(PODS, node=_by_node)
        self._nodes = caches.of(NODES)
        self._budgets = caches.of(DISRUPTION_BUDGETS)
        self._daemon_sets = caches.of(DAEMON_SETS)
        self._controllers = {kind: caches.of(each) for kind, each in _CONTROLLERS.items()}
        self.listers = Listers(
            namespaces=_Lister(caches.of(NAMESPACES)),
            persistent_volume_claims=_Lister(caches.of(CLAIMS)),
            persistent_volumes=_Lister(caches.of(VOLUMES)),
            storage_classes=_Lister(caches.of(STORAGE_CLASSES)),
            csi_nodes=_Lister(caches.of(CSI_NODES)),
            csi_drivers=_Lister(caches.of(CSI_DRIVERS)),
            services=_Lister(caches.of(SERVICES)),
            replication_controllers=_Lister(caches.of(REPLICATION_CONTROLLERS)),
            replica_sets=_Lister(caches.of(REPLICA_SETS)),
            stateful_sets=_Lister(caches.of(STATEFUL_SETS)),
        )

    @property
    def now(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return self._clock()

    def nodes(self) -> list[Node]:
        """Return all nodes; those with a startup taint are not ready."""
        return [as_started(obj.view) for obj in self._nodes]

    def node_count(self) -> int:
        """Return the number of nodes."""
        return len(self._nodes)

    def node(self, name: str) -> Node | None:
        """Return a node."""
        found = self._nodes.get(name)
        return None if found is None else found.view

    def pods_on(self, node: str) -> list[Pod]:
        """Return the pods of a node that are not over and not expendable."""
        pods = (obj.view for obj in self._pods.by_index("node", node))
        least = self._options.expendable_cutoff
        return [
            pod
            for pod in pods
            if pod.status.phase not in ("Succeeded", "Failed")
            and (pod.spec.priority is None or pod.spec.priority >= least)
        ]

    def draining(self, *, drained: bool) -> Draining:
        """Return the input of the rules for pods that move."""
        options = self._options.deletions
        if not drained:
            return Draining(options, RemainingBudgets(), None, self.now)
        budgets = RemainingBudgets(obj.view for obj in self._budgets)
        return Draining(options, budgets, self._known_controllers(), self.now)

    def view(self, ongoing: Ongoing) -> View:
        """Return the input of a loop."""
        return View(
            self.nodes(),
            [obj.view for obj in self._pods],
            self.now,
            [obj.view for obj in self._daemon_sets],
            [obj.view for obj in self._budgets],
            self._known_controllers(),
            ongoing,
        )

    def _known_controllers(self) -> Controllers:
        return Controllers(
            {
                kind: {
                    (obj.namespace, obj.name): (obj.tree.get("spec") or {}).get("replicas")
                    for obj in store
                }
                for kind, store in self._controllers.items()
            }
        )
