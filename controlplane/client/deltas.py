"""The queue between reflector and informer: single deltas in arrival order, replacement as one atomic delta.

This is upstream's newest form (AtomicFIFO, default since 1.36): nothing is merged; a relist is one
`REPLACED_ALL`, which is reconciled against the store when it is popped. Consecutive deltas with
different keys are popped as one batch, and are one transaction of the store. Upstream: client-go
tools/cache/the_real_fifo.go. The forms before it stand in `older_queues`; `apply` serves them all.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple

from controlplane.api.generic import V, V_co

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.client.indexer import Indexer

ADDED = "Added"
UPDATED = "Updated"
DELETED = "Deleted"
TOMBSTONE = "DeletedFinalStateUnknown"
REPLACED = "Replaced"
SYNC = "Sync"
QUIET = "Sync of a list"
"""The delta of a list where it passes for a resync (gate 86015): it reaches no handler."""
REPLACED_ALL = "ReplacedAll"
SYNC_ALL = "SyncAll"
BOOKMARK = "Bookmark"
BATCH_MAX = 1000


class Delta(NamedTuple, Generic[V_co]):
    """One change as the reflector heard it, or found it out.

    `objects` is for REPLACED_ALL. TOMBSTONE is a deletion that was missed: `obj` is the last that
    was heard of it.
    """

    type: str
    obj: Object[V_co] | None
    objects: tuple[Object[V_co], ...] = ()
    resource_version: str = ""


class Notification(NamedTuple, Generic[V_co]):
    """The argument of a handler: an add (no `old`), an update, or a delete (no `new`).

    `final_state_unknown` marks a delete that was missed: `old` is what the store last held, maybe
    stale. `initial` marks the adds of the first list.
    """

    old: Object[V_co] | None
    new: Object[V_co] | None
    final_state_unknown: bool = False
    initial: bool = False


class DeltaQueue(Generic[V]):
    """Deltas waiting to be processed."""

    __slots__ = ("_deltas", "synced")

    def __init__(self) -> None:
        self._deltas: deque[Delta[V]] = deque()
        self.synced = False

    def __len__(self) -> int:
        return len(self._deltas)

    def add(self, delta: Delta[V]) -> None:
        """Queue one delta."""
        self._deltas.append(delta)

    def replace(self, objects: tuple[Object[V], ...], resource_version: str) -> None:
        """Queue that this is all there is."""
        self._deltas.append(Delta(REPLACED_ALL, None, objects, resource_version))

    def bookmark(self, resource_version: str) -> None:
        """Queue how far the reflector has heard."""
        self._deltas.append(Delta(BOOKMARK, None, (), resource_version))

    def resync(self) -> None:
        """Queue that handlers are to be told of everything again."""
        self._deltas.append(Delta(SYNC_ALL, None))

    def pop_batch(self) -> list[Delta[V]]:
        """The next batch: up to 1000 deltas with different keys, or one that is not batchable."""
        self.synced = True
        if len(self._deltas) == 1:
            return [self._deltas.popleft()]
        batch: list[Delta[V]] = []
        keys: dict[str, None] = {}
        deltas = self._deltas
        while deltas and len(batch) < BATCH_MAX:
            delta = deltas[0]
            if delta.obj is None or delta.type == BOOKMARK:
                if not batch:
                    batch.append(deltas.popleft())
                return batch
            key = delta.obj.key
            if key in keys:
                return batch
            keys[key] = None
            batch.append(deltas.popleft())
        return batch


def apply(batch: list[Delta[V]], store: Indexer[V], *, initial: bool) -> list[Notification[V]]:
    """Bring the store up to a batch; what the handlers are to be told, in order.

    An object deleted and created again under its name while the watch was down comes out as ONE
    update with two different uids, as upstream.
    """
    notifications: list[Notification[V]] = []
    for delta in batch:
        if delta.type == REPLACED_ALL:
            notifications += _replace(delta, store, initial=initial)
        elif delta.type == BOOKMARK:
            store.resource_version = delta.resource_version
        elif delta.type == SYNC_ALL:
            notifications += [Notification(obj, obj) for obj in store]
        else:
            assert delta.obj is not None
            if delta.resource_version:
                store.resource_version = delta.resource_version
            if delta.type == DELETED:
                store.remove(delta.obj.key)
                notifications.append(Notification(delta.obj, None))
            elif delta.type == TOMBSTONE:
                store.remove(delta.obj.key)
                notifications.append(Notification(delta.obj, None, final_state_unknown=True))
            else:
                old = store.put(delta.obj)
                if _is_news(old, delta.obj):
                    if old is None or delta.type != QUIET:
                        notifications.append(Notification(old, delta.obj, False, initial))
                elif delta.type == SYNC:
                    notifications.append(Notification(old, delta.obj, False, initial))
    return notifications


def _replace(delta: Delta[V], store: Indexer[V], *, initial: bool) -> list[Notification[V]]:
    before = {obj.key: obj for obj in store}
    store.replace(delta.objects)
    store.resource_version = delta.resource_version
    gone = [
        Notification(obj, None, final_state_unknown=True)
        for key, obj in before.items()
        if key not in store
    ]
    there = [
        Notification(old, obj, initial=initial)
        for obj in delta.objects
        if _is_news(old := before.get(obj.key), obj)
    ]
    return gone + there


def _is_news(old: Object[V] | None, new: Object[V]) -> bool:
    """An update to the version already known is a resync, which is not used here."""
    return old is None or old.resource_version != new.resource_version
