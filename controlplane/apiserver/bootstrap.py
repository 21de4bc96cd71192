"""The objects that the API server makes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver.request import Request

if TYPE_CHECKING:
    from controlplane.apiserver.server import ApiServer

__all__ = ["bootstrap"]

Tree = dict[str, Any]

_NAMESPACES = ("kube-system", "kube-public", "default", "kube-node-lease")
_PRIORITIES = (("system-node-critical", 2000001000, "Used for system critical pods that must not be moved from their current node."),
               ("system-cluster-critical", 2000000000, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."))  # fmt: skip


def bootstrap(server: ApiServer, now: int) -> None:
    """Create what is missing of the built-in namespaces, priority classes and the API service."""
    for name in _NAMESPACES:
        _create(server, now, "", "v1", "namespaces", "", {"metadata": {"name": name}})
    for name, value, text in _PRIORITIES:
        body = {"metadata": {"name": name}, "value": value, "description": text}
        _create(server, now, "scheduling.k8s.io", "v1", "priorityclasses", "", body)
    service = {
        "metadata": {"name": "kubernetes",
                     "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": "10.0.0.1", "type": "ClusterIP", "sessionAffinity": "None",
                 "ports": [{"name": "https", "port": 443, "protocol": "TCP",
                            "targetPort": 6443}]},
    }  # fmt: skip
    _create(server, now, "", "v1", "services", "default", service)


def _create(
    server: ApiServer, now: int, group: str, version: str, resource: str, namespace: str,
    body: Tree,
) -> None:  # fmt: skip
    registry = server.registry_of(group, resource)
    if registry.find(namespace, body["metadata"]["name"]) is None:
        request = Request("create", group, version, resource, namespace, body=body)
        response = server.handle(request, now)
        assert response.ok, response.message
