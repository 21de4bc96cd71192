"""Admission of claims, volumes and ingresses: default classes, protection, growth.

Upstream: plugin/pkg/admission/storage/{storageclass/setdefault,storageobjectinuseprotection,
persistentvolume/resize}, plugin/pkg/admission/network/defaultingressclass.
"""

from __future__ import annotations

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.schema import status

__all__ = ["default_class", "default_ingress_class", "protection", "resize_check"]

_IS_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_INGRESS_DEFAULT = "ingressclass.kubernetes.io/is-default-class"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_FINALIZERS = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
    "volumeattributesclasses": "kubernetes.io/vac-protection",
}


def protection(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """Volumes and claims get the finalizer that keeps them while in use."""
    if old is not None or ctx.request.subresource:
        return tree
    finalizer = _FINALIZERS[ctx.info.resource]
    meta = tree["metadata"]
    had = meta.get("finalizers", [])
    if finalizer in had:
        return tree
    return {**tree, "metadata": {**meta, "finalizers": [*had, finalizer]}}


def _newest_default(ctx: Context, group: str, resource: str, marks: tuple[str, ...]) -> str | None:
    """The default among cluster-wide classes: the newest, then the first by name."""
    found = []
    for obj in ctx.lookup.all(group, resource):
        meta = obj.metadata
        annotations = meta.get("annotations", {})
        if any(annotations.get(mark) == "true" for mark in marks):
            found.append(meta)
    if not found:
        return None
    found.sort(key=lambda meta: meta["name"])
    found.sort(key=lambda meta: meta["creationTimestamp"], reverse=True)
    name: str = found[0]["name"]
    return name


def default_class(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """A claim that names no storage class gets the default one."""
    if old is not None or ctx.request.subresource:
        return tree
    spec = tree["spec"]
    annotations = tree["metadata"].get("annotations", {})
    if "storageClassName" in spec or _BETA_CLASS in annotations:
        return tree
    name = _newest_default(ctx, "storage.k8s.io", "storageclasses", _IS_DEFAULT)
    if name is None:
        return tree
    return {**tree, "spec": {**spec, "storageClassName": name}}


def default_ingress_class(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """An ingress that names no class gets the default one."""
    if old is not None or ctx.request.subresource:
        return tree
    spec = tree.get("spec") or {}
    annotations = tree["metadata"].get("annotations", {})
    if "ingressClassName" in spec or "kubernetes.io/ingress.class" in annotations:
        return tree
    name = _newest_default(ctx, "networking.k8s.io", "ingressclasses", (_INGRESS_DEFAULT,))
    if name is None:
        return tree
    return {**tree, "spec": {**spec, "ingressClassName": name}}


def resize_check(ctx: Context, tree: Tree, old: Tree | None) -> None:
    """Only bound claims of a class that allows it may grow."""
    if old is None or ctx.request.subresource:
        return
    new_size, old_size = _size(tree), _size(old)
    if new_size is None or old_size is None or new_size.cmp(old_size) <= 0:
        return
    name = tree["metadata"]["name"]
    if old.get("status", {}).get("phase") != "Bound":
        raise status.forbidden(
            ctx.info, name, "Only bound persistent volume claims can be expanded"
        )
    if not _may_grow(ctx, tree, old):
        raise status.forbidden(
            ctx.info,
            name,
            "only dynamically provisioned pvc can be resized and the storageclass that provisions "
            "the pvc must support resize",
        )


def _size(tree: Tree) -> quantity.Quantity | None:
    requests = (tree["spec"].get("resources") or {}).get("requests") or {}
    text = requests.get("storage")
    return quantity.parse(text) if text is not None else None


def _may_grow(ctx: Context, tree: Tree, old: Tree) -> bool:
    name = tree["spec"].get("storageClassName") or ""
    was = old["spec"].get("storageClassName") or ""
    if not name or not was:
        return False
    found = ctx.find("storage.k8s.io", "storageclasses", "", name)
    return found is not None and bool(found.tree.get("allowVolumeExpansion"))
