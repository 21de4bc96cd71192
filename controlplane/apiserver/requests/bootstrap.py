"""The objects that the API server makes itself."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.api.request import Request
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Lookup
from controlplane.apiserver.requests.authorization import policy

__all__ = ["missing"]

_NAMESPACES = ("kube-system", "kube-public", "default", "kube-node-lease")
_PRIORITIES = (
    (
        "system-node-critical",
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary.",
    ),
)


def _made(group: str, resource: str, body: Tree, namespace: str = "") -> Request:
    return Request("create", group, "v1", resource, namespace, body=body)


def missing(lookup: Lookup) -> Iterator[Request]:
    """Yield the requests that create the missing built-in namespaces, classes, roles and the API service."""
    for request in _built_in():
        name = request.body["metadata"]["name"]
        if lookup.get(request.group, request.resource, request.namespace, name) is None:
            yield request


def _built_in() -> Iterator[Request]:
    for name in _NAMESPACES:
        yield _made("", "namespaces", {"metadata": {"name": name}})
    for name, value, text in _PRIORITIES:
        body = {"metadata": {"name": name}, "value": value, "description": text}
        yield _made("scheduling.k8s.io", "priorityclasses", body)
    service = {
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.0.0.1",
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }
    yield _made("", "services", service, "default")
    yield from policy.every_request_needs()
