"""NamespaceLifecycle. Upstream: apiserver pkg/admission/plugin/namespace/lifecycle."""

from __future__ import annotations

from typing import Any

from controlplane.api.object import Object
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.schema import status

__all__ = ["lifecycle", "protect"]

Tree = dict[str, Any]

_IMMORTAL = ("default", "kube-system", "kube-public")
_ACCESS_REVIEWS = ("localsubjectaccessreviews",)


def lifecycle(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """Nothing is created in a namespace that is missing or terminating."""
    if old is not None or not ctx.info.namespaced or ctx.info.resource in _ACCESS_REVIEWS:
        return tree
    namespace = ctx.request.namespace
    server = ctx.server
    found = server.namespaces.find("", namespace)
    if found is None:
        if server.auto_namespaces:
            return tree
        raise status.not_found(server.namespaces.info, namespace)
    if found.tree.get("status", {}).get("phase") == "Terminating":
        name = tree.get("metadata", {}).get("name", "")
        raise status.forbidden(
            ctx.info,
            name,
            f"unable to create new content in namespace {namespace} because it is being "
            "terminated",
            [{
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }],
        )  # fmt: skip
    return tree


def protect(ctx: Context, found: Object) -> None:
    """Some namespaces may never be deleted."""
    if ctx.info.resource == "namespaces" and not ctx.info.group and found.name in _IMMORTAL:
        raise status.forbidden(ctx.info, found.name, "this namespace may not be deleted")
