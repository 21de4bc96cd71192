"""Deletions of nodes under way. Upstream: `core/scaledown/deletiontracker/nodedeletiontracker.go`."""

from __future__ import annotations

from controlplane.autoscaler.planner import Ongoing


class DeletionTracker:
    """Names of nodes that are being deleted, empty or drained, with their groups.

    Evicted pods are not remembered: upstream gives them no time to live.
    """

    def __init__(self) -> None:
        self._empty: dict[str, str] = {}
        self._drained: dict[str, str] = {}

    def start(self, group: str, name: str, *, drained: bool) -> None:
        """Note that the deletion of a node begins."""
        (self._drained if drained else self._empty)[name] = group

    def end(self, name: str) -> None:
        """Note that the deletion of a node is over."""
        self._empty.pop(name, None)
        self._drained.pop(name, None)

    def snapshot(self) -> Ongoing:
        """Return the deletions as they are now."""
        counts: dict[str, int] = {}
        for group in (*self._empty.values(), *self._drained.values()):
            counts[group] = counts.get(group, 0) + 1
        return Ongoing(tuple(self._empty), tuple(self._drained), counts)
