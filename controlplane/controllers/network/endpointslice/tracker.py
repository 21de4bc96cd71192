"""The generations of slices that this controller wrote. Upstream: endpointslice/util/endpointslice_tracker.go.

A sync that reads slices older than its own last writes would pack endpoints twice or drop them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.controllers.network.endpointslice.packing import SERVICE_NAME, labels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.tree import Tree

_GOING = -1


def service_of(found: Tree) -> str:
    """The key of the service of a slice; the name is "" when its label is missing."""
    return f"{found['metadata'].get('namespace', '')}/{labels_of(found).get(SERVICE_NAME, '')}"


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


def _uid(found: Tree) -> str:
    return str(found["metadata"].get("uid", ""))


def _generation(found: Tree) -> int:
    return int(found["metadata"].get("generation") or 0)
