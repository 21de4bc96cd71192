"""NamespaceLifecycle. Upstream: apiserver pkg/admission/plugin/namespace/lifecycle."""

from __future__ import annotations

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.schema import status

__all__ = ["home", "lifecycle", "protect"]

_IMMORTAL = ("default", "kube-system", "kube-public")
_ACCESS_REVIEWS = ("localsubjectaccessreviews",)


def home(ctx: Context) -> tuple[str, str, str, str] | None:
    """The namespace that an object to be created must have, as a question to the lookup; None without."""
    if not ctx.info.namespaced or ctx.info.resource in _ACCESS_REVIEWS:
        return None
    return "", "namespaces", "", ctx.request.namespace


def lifecycle(ctx: Context, tree: Tree, old: Tree | None, *, lenient: bool = False) -> Tree:
    """Nothing is created in a namespace that is terminating, or missing unless `lenient`."""
    if old is not None or not ctx.info.namespaced or ctx.info.resource in _ACCESS_REVIEWS:
        return tree
    namespace = ctx.request.namespace
    found = ctx.find("", "namespaces", "", namespace)
    if found is None:
        if lenient:
            return tree
        raise status.not_found(ctx.lookup.info("", "namespaces"), namespace)
    if found.tree.get("status", {}).get("phase") == "Terminating":
        name = tree.get("metadata", {}).get("name", "")
        raise status.forbidden(
            ctx.info,
            name,
            f"unable to create new content in namespace {namespace} because it is being terminated",
            [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ],
        )
    return tree


def protect(ctx: Context, found: Object) -> None:
    """Some namespaces may never be deleted."""
    if ctx.info.resource == "namespaces" and not ctx.info.group and found.name in _IMMORTAL:
        raise status.forbidden(ctx.info, found.name, "this namespace may not be deleted")
