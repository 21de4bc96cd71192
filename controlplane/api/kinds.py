"""The view class of each kind."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from controlplane.api.tree import Tree
from controlplane.api.view import GenericView, View

_MODULES: Final = {
    "v1": ("core", "pod", "node", "service", "events", "claims", "storage"),
    "apps/v1": ("apps",),
    "autoscaling/v2": ("autoscaling",),
    "batch/v1": ("batch",),
    "coordination.k8s.io/v1": ("coordination",),
    "policy/v1": ("policy",),
    "scheduling.k8s.io/v1": ("scheduling",),
    "scheduling.k8s.io/v1alpha2": ("scheduling",),
    "storage.k8s.io/v1": ("storage",),
}

_CLASSES: Final[dict[tuple[str, str], type[View]]] = {}


def view_class(api_version: str, kind: str) -> type[View]:
    """The view class of a kind; `GenericView` for kinds without one of their own."""
    found = _CLASSES.get((api_version, kind))
    if found is None:
        found = _CLASSES[api_version, kind] = _find(api_version, kind)
    return found


def _find(api_version: str, kind: str) -> type[View]:
    for module in _MODULES.get(api_version, ()):
        found = getattr(import_module(f"controlplane.api.{module}"), kind, None)
        if (
            isinstance(found, type)
            and issubclass(found, View)
            and (api_version, kind) == (found.API_VERSION, found.KIND)
        ):
            return found
    return GenericView


def view(tree: Tree, like: View | None = None) -> View:
    """The typed view of a tree that carries its apiVersion and kind.

    `like` is the view of an earlier revision: what its tree shares with this one is taken from it.
    """
    cls = view_class(tree.get("apiVersion") or "", tree.get("kind") or "")
    return cls.from_tree(tree, like if type(like) is cls else None)
