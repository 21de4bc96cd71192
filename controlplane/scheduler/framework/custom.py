"""Custom kinds: those that plugins read, and those whose events they register.

Upstream: `buildEvtResHandler` and the dynamic informers of `pkg/scheduler/eventhandlers.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

import attrs

from controlplane.api.tree import Tree
from controlplane.client.resources import Resource

__all__ = ["NO_OBJECTS", "CustomKind", "CustomObjects", "Tree", "resource_of_event"]


@attrs.frozen
class CustomKind:
    """A custom kind with its resource."""

    kind: str
    resource: Resource[Any]

    @property
    def event(self) -> str:
        """Return the resource's name in events."""
        return self.resource.full_name


def resource_of_event(name: str) -> Resource[Any] | None:
    """Return the custom resource that a registered event names, None for a kind of Kubernetes."""
    if name.count(".") < 2 or "/" in name:
        return None
    plural, version, group = name.split(".", 2)
    return Resource(group, version, plural)


class CustomObjects(Protocol):
    """Objects of custom kinds. Cluster-scoped ones have the namespace ""."""

    def get(self, kind: str, namespace: str, name: str) -> Tree | None:
        """Return the object, None if there is none."""

    def list(self, kind: str) -> Iterable[Tree]:
        """Return all objects of a kind, in a stable order."""


@attrs.frozen
class _Nothing:
    def get(self, kind: str, namespace: str, name: str) -> Tree | None:
        return None

    def list(self, kind: str) -> Iterable[Tree]:
        return ()


NO_OBJECTS: Final[CustomObjects] = _Nothing()
