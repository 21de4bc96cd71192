"""From what sources say is there to what changed: the kubelet's configuration mux.

Upstream: pkg/kubelet/config/config.go. A source pushes everything it has; what is new, gone or changed
is reported by uid, so a pod recreated under its name is one that went and one that came.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from controlplane.api.object import Object
from controlplane.api.pod import Pod

API: Final = "api"
FILE: Final = "file"

REMOVE: Final = "REMOVE"
ADD: Final = "ADD"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
RECONCILE: Final = "RECONCILE"
OPERATIONS: Final = (REMOVE, ADD, UPDATE, DELETE, RECONCILE)
"""In the order in which the changes of one push are reported."""

MEANINGFUL: Final = ("labels", "annotations", "deletionTimestamp", "deletionGracePeriodSeconds")


@attrs.frozen
class PodUpdate:
    """Pods of one source that changed in one way."""

    operation: str
    source: str
    pods: tuple[Pod, ...]


def differ_semantically(old: Object[Pod], new: Object[Pod]) -> bool:
    """Return whether more differs than the status. Upstream: podsDifferSemantically."""
    if old.tree.get("spec") != new.tree.get("spec"):
        return True
    before, after = old.metadata, new.metadata
    return any(before.get(key) != after.get(key) for key in MEANINGFUL)


class PodConfig:
    """The last update of each source."""

    def __init__(self, sources: Iterable[str] = (API,)) -> None:
        self._known: dict[str, dict[str, Object[Pod]]] = {source: {} for source in sources}
        self._heard: dict[str, None] = {}

    @property
    def sources(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._known)

    def heard(self, source: str) -> bool:
        """Return whether a source has pushed."""
        return source in self._heard

    def push(self, source: str, pods: Iterable[Object[Pod]]) -> list[PodUpdate]:
        """A source says what it has; the changes, in the order in which they are reported.

        The first push reports something in any case: that the source is there.
        """
        first = source not in self._heard
        self._heard[source] = None
        known = self._known[source]
        now: dict[str, Object[Pod]] = {}
        changes: dict[str, list[Pod]] = {operation: [] for operation in OPERATIONS}
        for obj in pods:
            uid = obj.uid
            now[uid] = obj
            before = known.get(uid)
            if before is obj:
                continue
            changes[_change(before, obj)].append(obj.view)
        changes[REMOVE] = [obj.view for uid, obj in known.items() if uid not in now]
        self._known[source] = now
        return [
            PodUpdate(operation, source, tuple(changed))
            for operation, changed in changes.items()
            if changed or (first and operation == ADD)
        ]

    def change(
        self, source: str, old: Object[Pod] | None, new: Object[Pod] | None
    ) -> list[PodUpdate]:
        """A source says that one object changed, came (`old` None) or went (`new` None)."""
        known = self._known[source]
        found: list[PodUpdate] = []
        if old is not None and (new is None or new.uid != old.uid) and old.uid in known:
            gone = known.pop(old.uid)
            found.append(PodUpdate(REMOVE, source, (gone.view,)))
        if new is not None:
            before = known.get(new.uid)
            known[new.uid] = new
            if before is not new:
                found.append(PodUpdate(_change(before, new), source, (new.view,)))
        return found


def _change(before: Object[Pod] | None, after: Object[Pod]) -> str:
    if before is None:
        return ADD
    if not differ_semantically(before, after):
        return RECONCILE
    return DELETE if after.view.metadata.deletion_timestamp is not None else UPDATE
