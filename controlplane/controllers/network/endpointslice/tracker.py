"""The generations of slices that this controller wrote. Upstream: endpointslice/util/endpointslice_tracker.go.

A sync that reads slices older than its own last writes would pack endpoints twice or drop them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.controllers.common.controller import Handlers
from controlplane.controllers.network.endpointslice.packing import (
    MANAGED_BY,
    SERVICE_NAME,
    labels_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.api.object import Object
    from controlplane.api.tree import Tree

_GOING = -1


def service_of(found: Tree) -> str:
    """The key of the service of a slice; the name is "" when its label is missing."""
    return f"{found['metadata'].get('namespace', '')}/{labels_of(found).get(SERVICE_NAME, '')}"


def service_name(found: Tree) -> str:
    """The name of the service of a slice, "" when its label is missing."""
    return str(labels_of(found).get(SERVICE_NAME, ""))


def managed_by(found: Tree, manager: str) -> bool:
    """Return whether a slice is a controller's own, by its label."""
    return labels_of(found).get(MANAGED_BY) == manager


class SliceTracker:
    """By service and uid of the slice: the generation that was written, or that its deletion is expected."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, int]] = {}

    def _of(self, found: Tree) -> dict[str, int]:
        return self._services.get(service_of(found), {})

    def knows(self, found: Tree) -> bool:
        """Return whether this slice was written, or deleted, by this controller."""
        return _uid(found) in self._of(found)

    def is_news(self, found: Tree) -> bool:
        """Return whether a slice is not as this controller wrote it last."""
        known = self._of(found).get(_uid(found))
        return known is None or _generation(found) > known

    def stale(self, service: str, slices: Sequence[Tree]) -> bool:
        """Return whether these slices, from the cache, lag behind what was written."""
        known = self._services.get(service)
        if known is None:
            return False
        seen = {_uid(found): _generation(found) for found in slices}
        return any(
            uid in seen if generation == _GOING else seen.get(uid, -1) < generation
            for uid, generation in known.items()
        )

    def written(self, found: Tree) -> None:
        """A slice was written; this is the server's answer."""
        self._services.setdefault(service_of(found), {})[_uid(found)] = _generation(found)

    def expect_deletion(self, found: Tree) -> None:
        """A slice was deleted."""
        self._services.setdefault(service_of(found), {})[_uid(found)] = _GOING

    def deleted(self, found: Tree) -> bool:
        """A slice is gone from the cache; whether that was expected."""
        return self._of(found).pop(_uid(found), _GOING) == _GOING

    def forget(self, service: str) -> None:
        """A service is gone."""
        self._services.pop(service, None)


class SliceHandlers:
    """Event handlers for EndpointSlices: queue the Services whose slices differ from what the controller wrote.

    Args:
        tracker: the generations that the controller wrote.
        manager: the controller's name in the label of its slices.
        ask: adds the key of a Service to the controller's queue.
    """

    def __init__(self, tracker: SliceTracker, manager: str, ask: Callable[[str], None]) -> None:
        self._tracker = tracker
        self._manager = manager
        self._ask = ask

    def handlers(self) -> Handlers:
        """The handlers of slices."""
        return Handlers(self._added, self._updated, lambda obj, _: self._deleted(obj))

    def _is_news(self, tree: Tree) -> bool:
        return managed_by(tree, self._manager) and self._tracker.is_news(tree)

    def _added(self, obj: Object[Any]) -> None:
        if self._is_news(obj.tree):
            self._look_at(obj.tree)

    def _updated(self, old: Object[Any], new: Object[Any]) -> None:
        before, after = old.tree, new.tree
        if service_name(before) != service_name(after):
            self._look_at(after)
            self._look_at(before)
        elif managed_by(before, self._manager) != managed_by(after, self._manager) or (
            self._is_news(after)
        ):
            self._look_at(after)

    def _deleted(self, obj: Object[Any]) -> None:
        tree, tracker = obj.tree, self._tracker
        if managed_by(tree, self._manager) and tracker.knows(tree) and not tracker.deleted(tree):
            self._look_at(tree)

    def _look_at(self, tree: Tree) -> None:
        if service_name(tree):
            self._ask(service_of(tree))


def _uid(found: Tree) -> str:
    return str(found["metadata"].get("uid", ""))


def _generation(found: Tree) -> int:
    return int(found["metadata"].get("generation") or 0)
