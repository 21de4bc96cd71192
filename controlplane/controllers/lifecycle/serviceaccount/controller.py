"""The service account controller. Upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.resources import NAMESPACES, SERVICE_ACCOUNTS
from controlplane.controllers.common.controller import Controller, Handlers, Work, ignore
from controlplane.controllers.common.effects import Reconcile, RequestFailed
from controlplane.controllers.common.namespaces import namespace_is_terminating

if TYPE_CHECKING:
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

DEFAULT: Final = "default"
ACTIVE: Final = "Active"


def default_account(namespace: str) -> Tree:
    """The account of pods that name none."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": DEFAULT, "namespace": namespace},
    }


class ServiceAccountController(Controller):
    """Sees to it that every active namespace has the account `default`."""

    name = "serviceaccount-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("serviceaccount")
        self._namespaces = caches.of(NAMESPACES)
        self._accounts = caches.of(SERVICE_ACCOUNTS)

    def work(self) -> tuple[Work, ...]:
        """One queue of namespaces."""
        return (Work("serviceaccount", self.sync, workers=1),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Namespaces, and accounts that go."""
        return {
            NAMESPACES: Handlers(
                lambda obj: self.queue.add(obj.name),
                lambda _old, new: self.queue.add(new.name),
                ignore,
            ),
            SERVICE_ACCOUNTS: Handlers(
                ignore, ignore, lambda obj, _unknown: self.queue.add(obj.namespace)
            ),
        }

    def sync(self, namespace: str) -> Reconcile[None]:
        """Create the account if it is not there; a namespace that goes gets none."""
        obj = self._namespaces.get(namespace)
        if obj is None or obj.view.status.phase != ACTIVE:
            return
        if f"{namespace}/{DEFAULT}" in self._accounts:
            return
        try:
            yield from calls.create(SERVICE_ACCOUNTS, namespace, default_account(namespace))
        except RequestFailed as error:
            if not namespace_is_terminating(error):
                raise
