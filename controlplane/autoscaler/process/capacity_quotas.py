"""The controller of CapacityQuotas, beside the loop: which are valid, and what nodes use of them.

Points: those of `controllers.loops.worker` for its queue, and one for every request.
Upstream: `resourcequotas/capacityquota/controller.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.labels import SelectorError
from controlplane.api.request import MERGE_PATCH
from controlplane.autoscaler.capacity.definition import QUOTAS
from controlplane.autoscaler.capacity.quotas import quota_of, reconciled, selector_of
from controlplane.client import calls
from controlplane.client.resources import NODES, Resource
from controlplane.controllers.common.controller import Handlers, Work
from controlplane.controllers.common.effects import Reconcile

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.autoscaler.quotas import Quota
    from controlplane.controllers.common.controller import Caches, Host

QUEUE: Final = "capacityquota"


class CapacityQuotas:
    """The quotas of a cluster."""

    def __init__(self, host: Host, caches: Caches) -> None:
        self._host = host
        self._queue = host.queue(QUEUE)
        self._quotas = caches.of(QUOTAS)
        self._nodes = caches.of(NODES)

    def work(self) -> Work:
        """One worker."""
        return Work(QUEUE, self.sync, workers=1)

    def valid(self) -> tuple[Quota, ...]:
        """Return those that hold now, in the order of their names."""
        found = (quota_of(each.tree) for each in sorted(self._quotas, key=lambda each: each.name))
        return tuple(each for each in found if each is not None)

    def handlers(self, stir: Callable[..., None]) -> dict[Resource[Any], Handlers]:
        """Reconcile quotas whose spec changes; call `stir` at every change, since limits may differ."""

        def added(obj: Object[Any]) -> None:
            stir()
            self._queue.add(obj.name)

        def updated(old: Object[Any], new: Object[Any]) -> None:
            stir()
            if old.metadata.get("generation") != new.metadata.get("generation"):
                self._queue.add(new.name)

        def deleted(obj: Object[Any], _unknown: bool) -> None:
            added(obj)

        return {QUOTAS: Handlers(added, updated, deleted)}

    def node_changed(self, *nodes: Object[Node]) -> None:
        """Reconcile the quotas of a node that came or went, or of both states of one with other labels or capacity."""
        if len(nodes) == 2:
            old, new = (node.view for node in nodes)
            same = old.labels == new.labels
            if same and old.status.capacity == new.status.capacity:
                return
        for each in self._quotas:
            try:
                selector = selector_of(each.tree)
            except SelectorError:
                continue
            if any(selector.matches(node.view.labels) for node in nodes):
                self._queue.add(each.name)

    def sync(self, name: str) -> Reconcile[None]:
        """Bring the status of a quota up to its nodes."""
        obj = self._quotas.get(name)
        if obj is None:
            return
        before = obj.tree.get("status") or {}
        status = reconciled(obj.tree, (node.view for node in self._nodes), self._host.now)
        changed = {key: value for key, value in status.items() if before.get(key) != value}
        if changed:
            body = {"status": changed}
            yield from calls.patch(QUOTAS, "", name, body, subresource="status", kind=MERGE_PATCH)
