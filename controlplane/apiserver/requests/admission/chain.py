"""The admission plugins in upstream's order, each with the resources it is asked about and those that it looks up.

A plugin is a function. Mutating ones answer the tree; validating ones raise `ApiError`. The chain
of each resource is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from attrs import field, frozen

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.admission import (
    certificates,
    namespaces,
    nodes,
    pod_groups,
    pods,
    quota,
    storage,
)
from controlplane.apiserver.requests.admission.pod_security import plugin as pod_security
from controlplane.apiserver.requests.admission.policies.mutating import (
    MutatingPolicies,
    Reinvocation,
)
from controlplane.apiserver.requests.admission.policies.validating import ValidatingPolicies
from controlplane.apiserver.requests.admission.webhooks import Webhooks
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.storage.transactions import Get, Live, Steps

__all__ = ["DEFAULT_PLUGINS", "PLUGINS", "Admission", "Plugin", "Wanted"]

Wanted = tuple[str, str, str, str]
"""Group, resource, namespace and name of an object."""
Mutation = Callable[[Context, Tree, "Tree | None"], Tree]
Validation = Callable[[Context, Tree, "Tree | None"], None]


def _of_resources(names: Iterable[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


@frozen
class Plugin:
    """An admission plugin.

    Args:
        name: upstream's.
        call: the function.
        resources: of whose requests it is asked; None for all.
        looks_up: the resources of other objects on which its answer depends. A request to write one of these
            meets every other write (`requests.looked_up`): whatever is missing here is an interleaving that no
            search sees.
    """

    name: str
    call: Callable[..., Any]
    resources: frozenset[str] | None = field(default=None, converter=_of_resources)
    looks_up: tuple[str, ...] = ()


_MUTATING = (
    Plugin("NamespaceLifecycle", namespaces.lifecycle, None, ("namespaces",)),
    Plugin("LimitRanger", quota.limit_defaults, ("pods",), ("limitranges",)),
    Plugin("ServiceAccount", pods.service_account, ("pods",), ("serviceaccounts",)),
    Plugin("TaintNodesByCondition", nodes.taint_by_condition, ("nodes",)),
    Plugin("Priority", pods.priority, ("pods",), ("priorityclasses",)),
    Plugin("Priority", pod_groups.priority, ("podgroups",), ("priorityclasses",)),
    Plugin("DefaultTolerationSeconds", pods.default_tolerations, ("pods",)),
    Plugin(
        "DefaultStorageClass",
        storage.default_class,
        ("persistentvolumeclaims",),
        ("storageclasses",),
    ),
    Plugin(
        "StorageObjectInUseProtection",
        storage.protection,
        ("persistentvolumeclaims", "persistentvolumes", "volumeattributesclasses"),
    ),
    Plugin("PodGroupProtection", pod_groups.protection, ("podgroups",)),
    Plugin("RuntimeClass", pods.runtime_class, ("pods",), ("runtimeclasses",)),
    Plugin(
        "DefaultIngressClass", storage.default_ingress_class, ("ingresses",), ("ingressclasses",)
    ),
)
_SIGNING = ("certificatesigningrequests",)
# Pod Security looks at a namespace's pods, too, but only when the namespace is written; that meets every write anyway.
_VALIDATING = (
    Plugin("LimitRanger", quota.limit_check, ("pods", "persistentvolumeclaims"), ("limitranges",)),
    Plugin("PodSecurity", pod_security.check, pod_security.RESOURCES, ("namespaces",)),
    Plugin("Priority", pods.priority_class_check, ("priorityclasses",), ("priorityclasses",)),
    Plugin("RuntimeClass", pods.overhead_check, ("pods",), ("runtimeclasses",)),
    Plugin(
        "PersistentVolumeClaimResize",
        storage.resize_check,
        ("persistentvolumeclaims",),
        ("storageclasses",),
    ),
    Plugin("PodGroupWorkloadExists", pod_groups.workload_exists, ("podgroups",), ("workloads",)),
    Plugin("JobValidation", pod_groups.job_parallelism, ("jobs",), ("podgroups",)),
    Plugin("CertificateApproval", certificates.approval, _SIGNING),
    Plugin("CertificateSigning", certificates.signing, _SIGNING),
    Plugin("CertificateSubjectRestriction", certificates.restrict_subject, _SIGNING),
)
_QUOTA = Plugin("ResourceQuota", quota.concerned, None, ("resourcequotas",))
PLUGINS = (*_MUTATING, *_VALIDATING, _QUOTA)
MUTATING, VALIDATING = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"
CHANGING, JUDGING = "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"
DEFAULT_PLUGINS = (
    *dict.fromkeys(plugin.name for plugin in (*_MUTATING, *_VALIDATING)),
    MUTATING,
    CHANGING,
    VALIDATING,
    JUDGING,
    _QUOTA.name,
)
OWN_ENDPOINTS = {
    **dict.fromkeys(("binding", "eviction", "token"), "CREATE"),
    **dict.fromkeys(("exec", "attach", "portforward", "proxy"), "CONNECT"),
}
"""Subresources of which policies see the request's own body, before anything is done."""


