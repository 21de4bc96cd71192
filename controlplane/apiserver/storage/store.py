"""The multi-version store: etcd's data model, in memory.

There is one revision counter. Every write increments it by one and is remembered as an event until
compaction. Keys live in keyspaces, one per resource prefix ("/registry/pods/"); inside a keyspace
an entry is addressed by the rest of the key ("default/web-0").

Values are shared, immutable objects: nothing is copied on the way in or out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from sys import intern

from controlplane.api.object import Object
from controlplane.api.stored import BLOCK, rest
from controlplane.apiserver.storage.entries import Entry, Event
from controlplane.apiserver.storage.leases import Lease, Leases
from controlplane.apiserver.storage.past import Past
from controlplane.apiserver.storage.sorted_keys import SortedKeys

__all__ = [
    "CompactedError",
    "Entry",
    "Event",
    "FutureRevisionError",
    "Keyspace",
    "Store",
    "StoreFailedError",
    "StoreFullError",
]


RESTING = ("/registry/events/",)
"""Prefixes of objects that no part of the control plane reads again: all but the newest are kept as bytes."""
AWAKE = 10_000
"""The number of the newest that are kept as objects: packing one takes longer than the rest of its write."""

PASTS = 4
"""The number of revisions of which differences are kept for clients that read pages."""


class StoreFailedError(RuntimeError):
    """A write could not be made durable. Nothing more is accepted until the store is opened again."""


class StoreFullError(StoreFailedError):
    """There is no space left. Nothing was changed; the next write is tried again."""


class CompactedError(LookupError):
    """The revision asked for was compacted away. etcd: ErrCompacted."""

    def __init__(self, compacted: int) -> None:
        super().__init__("etcdserver: mvcc: required revision has been compacted")
        self.compacted = compacted


class FutureRevisionError(LookupError):
    """The revision asked for has not happened yet. etcd: ErrFutureRev."""

    def __init__(self, current: int) -> None:
        super().__init__("etcdserver: mvcc: required revision is a future revision")
        self.current = current


class Keyspace:
    """All keys under one prefix, with their history since the last compaction."""

    __slots__ = (
        "_awake",
        "_events",
        "_keys",
        "_pasts",
        "_revisions",
        "entries",
        "forgotten",
        "latest",
        "prefix",
        "rests",
        "store",
    )

    def __init__(self, store: Store, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self.entries: dict[str, Entry] = {}
        self._keys = SortedKeys()
        self._pasts: dict[int, Past] = {}
        """Of the revisions that are being read page by page, the last used one at the end."""
        self._revisions: list[int] = []
        self._events: list[Event] = []
        self.rests = prefix in RESTING
        """All but the newest of its objects are kept as bytes."""
        self._awake = deque[Object]() if self.rests else None
        self.latest = 0
        """Revision of the last write to one of these keys."""
        self.forgotten = 0
        """Revision of the last of these writes that is not remembered any more."""

    def fork(self, store: Store) -> Keyspace:
        """A copy that belongs to `store`."""
        copy = Keyspace(store, self.prefix)
        copy.entries = {key: entry.fork() for key, entry in self.entries.items()}
        copy._keys = self._keys.fork()
        copy._revisions = list(self._revisions)
        copy._events = list(self._events)
        copy.latest = self.latest
        copy.forgotten = self.forgotten
        return copy

    def get(self, key: str) -> Entry | None:
        """The live entry, or None."""
        return self.entries.get(key)

    def put(self, key: str, obj: Object, expected: int | None = None) -> int | None:
        """Write `obj` if the key's modification revision is `expected` (0: absent, None: any).

        Answers the new revision, or None if the expectation failed.
        """
        entry = self.entries.get(key)
        if expected is not None and (entry.mod_revision if entry else 0) != expected:
            return None
        revision = self.store.advance_revision()
        old = None
        if entry is None:
            if not self.rests:
                key = intern(key)  # caches hold the same keys
            self.entries[key] = Entry(obj, revision)
            self._keys.add(key)
        else:
            old = entry.object
            entry.object = obj
            entry.mod_revision = revision
            entry.version += 1
        self._record(Event(revision, key, obj, old))
        return revision

    def delete(self, key: str, expected: int | None = None) -> int | None:
        """Remove the key if its modification revision is `expected` (None: any).

        Answers the deletion's revision, or None if the key is absent or the expectation failed.
        """
        entry = self.entries.get(key)
        if entry is None or (expected is not None and entry.mod_revision != expected):
            return None
        revision = self.store.advance_revision()
        del self.entries[key]
        self._keys.remove(key)
        self._record(Event(revision, key, None, entry.object))
        return revision

    def follow(self, event: Event) -> None:
        """Take over an event of another store, with its revision."""
        key = event.key
        entry = self.entries.get(key)
        if event.new is None:
            if entry is not None:
                del self.entries[key]
                self._keys.remove(key)
        elif entry is None:
            self.entries[key] = Entry(event.new, event.revision)
            self._keys.add(key)
        else:
            entry.object = event.new
            entry.mod_revision = event.revision
            entry.version += 1
        self._record(event)

    def restart(self, entries: dict[str, Entry], revision: int) -> None:
        """Hold these entries and no history, as of `revision`."""
        self.entries = entries
        self._keys = SortedKeys(entries)
        self._revisions = []
        self._events = []
        self._pasts.clear()
        self.latest = self.forgotten = revision

    def _record(self, event: Event) -> None:
        self.remember(event)
        self.latest = event.revision
        self.store.recorded()

    def remember(self, event: Event) -> None:
        """Keep an event as part of the history."""
        self._revisions.append(event.revision)
        self._events.append(event)
        self.store.remembered(event)
        if self._awake is not None and event.new is not None:
            self._awake.append(event.new)
            if len(self._awake) >= AWAKE + BLOCK:
                rest([self._awake.popleft() for _ in range(BLOCK)])

    def keys(self, start: str = "", prefix: str = "") -> Iterator[str]:
        """Live keys from `start` on that begin with `prefix`, in byte order."""
        keys = self._keys.listed()
        for index in range(*self._keys.span(prefix, start)):
            yield keys[index]

    def items(self, prefix: str = "") -> list[tuple[str, Object]]:
        """Live keys and values under `prefix`, in key order."""
        return self.page(prefix)[0]

    def at(self, revision: int, prefix: str = "") -> list[tuple[str, Object]]:
        """Keys and values under `prefix` as they were at `revision`, in key order.

        Raises CompactedError below the compacted revision, FutureRevisionError above the current.
        """
        return self.page(prefix, revision=revision)[0]

    def page(
        self, prefix: str = "", since: str = "", most: int = 0, revision: int = 0
    ) -> tuple[list[tuple[str, Object]], int]:
        """Return some of the keys under `prefix` with their values, in key order, and the number of those that follow.

        The cost does not depend on the number of keys outside of the page, but for the first page at a `revision` on
        the number of changes since then, and for the next ones on that since the page before.

        Args:
            prefix: the beginning of all keys.
            since: the smallest key.
            most: the size of the page, 0 for all.
            revision: the time of the keys and values, 0 for now.

        Raises:
            CompactedError: the revision is below the compacted one.
            FutureRevisionError: the revision is above the current one.
        """
        keys = self._keys.listed()
        first, end = self._keys.span(prefix, since)
        entries = self.entries
        past = self._past_of(revision, keep=bool(most)) if revision else None
        if past is not None:
            return past.page(keys, entries, first, end, prefix, since, most)
        stop = min(first + most, end) if most else end
        return [(key, entries[key].object) for key in keys[first:stop]], end - stop

    def _past_of(self, revision: int, *, keep: bool) -> Past | None:
        """Return the difference to a revision, None if there is none. `keep`: further pages may follow."""
        self.store.check_revision(revision)
        if self.latest <= revision:
            return None
        past = self._pasts.get(revision) or Past(revision)
        past.take(self._events[bisect_right(self._revisions, past.seen) :])
        if keep:
            self._pasts.pop(revision, None)
            self._pasts[revision] = past
            if len(self._pasts) > PASTS:
                del self._pasts[next(iter(self._pasts))]
        return past

    def events_after(self, revision: int) -> list[Event]:
        """Return events with a greater revision, oldest first, for a new watch. CompactedError if that is compacted."""
        if revision < self.store.compacted:
            raise CompactedError(self.store.compacted)
        return self.news_after(revision)

    def news_after(self, revision: int) -> list[Event]:
        """Return the same for a watch that has followed so far: only dropped events are an error, not compaction."""
        if revision < self.forgotten:
            raise CompactedError(self.store.compacted)
        if not self._revisions or self._revisions[-1] <= revision:
            return []
        return self._events[bisect_right(self._revisions, revision) :]

    def compact(self, revision: int) -> int:
        """Forget events up to `revision`; answers how many there were."""
        cut = bisect_right(self._revisions, revision)
        if cut:
            self.forgotten = self._revisions[cut - 1]
        del self._revisions[:cut]
        del self._events[:cut]
        for old in [each for each in self._pasts if each < revision]:
            del self._pasts[old]
        return cut


class Store:
    """All keyspaces and the revision they share.

    `revision` starts at 1, the empty store. When more than twice `history_limit` events are kept,
    the older half is compacted, so that memory stays flat.
    """

    incarnation = 1
    """The number of times this store was opened: ids made from serial numbers must differ between processes."""

    def __init__(self, revision: int = 1, history_limit: int = 50_000) -> None:
        self.revision = revision
        self.compacted = 0
        self.compactions = 0
        """The number of compactions. Upstream: the version of the key compact_rev_key."""
        self.keyspaces: dict[str, Keyspace] = {}
        """The keyspaces in use, by prefix; `keyspace` also creates new ones."""
        self._history_limit = history_limit
        self._events = 0
        self.leases = Leases()

    def fork(self) -> Store:
        """An independent store with the same content and history; the objects are shared."""
        copy = Store(self.revision, self._history_limit)
        copy.compacted = self.compacted
        copy.compactions = self.compactions
        copy._events = self._events
        copy.leases = self.leases.fork()
        copy.keyspaces |= {prefix: space.fork(copy) for prefix, space in self.keyspaces.items()}
        return copy

    def prefixes(self) -> list[str]:
        """Prefixes of all keyspaces, sorted."""
        return sorted(self.keyspaces)

    def keyspace(self, prefix: str) -> Keyspace:
        """The keyspace of `prefix`, made on first use. A prefix ends with a slash."""
        found = self.keyspaces.get(prefix)
        if found is None:
            found = self.keyspaces[prefix] = Keyspace(self, prefix)
        return found

    def advance_revision(self) -> int:
        """Take the next revision; keyspaces call it once per write."""
        self.revision += 1
        return self.revision

    def remembered(self, event: Event) -> None:
        """Count one kept event."""
        self._events += 1

    def recorded(self) -> None:
        """Compact when there is too much history."""
        if self._events > 2 * self._history_limit:
            everything = sorted(
                event.revision for space in self.keyspaces.values() for event in space._events
            )
            self.compact(everything[-self._history_limit - 1])

    def check_revision(self, revision: int) -> None:
        """Raise unless the state at `revision` is available."""
        if revision < self.compacted:
            raise CompactedError(self.compacted)
        if revision > self.revision:
            raise FutureRevisionError(self.revision)

    def watches_since(self) -> int:
        """From where on an API server that starts now lets clients watch. Upstream: its start."""
        return self.revision

    def commit(self) -> None:
        """Make what was written so far durable, where the store is; called before answers leave."""

    def close(self) -> None:
        """Let go of what the store holds outside memory."""

    def compact(self, revision: int) -> None:
        """Forget how things were before `revision`; reads below it raise CompactedError."""
        if revision > self.revision:
            raise FutureRevisionError(self.revision)
        if revision <= self.compacted:
            return
        self.compacted = revision
        for space in self.keyspaces.values():
            self._events -= space.compact(revision)

    def expire_at(self, space: Keyspace, key: str, revision: int, deadline: int) -> None:
        """Attach the key, as written at `revision`, to a lease that ends at `deadline` (ns)."""
        self.leases.attach(Lease(deadline, space.prefix, key, revision))

    def next_expiry(self) -> int | None:
        """Return the end of the next lease (ns), or None."""
        return self.leases.next_end()

    def expire(self, now: int) -> int:
        """Delete the keys whose leases have ended; answers how many."""
        due = self.ended(now)
        for prefix, key, _ in due:
            self.keyspace(prefix).delete(key)
        self.leases.drop(now)
        return len(due)

    def ended(self, now: int) -> list[tuple[str, str, Entry]]:
        """The keys whose leases have ended, with their prefixes and entries, in the order in which they did."""
        found = {}
        for _, prefix, key, revision in self.leases.ended(now):
            entry = self.keyspace(prefix).get(key)
            if entry is not None and entry.mod_revision == revision:
                found[prefix, key] = (prefix, key, entry)
        return list(found.values())

    def trouble(self) -> str:
        """Return why writes fail, "" while they succeed."""
        return ""
