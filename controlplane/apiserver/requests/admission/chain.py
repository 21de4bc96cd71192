"""The admission plugins in upstream's order, each with the resources it looks at.

A plugin is a function. Mutating ones answer the tree; validating ones raise `ApiError`. The chain
of each resource is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from controlplane.api.object import Object
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.admission import namespaces, nodes, pods, quota, storage
from controlplane.apiserver.storage.transactions import Get, Steps

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
)
DEFAULT_PLUGINS = (
    *dict.fromkeys(name for name, _, _ in (*_MUTATING, *_VALIDATING)), "ResourceQuota",
)  # fmt: skip


class Admission:
    """The chain of one server.

    `disabled` names plugins that are switched off. With `auto_namespaces` objects may be created in
    namespaces that do not exist.
    """

    def __init__(self, disabled: Iterable[str] = (), *, auto_namespaces: bool = False) -> None:
        self.disabled = frozenset(disabled)
        self._auto_namespaces = auto_namespaces
        self._mutating: dict[str, tuple[Mutation, ...]] = {}
        self._validating: dict[str, tuple[Validation, ...]] = {}
        self._charges = "ResourceQuota" not in self.disabled

    def fetch(self, ctx: Context) -> Steps[None]:
        """Read from the store what a creation needs and the lookup does not know (yet)."""
        wanted = [namespaces.home(ctx)] if "NamespaceLifecycle" not in self.disabled else []
        for key in wanted:
            if key is None or ctx.find(*key) is not None:
                continue
            prefix = ctx.lookup.info(key[0], key[1]).storage_prefix
            found = yield Get(prefix, f"{key[2]}/{key[3]}" if key[2] else key[3])
            if found is not None:
                ctx.fetched = {**(ctx.fetched or {}), key: found.object}

    def mutate(self, ctx: Context, tree: Tree, old: Tree | None) -> Tree:
        """The tree after all mutating plugins."""
        resource = ctx.info.resource
        chain = self._mutating.get(resource)
        if chain is None:
            chain = self._mutating[resource] = tuple(
                self._bound(plugin) for name, resources, plugin in _MUTATING
                if name not in self.disabled and (resources is None or resource in resources)
            )  # fmt: skip
        for plugin in chain:
            tree = plugin(ctx, tree, old)
        return tree

    def _bound(self, plugin: Mutation) -> Mutation:
        if plugin is namespaces.lifecycle:
            return partial(namespaces.lifecycle, lenient=self._auto_namespaces)
        return plugin

    def validate(self, ctx: Context, tree: Tree, old: Tree | None) -> Steps[None]:
        """Raise if a validating plugin refuses; write up what quotas count."""
        resource = ctx.info.resource
        chain = self._validating.get(resource)
        if chain is None:
            chain = self._validating[resource] = tuple(
                plugin for name, resources, plugin in _VALIDATING
                if name not in self.disabled and (resources is None or resource in resources)
            )  # fmt: skip
        for plugin in chain:
            plugin(ctx, tree, old)
        if self._charges:
            yield from quota.charge(ctx, tree, old)

    def validate_delete(self, ctx: Context, found: Object) -> None:
        """Raise if the object may not be deleted."""
        if "NamespaceLifecycle" not in self.disabled:
            namespaces.protect(ctx, found)
