"""The ClusterRole aggregation controller. Upstream: pkg/controller/clusterroleaggregation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.aggregation import aggregated_rules
from controlplane.client.calls import Call
from controlplane.client.resources import CLUSTER_ROLES
from controlplane.controllers.common.controller import Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile

if TYPE_CHECKING:
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

APPLY: Final = "application/apply-patch+yaml"


class ClusterRoleAggregationController(Controller):
    """Gives roles with an aggregationRule the rules of the roles that it selects."""

    name = "clusterrole-aggregation-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("ClusterRoleAggregator")
        self._roles = caches.of(CLUSTER_ROLES)

    def work(self) -> tuple[Work, ...]:
        """One queue of roles that are put together."""
        return (Work("ClusterRoleAggregator", self.sync),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Any change may concern any role that is put together."""

        def changed(*_: Any) -> None:
            for obj in self._roles:
                if obj.tree.get("aggregationRule") is not None:
                    self.queue.add(obj.key)

        return {CLUSTER_ROLES: Handlers(changed, changed, changed)}

    def sync(self, key: str) -> Reconcile[None]:
        """Apply the rules of a role if they are not what they should be."""
        obj = self._roles.get(key)
        if obj is None or obj.tree.get("aggregationRule") is None:
            return
        rules = aggregated_rules(obj.tree, (each.tree for each in self._roles))
        if rules == (obj.tree.get("rules") or []):
            return
        body = {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": "ClusterRole",
            "metadata": {"name": obj.name},
            "rules": rules,
        }
        query = {"fieldManager": self.name, "force": "true"}
        yield Call("patch", CLUSTER_ROLES, "", obj.name, query=query, body=body, content_type=APPLY)
