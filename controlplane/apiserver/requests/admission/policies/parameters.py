"""The objects that a binding hands to its policy. Upstream: policy/generic, CollectParams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from controlplane.api.labels import SelectorError
from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.apiserver.requests.admission.policies.attributes import in_version
from controlplane.apiserver.requests.admission.policies.matching import selector_of
from controlplane.apiserver.schema.resources import ResourceInfo

__all__ = ["ConfigurationError", "Parameters", "Shelf", "collected"]


class ConfigurationError(Exception):
    """A policy or binding that cannot be asked as it is."""


class Shelf(Protocol):
    """Objects of any resource, custom ones too, as the server knows them."""

    def read(self, info: ResourceInfo, namespace: str, name: str) -> Object | None:
        """One object, or None."""

    def read_within(self, info: ResourceInfo, namespace: str) -> list[Object]:
        """The objects of a namespace ("" for all), by name."""


class Parameters:
    """The informers of parameters, shared by both kinds of policies.

    A custom kind has an informer for as long as a policy needs it. A built-in kind has one of the server's informer
    factory, which never starts an informer again: when the policy source that started it has no policy with such
    parameters any more, it stops, and what it knew then is what all later policies are asked with. Kinds of `own`
    have informers that the server runs for itself; these never stop.
    Upstream: policy_source.go, ensureParamsForPolicyLocked and the clean-up in calculatePolicyData.
    """

    def __init__(self, shelf: Shelf, own: frozenset[str]) -> None:
        self._shelf = shelf
        self._own: Final = own
        self._started: dict[str, tuple[ResourceInfo, str]] = {}
        self._stopped: dict[str, dict[tuple[str, str], Object]] = {}

    def need(self, source: str, kinds: Iterable[ResourceInfo]) -> None:
        """Run the informers of the kinds that the policies of one source need, and stop those of no use to it."""
        needed = {info.storage_prefix: info for info in kinds if self._is_shared(info)}
        for prefix, info in needed.items():
            self._started.setdefault(prefix, (info, source))
        for prefix, (info, starter) in self._started.items():
            if starter == source and prefix not in needed and prefix not in self._stopped:
                self.stop(info)

    def stop(self, info: ResourceInfo) -> None:
        """Stop the informer of a built-in kind, for as long as the server runs."""
        known = self._shelf.read_within(info, "")
        self._stopped[info.storage_prefix] = {(obj.namespace, obj.name): obj for obj in known}

    def _is_shared(self, info: ResourceInfo) -> bool:
        return info.custom is None and info.resource not in self._own

    def read(self, info: ResourceInfo, namespace: str, name: str) -> Object | None:
        """One object as the informer of its kind has it, or None."""
        stopped = self._stopped.get(info.storage_prefix)
        if stopped is None:
            return self._shelf.read(info, namespace, name)
        return stopped.get((namespace, name))

    def read_within(self, info: ResourceInfo, namespace: str) -> list[Object]:
        """The objects of a namespace ("" for all) as the informer of their kind has them, by name."""
        stopped = self._stopped.get(info.storage_prefix)
        if stopped is None:
            return self._shelf.read_within(info, namespace)
        return [obj for (home, _), obj in stopped.items() if not namespace or home == namespace]


def collected(
    shelf: Shelf, kind: ResourceInfo | None, reference: Tree | None, namespace: str
) -> list[Tree | None]:
    """The parameters, each of them to be asked with; [None] where there is nothing to hand over.

    `kind` is what the policy's parameters are, None for a policy without. ConfigurationError.
    """
    if kind is None or reference is None:
        return [None]
    where = reference.get("namespace", "")
    if kind.namespaced:
        where = where or namespace
        if not where:
            raise ConfigurationError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped "
                "resources"
            )
    elif where:
        raise ConfigurationError(
            "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
        )
    name = reference.get("name", "")
    if name:
        found = shelf.read(kind, where, name)
        objects = [] if found is None else [found]
    else:
        try:
            selector = selector_of(reference.get("selector"))
        except SelectorError as error:
            raise ConfigurationError(str(error)) from None
        objects = [
            obj
            for obj in shelf.read_within(kind, where)
            if selector.matches(obj.metadata.get("labels") or {})
        ]
    if not objects and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError(
            "no params found for policy binding with `Deny` parameterNotFoundAction"
        )
    return [in_version(kind, obj.tree) for obj in objects]
