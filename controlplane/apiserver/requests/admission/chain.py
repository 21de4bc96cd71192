"""The admission plugins in upstream's order, each with the resources it looks at.

A plugin is a function. Mutating ones answer the tree; validating ones raise `ApiError`. The chain
of each resource is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from controlplane.api.object import Object
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.admission import namespaces, nodes, pods, quota, storage

if TYPE_CHECKING:
    from controlplane.apiserver.requests.server import ApiServer

__all__ = ["DEFAULT_PLUGINS", "Admission"]

Tree = dict[str, Any]
Mutation = Callable[[Context, Tree, "Tree | None"], Tree]
Validation = Callable[[Context, Tree, "Tree | None"], None]

# (plugin, resources it looks at, or None for all)
_MUTATING: tuple[tuple[str, frozenset[str] | None, Mutation], ...] = (
    ("NamespaceLifecycle", None, namespaces.lifecycle),
    ("LimitRanger", frozenset(("pods",)), quota.limit_defaults),
    ("ServiceAccount", frozenset(("pods",)), pods.service_account),
    ("TaintNodesByCondition", frozenset(("nodes",)), nodes.taint_by_condition),
    ("Priority", frozenset(("pods",)), pods.priority),
    ("DefaultTolerationSeconds", frozenset(("pods",)), pods.default_tolerations),
    ("DefaultStorageClass", frozenset(("persistentvolumeclaims",)), storage.default_class),
    ("StorageObjectInUseProtection",
     frozenset(("persistentvolumeclaims", "persistentvolumes", "volumeattributesclasses")),
     storage.protection),
    ("RuntimeClass", frozenset(("pods",)), pods.runtime_class),
    ("DefaultIngressClass", frozenset(("ingresses",)), storage.default_ingress_class),
)  # fmt: skip
_VALIDATING: tuple[tuple[str, frozenset[str] | None, Validation], ...] = (
    ("LimitRanger", frozenset(("pods", "persistentvolumeclaims")), quota.limit_check),
    ("Priority", frozenset(("priorityclasses",)), pods.priority_class_check),
    ("RuntimeClass", frozenset(("pods",)), pods.overhead_check),
    ("PersistentVolumeClaimResize", frozenset(("persistentvolumeclaims",)), storage.resize_check),
    ("ResourceQuota", None, quota.quota_check),
)
DEFAULT_PLUGINS = tuple(dict.fromkeys(name for name, _, _ in (*_MUTATING, *_VALIDATING)))


class Admission:
    """The chain of one server. `disabled` names plugins that are switched off."""

    def __init__(self, server: ApiServer, disabled: Iterable[str] = ()) -> None:
        self._server = server
        self.disabled = frozenset(disabled)
        self._mutating: dict[str, tuple[Mutation, ...]] = {}
        self._validating: dict[str, tuple[Validation, ...]] = {}

    def mutate(self, ctx: Context, tree: Tree, old: Tree | None) -> Tree:
        """The tree after all mutating plugins."""
        resource = ctx.info.resource
        chain = self._mutating.get(resource)
        if chain is None:
            chain = self._mutating[resource] = tuple(
                plugin for name, resources, plugin in _MUTATING
                if name not in self.disabled and (resources is None or resource in resources)
            )  # fmt: skip
        for plugin in chain:
            tree = plugin(ctx, tree, old)
        return tree

    def validate(self, ctx: Context, tree: Tree, old: Tree | None) -> None:
        """Raise if a validating plugin refuses."""
        resource = ctx.info.resource
        chain = self._validating.get(resource)
        if chain is None:
            chain = self._validating[resource] = tuple(
                plugin for name, resources, plugin in _VALIDATING
                if name not in self.disabled and (resources is None or resource in resources)
            )  # fmt: skip
        for plugin in chain:
            plugin(ctx, tree, old)

    def validate_delete(self, ctx: Context, found: Object) -> None:
        """Raise if the object may not be deleted."""
        if "NamespaceLifecycle" not in self.disabled:
            namespaces.protect(ctx, found)