def _plugins_key(ctx: Context) -> str:
    """Return the built-in resource of a request; a custom resource of the same name has no plugin of its own."""
    return "" if ctx.info.custom is not None else ctx.info.resource


class Admission:
    """The chain of one server.

    `disabled` names plugins that are switched off. With `auto_namespaces` objects may be created in
    namespaces that do not exist. If the `lookup_lags` behind the store, what it does not know is asked
    of the store. `mutating` policies are asked after the plugins that mutate, `policies` after all. `minor` is
    the release: what the newest standards for pods are. `access` is the authorizer that plugins ask.
    """

    def __init__(
        self,
        disabled: Iterable[str] = (),
        *,
        auto_namespaces: bool = False,
        lookup_lags: bool = False,
        policies: ValidatingPolicies | None = None,
        minor: int = 36,
        webhooks: Webhooks | None = None,
        mutating: MutatingPolicies | None = None,
        access: Access | None = None,
    ) -> None:
        self.disabled = frozenset(disabled)
        self._minor = minor
        self._access = access
        self._hooks = webhooks
        self._calls = {
            name: webhooks is not None and name not in self.disabled for name in (CHANGING, JUDGING)
        }
        self._mutations = None if MUTATING in self.disabled else mutating
        self._policies = None if VALIDATING in self.disabled else policies
        self._auto_namespaces = auto_namespaces
        self._mutating: dict[str, tuple[Mutation, ...]] = {}
        self._validating: dict[str, tuple[Validation, ...]] = {}
        self._lifecycle = "NamespaceLifecycle" not in self.disabled
        self._fetches = lookup_lags and self._lifecycle
        self._charges = _QUOTA.name not in self.disabled

    def missing(self, ctx: Context) -> Wanted | None:
        """Return the object that a creation needs and the lookup lacks: to be fetched from the store."""
        if not self._fetches:
            return None
        wanted = namespaces.home(ctx)
        return None if wanted is None or ctx.find(*wanted) is not None else wanted

    def fetch(self, ctx: Context, wanted: Wanted) -> Steps[None]:
        """Read what the lookup did not know."""
        group, resource, namespace, name = wanted
        prefix = ctx.lookup.info(group, resource).storage_prefix
        found: Live | None = yield Get(prefix, f"{namespace}/{name}" if namespace else name)
        if found is not None:
            ctx.fetched = {**(ctx.fetched or {}), wanted: found.object}

    def mutate(self, ctx: Context, tree: Tree, old: Tree | None) -> Tree:
        """The tree after all mutating plugins and policies; webhooks are asked later, in steps.

        Where none are, the second round follows at once.
        """
        tree = self._plugged(ctx, tree, old)
        if self._mutations is None or not self._mutations.source.hooks:
            return tree
        state = ctx.reinvocation = Reinvocation()
        tree = self._mutations.mutate(ctx, tree, old, state)
        if state.wanted and not self.asks():
            tree = self._again(ctx, tree, old)
        return tree

    def _again(self, ctx: Context, tree: Tree, old: Tree | None) -> Tree:
        """The second round of plugins and policies."""
        tree = self._plugged(ctx, tree, old)
        if self._mutations is not None and isinstance(ctx.reinvocation, Reinvocation):
            ctx.reinvocation.second = True
            tree = self._mutations.mutate(ctx, tree, old, ctx.reinvocation)
        return tree

    def _plugged(self, ctx: Context, tree: Tree, old: Tree | None) -> Tree:
        resource = _plugins_key(ctx)
        chain = self._mutating.get(resource)
        if chain is None:
            chain = self._mutating[resource] = tuple(
                self._bound(plugin.call) for plugin in self._running(_MUTATING, resource)
            )
        for plugin in chain:
            tree = plugin(ctx, tree, old)
        return tree

    def _running(self, plugins: Iterable[Plugin], resource: str) -> Iterator[Plugin]:
        for plugin in plugins:
            asked = plugin.resources is None or resource in plugin.resources
            if asked and plugin.name not in self.disabled:
                yield plugin

    def _bound(self, plugin: Mutation) -> Mutation:
        if plugin is namespaces.lifecycle:
            return partial(namespaces.lifecycle, lenient=self._auto_namespaces)
        if plugin is pods.service_account:
            return partial(pods.service_account, volumes=pods.TokenVolumes())
        return plugin

    def _checking(self, plugin: Callable[..., None]) -> Validation:
        if plugin is pod_security.check:
            return partial(pod_security.check, newest=self._minor)
        if plugin in (certificates.approval, certificates.signing):
            return partial(plugin, access=self._access)
        return plugin

    def validate(self, ctx: Context, tree: Tree, old: Tree | None) -> None:
        """Raise if a validating plugin refuses; quotas come after it."""
        resource = _plugins_key(ctx)
        chain = self._validating.get(resource)
        if chain is None:
            chain = self._validating[resource] = tuple(
                self._checking(plugin.call) for plugin in self._running(_VALIDATING, resource)
            )
        for plugin in chain:
            plugin(ctx, tree, old)
        if self._policies is not None and ctx.request.subresource not in OWN_ENDPOINTS:
            if ctx.admitted_as is not None:
                tree, old = ctx.admitted_as(tree), old and ctx.admitted_as(old)
            self._policies.check(ctx, tree, old)

    def check_endpoint(self, ctx: Context) -> None:
        """Raise if a policy refuses what an endpoint does that writes no object of its own kind."""
        if self._policies is not None:
            operation = OWN_ENDPOINTS.get(ctx.request.subresource)
            if operation is not None:
                self._policies.check_endpoint(ctx, operation)

    def asks(self) -> bool:
        """Return whether some webhook may have to be called."""
        return self._hooks is not None and self._hooks.stored()

    def ask_to_change(self, ctx: Context, tree: Tree, old: Tree | None) -> Steps[Tree]:
        """The tree after all mutating webhooks."""
        changed = isinstance(ctx.reinvocation, Reinvocation) and ctx.reinvocation.wanted
        if self._hooks is None or not self._calls[CHANGING]:
            return self._again(ctx, tree, old) if changed else tree
        return (yield from self._hooks.mutate(ctx, tree, old, self._again, changed=changed))

    def ask(self, ctx: Context, tree: Tree | None, old: Tree | None) -> Steps[None]:
        """Raise if a validating webhook refuses; `tree` is None for a deletion."""
        if self._hooks is None or not self._calls[JUDGING]:
            return
        if ctx.request.subresource not in OWN_ENDPOINTS:
            yield from self._hooks.validate(ctx, tree, old)

    def quotas(self, ctx: Context, old: Tree | None) -> list[Object]:
        """The quotas that are to be charged with a write."""
        return quota.concerned(ctx, old) if self._charges else []

    def validate_delete(self, ctx: Context, found: Object) -> None:
        """Raise if the object may not be deleted."""
        if self._lifecycle:
            namespaces.protect(ctx, found)
        if self._policies is not None and not ctx.request.subresource:
            self._policies.check(ctx, None, found.tree)
