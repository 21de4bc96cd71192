"""The usage of pods as a controller reads it: by annotations, or by the objects that the host's source goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api import usage
from controlplane.client.resources import NODES, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.controllers.common.controller import Caches, Host

__all__ = ["PodUsage"]


class PodUsage:
    """Readings at the host's time. Without a source nothing is cached for it."""

    def __init__(self, host: Host, caches: Caches) -> None:
        self._host = host
        source = host.usage
        self._nodes = None if source is None else caches.of(NODES)
        kinds = {} if source is None else source.kinds
        self._stored = {kind: caches.of(Resource(*name)) for kind, name in kinds.items()}

    def reading(self) -> usage.Reading:
        """Return the reading of pods as they are now."""
        return usage.reading(self._host.usage, self._node, self._host.now, self._objects)

    def _node(self, name: str) -> Object[Any] | None:
        return None if self._nodes is None else self._nodes.get(name)

    def _objects(self, kind: str) -> Iterable[Tree]:
        return [each.tree for each in self._stored[kind]]
