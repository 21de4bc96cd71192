"""One of several servers' copy of the store, fed by messages.

Upstream every watch cache keeps a watch on etcd; here one stream carries the events of all of them,
and each cache takes in its part at its own pace. A server that is cut off has only this copy.
"""

from __future__ import annotations

from typing import NamedTuple

from controlplane.api.object import Object
from controlplane.apiserver.storage.store import Entry, Event, Store

__all__ = ["Mirror", "News", "Snapshot", "news_since", "snapshot"]


class Snapshot(NamedTuple):
    """Everything that is stored at `revision`: prefixes, and keys with their values, in key order.

    Of each key: value, creation revision, modification revision.
    """

    revision: int
    spaces: tuple[tuple[str, tuple[tuple[str, Object, int, int], ...]], ...]

    @property
    def label(self) -> str:
        """The name in the event log."""
        return f"snapshot {self.revision}"


class News(NamedTuple):
    """The writes since the last notification, oldest first, with the prefix of each key.

    Everything up to `revision` has been sent. History older than `compacted` is dropped.
    """

    events: tuple[tuple[str, Event], ...]
    revision: int
    compacted: int

    @property
    def label(self) -> str:
        """The name in the event log."""
        return f"revision {self.revision}"


def snapshot(store: Store) -> Snapshot:
    """The whole store, as a value."""
    return Snapshot(
        store.revision,
        tuple(
            (
                prefix,
                tuple(
                    (key, entry.object, entry.create_revision, entry.mod_revision)
                    for key, entry in store.keyspace(prefix).entries.items()
                ),
            )
            for prefix in store.prefixes()
        ),
    )


def news_since(store: Store, revision: int) -> News:
    """Return the writes after `revision`, which must not be compacted away."""
    events = [
        (prefix, event)
        for prefix in store.prefixes()
        if store.keyspace(prefix).latest > revision
        for event in store.keyspace(prefix).events_after(revision)
    ]
    events.sort(key=lambda item: item[1].revision)
    return News(tuple(events), store.revision, store.compacted)


class Mirror(Store):
    """A store that is never written to but by what is heard of another one."""

    def begin(self, heard: Snapshot) -> None:
        """Start over from a snapshot: what happened before is no longer known."""
        for prefix, entries in heard.spaces:
            space = self.keyspace(prefix)
            made = {}
            for key, obj, created, modified in entries:
                entry = made[key] = Entry(obj, created)
                entry.mod_revision = modified
            space.restart(made, heard.revision)
        known = {prefix for prefix, _ in heard.spaces}
        for prefix in self.prefixes():
            if prefix not in known:
                self.keyspace(prefix).restart({}, heard.revision)
        self.revision = self.compacted = heard.revision
        self._events = 0

    def take(self, news: News) -> None:
        """Follow the other store."""
        for prefix, event in news.events:
            self.revision = event.revision
            self.keyspace(prefix).follow(event)
        self.revision = max(self.revision, news.revision)
        if news.compacted > self.compacted:
            self.compact(min(news.compacted, self.revision))
