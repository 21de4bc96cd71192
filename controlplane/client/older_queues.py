"""The delta queues before AtomicFIFO. Upstream: client-go tools/cache/delta_fifo.go and the_real_fifo.go.

Both break a relist into many deltas, which are popped one by one, and find out what was deleted
when the list comes, by comparing it with what is queued and with what the informer's store holds
at that moment. Between two pops readers of the store see neither the old state nor the new one.

`DeltaFifo` (InOrderInformers off, default before 1.33) keeps the deltas of each key together: a key
keeps its place in the line, and all that is known of it is popped at once. So what happened to
different keys is told in another order than it happened.
`RealFifo` (1.33 to 1.35) keeps the order of arrival.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic

from controlplane.api.generic import V
from controlplane.client.deltas import (
    BATCH_MAX,
    DELETED,
    QUIET,
    REPLACED,
    SYNC,
    TOMBSTONE,
    Delta,
    DeltaQueue,
)

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.client.features import ClientFeatures
    from controlplane.client.indexer import Indexer
    from controlplane.gates import FixGates

GONE = (DELETED, TOMBSTONE)


def queue_of(
    features: ClientFeatures, known: Indexer[V]
) -> DeltaQueue[V] | RealFifo[V] | DeltaFifo[V]:
    """The queue that a release's client library has. `known` is the store behind it."""
    if features.generation == "DeltaFIFO":
        return DeltaFifo(known, features.fixes)
    if features.generation == "RealFIFO":
        return RealFifo(known, batches=features.batch_process)
    return DeltaQueue()


class RealFifo(Generic[V]):
    """Single deltas in the order of arrival. `synced` once everything of the first list was popped."""

    __slots__ = ("_batches", "_deltas", "_initial", "_known", "_populated")

    def __init__(self, known: Indexer[V], *, batches: bool) -> None:
        self._known = known
        self._batches = batches
        self._deltas: deque[Delta[V]] = deque()
        self._populated = False
        self._initial = 0

    def __len__(self) -> int:
        return len(self._deltas)

    @property
    def synced(self) -> bool:
        """Return whether the first list has been popped whole."""
        return self._populated and self._initial == 0

    def add(self, delta: Delta[V]) -> None:
        """Queue one delta."""
        self._deltas.append(delta)

    def bookmark(self, resource_version: str) -> None:
        """Nothing: only the reflector knows how far it has heard."""

    def replace(self, objects: tuple[Object[V], ...], resource_version: str) -> None:
        """Queue what a list says: first what is gone, then what is there."""
        listed = {obj.key: None for obj in objects}
        last: dict[str, Delta[V]] = {}
        for delta in self._deltas:
            assert delta.obj is not None
            last[delta.obj.key] = delta
        for key, delta in last.items():
            if key not in listed and delta.type not in GONE:
                self._deltas.append(Delta(TOMBSTONE, delta.obj))
        for obj in self._known:
            if obj.key not in listed and obj.key not in last:
                self._deltas.append(Delta(TOMBSTONE, obj))
        self._deltas.extend(Delta(REPLACED, obj, (), resource_version) for obj in objects)
        if not self._populated:
            self._populated = True
            self._initial = len(self._deltas)

    def resync(self) -> None:
        """Queue what the store holds, but for keys about which something is queued."""
        queued = {delta.obj.key: None for delta in self._deltas if delta.obj is not None}
        self._deltas.extend(Delta(SYNC, obj) for obj in self._known if obj.key not in queued)

    def pop_batch(self) -> list[Delta[V]]:
        """The next delta; with batches, up to 1000 with different keys."""
        batch: list[Delta[V]] = []
        keys: dict[str, None] = {}
        limit = BATCH_MAX if self._batches else 1
        while self._deltas and len(batch) < limit:
            obj = self._deltas[0].obj
            assert obj is not None
            if obj.key in keys:
                break
            keys[obj.key] = None
            batch.append(self._deltas.popleft())
        self._initial = max(0, self._initial - len(batch))
        return batch


class DeltaFifo(Generic[V]):
    """All deltas of a key together, keys in the order in which they were first queued.

    Gates: without 83911 an object that is listed while its deletion is still queued is dropped;
    without 86015 what a list brings passes for a resync, so handlers are not told what changed;
    without 115620 a list does not look at what is queued, so an object whose addition is queued and
    whose deletion was missed stays for ever.
    """

    __slots__ = ("_fixes", "_initial", "_items", "_known", "_populated")

    def __init__(self, known: Indexer[V], fixes: FixGates) -> None:
        self._known = known
        self._fixes = fixes
        self._items: dict[str, list[Delta[V]]] = {}
        self._populated = False
        self._initial = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def synced(self) -> bool:
        """Return whether every key of the first list has been popped."""
        return self._populated and self._initial == 0

    def add(self, delta: Delta[V]) -> None:
        """Queue one delta. The deletion of an unknown object is dropped."""
        assert delta.obj is not None
        key = delta.obj.key
        if delta.type == DELETED and key not in self._items and key not in self._known:
            return
        self._queue(key, delta)

    def bookmark(self, resource_version: str) -> None:
        """Nothing: only the reflector knows how far it has heard."""

    def _queue(self, key: str, delta: Delta[V]) -> None:
        """Put a delta behind those of its key. Of two deletions in a row one is kept, the better known."""
        deltas = self._items.setdefault(key, [])
        if deltas and deltas[-1].type in GONE and delta.type in GONE:
            if delta.type == DELETED:
                deltas[-1] = delta
            return
        deltas.append(delta)

    def replace(self, objects: tuple[Object[V], ...], resource_version: str) -> None:
        """Queue what a list says: what is there, then what is gone."""
        listed = {obj.key: None for obj in objects}
        kind = REPLACED if self._fixes.fixed("86015") else QUIET
        for obj in objects:
            queued = self._items.get(obj.key)
            if queued and queued[-1].type in GONE and not self._fixes.fixed("83911"):
                continue
            self._queue(obj.key, Delta(kind, obj, (), resource_version))
        looks = self._fixes.fixed("115620")
        gone = 0
        if looks:
            for key, deltas in self._items.items():
                if key not in listed:
                    gone += 1
                    self._queue(key, Delta(TOMBSTONE, deltas[-1].obj))
        for obj in self._known:
            if obj.key not in listed and not (looks and obj.key in self._items):
                gone += 1
                self._queue(obj.key, Delta(TOMBSTONE, obj))
        if not self._populated:
            self._populated = True
            self._initial = len(listed) + gone

    def resync(self) -> None:
        """Queue what the store holds, but for keys about which something is queued."""
        for obj in self._known:
            if obj.key not in self._items:
                self._queue(obj.key, Delta(SYNC, obj))

    def pop_batch(self) -> list[Delta[V]]:
        """Everything about the next key."""
        key = next(iter(self._items))
        self._initial = max(0, self._initial - 1)
        return self._items.pop(key)
