"""The objects that a binding hands to its policy. Upstream: policy/generic, CollectParams."""

from __future__ import annotations

from typing import Protocol

from controlplane.api.labels import SelectorError
from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.apiserver.requests.admission.policies.attributes import in_version
from controlplane.apiserver.requests.admission.policies.matching import selector_of
from controlplane.apiserver.schema.resources import ResourceInfo

__all__ = ["ConfigurationError", "Shelf", "collected"]


class ConfigurationError(Exception):
    """A policy or binding that cannot be asked as it is."""


class Shelf(Protocol):
    """Objects of any resource, custom ones too, as the server knows them."""

    def read(self, info: ResourceInfo, namespace: str, name: str) -> Object | None:
        """One object, or None."""

    def read_within(self, info: ResourceInfo, namespace: str) -> list[Object]:
        """The objects of a namespace ("" for all), by name."""


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
