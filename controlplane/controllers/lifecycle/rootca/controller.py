"""The root CA publisher. Upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import CONFIG_MAPS, NAMESPACES
from controlplane.controllers.common.controller import Controller, Handlers, Work, ignore
from controlplane.controllers.common.effects import Reconcile, RequestFailed
from controlplane.controllers.common.namespaces import namespace_is_terminating
from controlplane.controllers.lifecycle.serviceaccount.controller import ACTIVE

if TYPE_CHECKING:
    from controlplane.api.core import ConfigMap, Namespace
    from controlplane.api.object import Object
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

NAME: Final = "kube-root-ca.crt"
DESCRIPTION: Final = "kubernetes.io/description"
TEXT: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints "
    "such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes clusters."
)
ROOT_CA: Final = """\
-----BEGIN CERTIFICATE-----
MIIBLTCB1KADAgECAgEBMAoGCCqGSM49BAMCMBUxEzARBgNVBAMMCmt1YmVybmV0
ZXMwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBUxEzARBgNVBAMM
Cmt1YmVybmV0ZXMwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQj1kp0WbcD6j19
fYq1Rt1pQVE6tiAgq/U9/FG9fQHbyVbqeQOzXoxrlP9P1NEXJFpX/NnBOsORU+6P
DynYOdYHoxMwETAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQDF
vZ5grP3FOCNOx0XJdzzbGhLxH6FhyXiwcvO8MuxoZwIgQRYPcObE711RceH4OnQA
URBIH7AbrG0lCZYYbofvxc4=
-----END CERTIFICATE-----
"""
"""The certificate of an authority without a known key.

That of a served session is made anew each time, outside of the world, so a run that published it could not be
repeated.
"""


def published(namespace: str, root_ca: str = ROOT_CA) -> Tree:
    """The ConfigMap of a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": namespace, "annotations": {DESCRIPTION: TEXT}},
        "data": {"ca.crt": root_ca},
    }


class RootCAPublisher(Controller):
    """Sees to it that every namespace has the certificate by which pods know the API server."""

    name = "root-ca-certificate-publisher-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("root_ca_cert_publisher")
        self._maps = caches.of(CONFIG_MAPS)
        self._data = {"ca.crt": host.root_ca}
        caches.of(NAMESPACES)

    def work(self) -> tuple[Work, ...]:
        """One queue of namespaces."""
        return (Work("root_ca_cert_publisher", self.sync, workers=1),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Namespaces, and what becomes of their certificate."""
        return {
            NAMESPACES: Handlers(lambda obj: self.queue.add(obj.name), self._updated, ignore),
            CONFIG_MAPS: Handlers(ignore, self._map_updated, self._map_deleted),
        }

    def _updated(self, _old: Object[Namespace], new: Object[Namespace]) -> None:
        if new.view.status.phase == ACTIVE:
            self.queue.add(new.name)

    def _map_updated(self, _old: Object[ConfigMap], new: Object[ConfigMap]) -> None:
        if new.name == NAME and new.view.data != self._data:
            self.queue.add(new.namespace)

    def _map_deleted(self, obj: Object[ConfigMap], _unknown: bool) -> None:
        if obj.name == NAME:
            self.queue.add(obj.namespace)

    def sync(self, namespace: str) -> Reconcile[None]:
        """Create the ConfigMap, or put it right."""
        found = self._maps.get(f"{namespace}/{NAME}")
        if found is None:
            yield from self._create(namespace)
            return
        described = found.view.annotations.get(DESCRIPTION)
        if found.view.data == self._data and described:
            return
        metadata = found.tree["metadata"]
        annotations = {**(metadata.get("annotations") or {}), DESCRIPTION: described or TEXT}
        tree = {**found.tree, "data": self._data}
        yield from calls.update(
            CONFIG_MAPS, {**tree, "metadata": {**metadata, "annotations": annotations}}
        )

    def _create(self, namespace: str) -> Reconcile[None]:
        """Create it, unless the namespace is gone or going."""
        try:
            yield from calls.create(CONFIG_MAPS, namespace, published(namespace, self.host.root_ca))
        except RequestFailed as error:
            gone = isinstance(error, ApiError) and is_not_found(error)
            if not gone and not namespace_is_terminating(error):
                raise
