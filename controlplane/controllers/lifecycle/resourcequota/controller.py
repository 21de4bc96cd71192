"""The resource quota controller. Upstream: pkg/controller/resourcequota/resource_quota_controller.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.quota import amounts, tracked
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.resources import PODS, RESOURCE_QUOTAS, Resource
from controlplane.controllers.common.controller import Controller, Handlers, Periodic, Work, ignore
from controlplane.controllers.common.effects import Reconcile
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.controllers.lifecycle.resourcequota.usage import calculate_usage
from controlplane.decisions import immediate

if TYPE_CHECKING:
    from controlplane.api.core import ResourceQuota
    from controlplane.api.object import Object
    from controlplane.client.indexer import Indexer
    from controlplane.controllers.common.controller import Caches, Host

RESYNC_NS: Final = 300 * SECOND
IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})
FINISHED: Final = ("Succeeded", "Failed")


class ResourceQuotaController(Controller):
    """Keeps the status of quotas: at their changes, when what they count goes away, and every five minutes."""

    name = "resourcequota-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("resourcequota_primary")
        self.missing = host.queue("resourcequota_priority")
        self._quotas = caches.of(RESOURCE_QUOTAS, namespace=namespace_index)
        self._caches: dict[Resource[Any], Indexer[Any]] = {
            each.resource: caches.of(each.resource, namespace=namespace_index)
            for each in host.rest_mapper.preferred()
            if each.namespaced
            and each.has("create", "list", "watch", "delete")
            and (each.resource.group, each.resource.name) not in IGNORED
        }

    def work(self) -> tuple[Work, ...]:
        """Quotas, and those first of which something is not known yet."""
        return (
            Work("resourcequota_primary", self.sync),
            Work("resourcequota_priority", self.sync),
        )

    def periodic(self) -> tuple[Periodic, ...]:
        """All quotas from time to time."""
        return (
            Periodic(
                "resourcequota.resync",
                RESYNC_NS,
                immediate(self._resync),
                after_ns=RESYNC_NS,
            ),
        )

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Quotas whose limits changed, and what gives something back to them."""

        def changed(old: Object[ResourceQuota], new: Object[ResourceQuota]) -> None:
            if (old.tree.get("spec") or {}) != (new.tree.get("spec") or {}):
                self._add(new)

        found = {
            resource: Handlers(ignore, ignore, self._replenisher(resource))
            for resource in self._caches
        }
        found[PODS] = Handlers(ignore, self._pod_updated, self._replenisher(PODS))
        found[RESOURCE_QUOTAS] = Handlers(self._add, changed, self._quota_deleted)
        return found

    # ------------------------------------------------------------------ handlers

    def _add(self, obj: Object[ResourceQuota]) -> None:
        """Ask for a quota: first of all if it does not say yet what is used of what it limits."""
        spec: Tree = obj.tree.get("spec") or {}
        status: Tree = obj.tree.get("status") or {}
        hard = spec.get("hard") or {}
        used = status.get("used") or {}
        if hard != (status.get("hard") or {}) or any(name not in used for name in hard):
            self.missing.add(obj.key)
        else:
            self.queue.add(obj.key)

    def _quota_deleted(self, obj: Object[ResourceQuota], _unknown: bool) -> None:
        self.queue.add(obj.key)
        self._replenish(RESOURCE_QUOTAS, obj.namespace)

    def _replenisher(self, resource: Resource[Any]) -> Any:
        return lambda obj, _unknown: self._replenish(resource, obj.namespace)

    def _pod_updated(self, old: Object[Any], new: Object[Any]) -> None:
        """A pod that finished uses nothing more."""
        if old.view.status.phase not in FINISHED and new.view.status.phase in FINISHED:
            self._replenish(PODS, new.namespace)

    def _replenish(self, resource: Resource[Any], namespace: str) -> None:
        for quota in self._quotas.by_index("namespace", namespace):
            hard = (quota.tree.get("spec") or {}).get("hard") or ()
            if tracked(resource.group, resource.name, hard):
                self.queue.add(quota.key)

    def _resync(self) -> None:
        for obj in self._quotas:
            self._add(obj)

    # ------------------------------------------------------------------ reconcile

    def sync(self, key: str) -> Reconcile[None]:
        """Count what a quota limits, and write it if it is news."""
        obj = self._quotas.get(key)
        if obj is None:
            return
        spec: Tree = obj.tree.get("spec") or {}
        status: Tree = obj.tree.get("status") or {}
        hard = spec.get("hard") or {}
        objects = {
            (resource.group, resource.name): [
                each.tree for each in cache.by_index("namespace", obj.namespace)
            ]
            for resource, cache in self._caches.items()
            if tracked(resource.group, resource.name, hard)
        }
        counted = calculate_usage(spec, objects, self.host.now)
        before = amounts(status.get("used"))
        used = {name: amount for name, amount in {**before, **counted}.items() if name in hard}
        dirty = (
            hard != status.get("hard")
            or "used" not in status
            or set(used) != set(before)
            or any(amount.cmp(before[name]) for name, amount in used.items())
        )
        if not dirty:
            return
        texts = {name: str(amount) for name, amount in sorted(used.items())}
        tree = {**obj.tree, "status": {"hard": hard, "used": texts}}
        yield from calls.update(RESOURCE_QUOTAS, tree, "status")
