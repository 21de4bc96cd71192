"""The in-flight ledger: one list in which pod markers and events lie in order of arrival.

Upstream: the inFlightEvents list of `pkg/scheduler/backend/queue/active_queue.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.scheduler.framework.events import ClusterEvent


class Entry:
    """A pod marker (event None, `pod_uid` set, perhaps its latest object) or an event with its objects."""

    __slots__ = ("event", "new", "next", "old", "pod_uid", "prev")

    def __init__(self, pod_uid: str, event: ClusterEvent | None, old: Any, new: Any) -> None:
        self.pod_uid = pod_uid
        self.event = event
        self.old = old
        self.new = new
        self.prev: Entry | None = None
        self.next: Entry | None = None


class Ledger:
    """A doubly linked list; each event is stored once for all pods that precede it."""

    __slots__ = ("_size", "back", "changes", "front")

    def __init__(self) -> None:
        self.front: Entry | None = None
        self.back: Entry | None = None
        self._size = 0
        self.changes = 0
        """The number of entries added and removed so far."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Entry]:
        entry = self.front
        while entry is not None:
            yield entry
            entry = entry.next

    def push_pod(self, uid: str) -> Entry:
        """Append a marker for the pod."""
        return self._push(Entry(uid, None, None, None))

    def push_event(self, event: ClusterEvent, old: Any, new: Any) -> Entry:
        """Append an event."""
        return self._push(Entry("", event, old, new))

    def _push(self, entry: Entry) -> Entry:
        last = self.back
        entry.prev = last
        if last is None:
            self.front = entry
        else:
            last.next = entry
        self.back = entry
        self._size += 1
        self.changes += 1
        return entry

    def remove(self, entry: Entry) -> None:
        """Unlink an entry."""
        before, after = entry.prev, entry.next
        if before is None:
            self.front = after
        else:
            before.next = after
        if after is None:
            self.back = before
        else:
            after.prev = before
        entry.prev = entry.next = None
        self._size -= 1
        self.changes += 1
