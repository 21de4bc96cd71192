"""The objects that the API server makes itself."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.api.request import Request
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Lookup

__all__ = ["missing"]

_NAMESPACES = ("kube-system", "kube-public", "default", "kube-node-lease")
_PRIORITIES = (
    ("system-node-critical", 2000001000,
     "Used for system critical pods that must not be moved from their current node."),
    ("system-cluster-critical", 2000000000,
     "Used for system critical pods that must run in the cluster, but can be moved to another "
     "node if necessary."),
)  # fmt: skip


_RBAC = "rbac.authorization.k8s.io"
_INFO = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = ["/.well-known", "/.well-known/*", "/api", "/api/*", "/apis", "/apis/*", "/healthz",
              "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/"]  # fmt: skip
_AUTHENTICATED, _UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
# Who may do what from the start: (role, rules, groups it is bound to).
_ROLES: tuple[tuple[str, list[Tree], tuple[str, ...]], ...] = (
    ("cluster-admin",
     [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
      {"nonResourceURLs": ["*"], "verbs": ["*"]}],
     ("system:masters",)),
    ("system:basic-user",
     [{"apiGroups": ["authorization.k8s.io"], "verbs": ["create"],
       "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
      {"apiGroups": ["authentication.k8s.io"], "verbs": ["create"],
       "resources": ["selfsubjectreviews"]}],
     (_AUTHENTICATED,)),
    ("system:discovery", [{"nonResourceURLs": _DISCOVERY, "verbs": ["get"]}], (_AUTHENTICATED,)),
    ("system:public-info-viewer", [{"nonResourceURLs": _INFO, "verbs": ["get"]}],
     (_AUTHENTICATED, _UNAUTHENTICATED)),
)  # fmt: skip


def _authorization() -> Iterator[Request]:
    """The roles that requests need before anybody made any."""
    for name, rules, groups in _ROLES:
        meta = {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        }
        yield _made(_RBAC, "clusterroles", {"metadata": meta, "rules": rules})
        subjects = [{"apiGroup": _RBAC, "kind": "Group", "name": group} for group in groups]
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
        body = {"metadata": meta, "roleRef": role, "subjects": subjects}
        yield _made(_RBAC, "clusterrolebindings", body)


def _made(group: str, resource: str, body: Tree, namespace: str = "") -> Request:
    return Request("create", group, "v1", resource, namespace, body=body)


def missing(lookup: Lookup) -> Iterator[Request]:
    """What creates what is missing of the built-in namespaces, classes, roles and the API service."""
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
        "metadata": {"name": "kubernetes",
                     "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": "10.0.0.1", "type": "ClusterIP", "sessionAffinity": "None",
                 "ports": [{"name": "https", "port": 443, "protocol": "TCP",
                            "targetPort": 6443}]},
    }  # fmt: skip
    yield _made("", "services", service, "default")
    yield from _authorization()
