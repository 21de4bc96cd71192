"""ReplicationControllers, by the controller of ReplicaSets. Upstream: pkg/controller/replication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.client.resources import REPLICATION_CONTROLLERS
from controlplane.controllers.workloads.replicaset.controller import ReplicaSetController

if TYPE_CHECKING:
    from controlplane.api.apps import ReplicaSet
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree


class ReplicationControllerController(ReplicaSetController):
    """Keeps as many pods as each ReplicationController wants."""

    name = "replicationcontroller-controller"
    component = "replication-controller"
    kind = "ReplicationController"
    resource = REPLICATION_CONTROLLERS
    queue_name = "replicationmanager"
    counts_terminating = False

    def set_of(self, obj: Object[Any]) -> ReplicaSet:
        """A ReplicationController as a ReplicaSet: its selector, a set of labels, becomes an object."""
        from controlplane.api.apps import ReplicaSet

        spec: Tree = obj.tree.get("spec") or {}
        selector = {"matchLabels": spec.get("selector") or {}}
        return ReplicaSet.from_tree({**obj.tree, "spec": {**spec, "selector": selector}})
