"""The watch cache: one per resource, fed from the store's history in explicit steps.

`advance` takes events from the store up to a revision and hands them to the watchers, so how far a
cache lags behind the store is the caller's choice. Watchers get references to shared events; the
bytes of an event are encoded once for all readers.

Upstream: apiserver pkg/storage/cacher.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from attrs import frozen

from controlplane.api.object import KEPT_JSON, Object
from controlplane.api.tree import Tree
from controlplane.apiserver.storage.sorted_keys import SortedKeys
from controlplane.apiserver.storage.store import CompactedError, Event, Keyspace

__all__ = [
    "ADDED",
    "BOOKMARK",
    "DELETED",
    "ERROR",
    "MODIFIED",
    "Interest",
    "Matcher",
    "WatchCache",
    "WatchEvent",
    "Watcher",
]

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"


class Matcher(Protocol):
    """A predicate that selects objects."""

    def __call__(self, obj: Object) -> bool:
        """Return whether an object is selected."""


class WatchEvent:
    """One event of a watch stream, shared by all watchers that get it."""

    __slots__ = ("_line", "held", "object", "packed", "revision", "type")

    def __init__(self, kind: str, obj: Object, revision: int) -> None:
        self.type = kind
        self.object = obj
        self.revision = revision
        self._line: bytes | None = None
        self.held: Any = None
        """The data that the HTTP boundary keeps with the event while it is sent."""
        self.packed: bytes | None = None
        """The event in protobuf, once it was sent in this form."""

    @property
    def line(self) -> bytes:
        """The event as one JSON line, encoded at first use."""
        found = self._line
        if found is None:
            data = self.object.json
            found = b'{"type":"%s","object":%s}\n' % (self.type.encode(), data)
            if len(data) <= KEPT_JSON:
                self._line = found
        return found

    @property
    def tree(self) -> Tree:
        """The event as a JSON tree."""
        return {"type": self.type, "object": self.object.tree}

    def __repr__(self) -> str:
        return f"WatchEvent({self.type} {self.object!r})"


@frozen(eq=False)
class Interest:
    """The selection of a watcher. `matches` is None when everything in scope is selected.

    `namespace`, `name` and `node` narrow the scope ("" for any) and are indexed: an event costs
    only the watchers whose scope it touches. `node` is the `spec.nodeName=` term of pods.
    """

    namespace: str = ""
    name: str = ""
    node: str = ""
    matches: Matcher | None = None


class Watcher:
    """One watch: a buffer that the cache fills and the owner drains.

    `on_ready` is called when the buffer turns from empty to filled, `on_stop` when the watch ends, and so
    is `on_end`, for the log alone.
    When `capacity` is reached the watcher is terminated, as a server ends a stream whose reader is
    too slow.

    Where `holds` is set, events wait in `held` until they are converted and passed to `deliver`; `on_held` is
    called when the first one comes.
    """

    __slots__ = (
        "_cache",
        "_convert",
        "buffer",
        "capacity",
        "closed",
        "held",
        "holds",
        "info",
        "interest",
        "on_end",
        "on_held",
        "on_ready",
        "on_stop",
        "revision",
        "user_data",
    )

    def __init__(
        self,
        cache: WatchCache,
        interest: Interest,
        revision: int,
        convert: Callable[[Object], Object] | None = None,
    ) -> None:
        self._cache = cache
        self._convert = convert
        self.interest = interest
        self.revision = revision
        self.buffer: deque[WatchEvent] = deque()
        self.capacity: int | None = None
        self.closed = False
        self.holds = False
        self.held: deque[WatchEvent] = deque()
        self.on_held: Callable[[], None] | None = None
        self.on_ready: Callable[[], None] | None = None
        self.on_stop: Callable[[], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.user_data: Any = None
        self.info: Any = None
        """The resource that is watched, as it was at the start; it may be served no more."""

    def bookmark(self, marked: Callable[[int], Object]) -> None:
        """Queue a bookmark at the cache's revision, as `marked` makes it."""
        self._cache.bookmark(self, marked(self._cache.revision))

    def push(self, event: WatchEvent) -> None:
        """Queue an event (with its object converted to the watcher's version)."""
        if self.closed:
            return
        if self.capacity is not None and len(self.buffer) + len(self.held) >= self.capacity:
            self.stop()
            return
        if self.holds:
            self.held.append(event)
            if self.on_held is not None and len(self.held) == 1:
                self.on_held()
            return
        if self._convert is not None and event.type != ERROR:
            event = WatchEvent(event.type, self._convert(event.object), event.revision)
        self.deliver(event)

    def deliver(self, event: WatchEvent) -> None:
        """Queue an event as it is."""
        self.revision = max(self.revision, event.revision)
        self.buffer.append(event)
        if self.on_ready is not None and len(self.buffer) == 1:
            self.on_ready()

    def drain(self, limit: int | None = None) -> list[WatchEvent]:
        """Take the queued events, at most `limit`, oldest first."""
        if limit is None or limit >= len(self.buffer):
            events = list(self.buffer)
            self.buffer.clear()
            return events
        return [self.buffer.popleft() for _ in range(limit)]

    def stop(self) -> None:
        """End the watch: nothing more is queued."""
        if not self.closed:
            self.closed = True
            self._cache.remove(self)
            if self.on_stop is not None:
                self.on_stop()
            if self.on_end is not None:
                self.on_end()


LEAST_KEPT = 100
"""Upstream: cacher, defaultLowerBoundCapacity."""
Scope = tuple[str, str, str]


class WatchCache:
    """The state of one resource at `revision`, recent events, and the watchers.

    `window` is how many events are kept for watches that start in the past. With `at` the cache
    begins as of that revision instead of the store's current one: its server has heard no more yet.
    Without `exact_window` (gate 49992) a cache that has seen no event yet takes any start for one
    that it can serve.
    """

    def __init__(
        self,
        keyspace: Keyspace,
        *,
        window: int = 10_000,
        by_node: bool = False,
        since: int | None = None,
        at: int | None = None,
        exact_window: bool = True,
    ) -> None:
        self.keyspace = keyspace
        self._exact_window = exact_window
        self.by_node = by_node
        self._window = window
        self._watchers: dict[Scope, dict[Watcher, None]] = {}
        self._scoped = False
        self.received = 0
        """The number of events taken in so far."""
        self.relist(at)
        if since is not None:
            self._remember(since)

    def relist(self, at: int | None = None) -> None:
        """Start over from the store's current state (or that of revision `at`, if it is kept).

        Earlier versions become too old.
        """
        store = self.keyspace.store
        if at is not None and store.compacted <= at < store.revision:
            self.revision = at
            self.objects: dict[str, Object] = dict(self.keyspace.at(at))
        else:
            self.revision = store.revision
            self.objects = {key: entry.object for key, entry in self.keyspace.entries.items()}
        self._keys: SortedKeys | None = None
        """None until something lists them."""
        self._events: deque[Event] = deque()
        self._revisions: deque[int] = deque()
        self._oldest = self.revision

    def _remember(self, since: int) -> None:
        """Take the store's history since a revision as events seen, as if watching since then."""
        since = max(since, self.keyspace.store.compacted)
        events = self.keyspace.events_after(since)
        while events and events[-1].revision > self.revision:
            events.pop()
        if len(events) > self._window:
            since = events[-self._window - 1].revision
        for event in events[-self._window :]:
            self._events.append(event)
            self._revisions.append(event.revision)
        self._oldest = since

    @property
    def oldest(self) -> int:
        """Watches may start at this revision or later."""
        return self._oldest

    def lag(self) -> int:
        """Return the number of the store's revisions (of any resource) that the cache has not seen."""
        return self.keyspace.store.revision - self.revision

    # -- feeding ---------------------------------------------------------------------------------

    def is_behind(self) -> bool:
        """Return whether something was written of this resource that the cache has not seen."""
        return self.keyspace.latest > self.revision

    def pending(self) -> list[Event]:
        """The store's events that the cache has not seen yet, oldest first."""
        return self.keyspace.news_after(self.revision)

    def advance(self, up_to: int | None = None) -> int:
        """Take the store's events up to revision `up_to` (None: all); answers how many.

        If the store has forgotten what the cache has not seen, every watch ends and the cache relists, as
        upstream does when its own watch breaks.
        """
        target = self.keyspace.store.revision if up_to is None else up_to
        if target <= self.revision:
            return 0
        store = self.keyspace.store
        if self.keyspace.latest <= self.revision:
            self.revision = min(target, store.revision)  # nothing happened to these keys
            return 0
        try:
            events = self.keyspace.news_after(self.revision)
        except CompactedError:
            self.terminate_watchers()
            self.relist()
            return 0
        count = 0
        for event in events:
            if event.revision > target:
                break
            self._apply(event)
            count += 1
        self.received += count
        self.revision = max(self.revision, min(target, self.keyspace.store.revision))
        self._forget(store.compacted)
        return count

    def _forget(self, compacted: int) -> None:
        """Of what the store has forgotten keep no more than upstream's cache has room for at least."""
        revisions = self._revisions
        while len(revisions) > LEAST_KEPT and revisions[0] <= compacted:
            self._events.popleft()
            self._oldest = revisions.popleft()

    def _apply(self, event: Event) -> None:
        key = event.key
        if event.new is None:
            if self.objects.pop(key, None) is not None and self._keys is not None:
                self._keys.remove(key)
        else:
            if self._keys is not None and key not in self.objects:
                self._keys.add(key)
            self.objects[key] = event.new
        self.revision = event.revision
        self._events.append(event)
        self._revisions.append(event.revision)
        if len(self._events) > self._window:
            self._events.popleft()
            self._oldest = self._revisions.popleft()
        if self._watchers:
            self._dispatch(event)

    def _dispatch(self, event: Event) -> None:
        deliveries: dict[str, WatchEvent] = {}
        for watcher in self._interested(event):
            shared = _seen_by(event, watcher.interest, deliveries)
            if shared is not None:
                watcher.push(shared)

    def _interested(self, event: Event) -> list[Watcher]:
        """The watchers whose scope the event touches, in upstream's order of dispatch."""
        watchers = self._watchers
        if not self._scoped:
            group = watchers.get(("", "", ""))
            return list(group) if group else []
        namespace, _, name = event.key.rpartition("/")
        scopes: list[Scope] = [(namespace, name, "")] if namespace else []
        if namespace:
            scopes.append((namespace, "", ""))
        scopes += [("", name, ""), ("", "", "")]
        if self.by_node:
            nodes = dict.fromkeys((_node_of(event.old), _node_of(event.new)))
            for node in nodes:
                if node:
                    scopes += [
                        ("", "", node),
                        (namespace, "", node),
                        ("", name, node),
                        (namespace, name, node),
                    ]
        found: list[Watcher] = []
        for scope in scopes:
            group = watchers.get(scope)
            if group:
                found += group
        return found

    # -- reading ---------------------------------------------------------------------------------

    def get(self, key: str) -> Object | None:
        """The object as the cache knows it."""
        return self.objects.get(key)

    def items(self, prefix: str = "") -> list[tuple[str, Object]]:
        """Keys and objects under `prefix`, in key order."""
        return self.page(prefix)[0]

    def page(
        self, prefix: str = "", since: str = "", most: int = 0
    ) -> tuple[list[tuple[str, Object]], int]:
        """Return some of the keys under `prefix` with their objects, and the number of those that follow.

        As `Keyspace.page` does, as of the cache's revision: the cost does not depend on the keys outside of the page.
        """
        keys = self._keys
        if keys is None:
            keys = self._keys = SortedKeys(self.objects)
        first, end = keys.span(prefix, since)
        stop = min(first + most, end) if most else end
        objects = self.objects
        return [(key, objects[key]) for key in keys.listed()[first:stop]], end - stop

    # -- watching --------------------------------------------------------------------------------

    def watch(
        self,
        interest: Interest,
        *,
        after: int | None = None,
        initial: bool = False,
        convert: Callable[[Object], Object] | None = None,
        holds: bool = False,
    ) -> Watcher:
        """Open a watch; with `holds` its events are converted before they are delivered, see `Watcher`.

        With `initial` the current objects come first, as ADDED in key order. Otherwise events with
        a revision greater than `after` come (None: from now on). CompactedError when `after` lies
        before the window; its `compacted` is the oldest start still possible.
        """
        start = self.revision if after is None or initial else after
        watcher = Watcher(self, interest, 0, convert)
        watcher.holds = holds
        if initial:
            for _, obj in self._in_scope(interest):
                if interest.matches is None or interest.matches(obj):
                    watcher.push(WatchEvent(ADDED, obj, obj.resource_version))
        else:
            if start < self._oldest and (self._exact_window or self._events):
                raise CompactedError(self._oldest)
            self._replay(watcher, start)
        watcher.revision = max(watcher.revision, start)
        scope = (interest.namespace, interest.name, interest.node if self.by_node else "")
        self._watchers.setdefault(scope, {})[watcher] = None
        self._scoped = self._scoped or any(scope)
        if start > self.revision:
            self._hold_back(watcher, start)
        return watcher

    def _hold_back(self, watcher: Watcher, start: int) -> None:
        """Skip events up to a start in the future."""
        inner = watcher.interest.matches

        def later(obj: Object) -> bool:
            return inner is None or inner(obj)

        watcher.interest = Interest(
            watcher.interest.namespace,
            watcher.interest.name,
            watcher.interest.node,
            _After(start, later, self),
        )

    def _replay(self, watcher: Watcher, start: int) -> None:
        if not self._revisions or self._revisions[-1] <= start:
            return
        first = bisect_right(self._revisions, start)
        interest = watcher.interest
        for index in range(first, len(self._events)):
            event = self._events[index]
            if not _touches(event, interest):
                continue
            shared = _seen_by(event, interest, {})
            if shared is not None:
                watcher.push(shared)

    def _in_scope(self, interest: Interest) -> Iterable[tuple[str, Object]]:
        if interest.name and interest.namespace:
            key = f"{interest.namespace}/{interest.name}"
            found = self.objects.get(key)
            return [(key, found)] if found is not None else []
        items = self.items(f"{interest.namespace}/" if interest.namespace else "")
        if interest.name:
            items = [(key, obj) for key, obj in items if key.rpartition("/")[2] == interest.name]
        if interest.node:
            items = [(key, obj) for key, obj in items if _node_of(obj) == interest.node]
        return items

    def bookmark(self, watcher: Watcher, obj: Object) -> None:
        """Queue a bookmark; it is dropped if the watcher's buffer is full."""
        if watcher.capacity is None or len(watcher.buffer) < watcher.capacity:
            watcher.push(WatchEvent(BOOKMARK, obj, obj.resource_version))

    def remove(self, watcher: Watcher) -> None:
        """Forget a watcher."""
        interest = watcher.interest
        scope = (interest.namespace, interest.name, interest.node if self.by_node else "")
        group = self._watchers.get(scope)
        if group is not None:
            group.pop(watcher, None)
            if not group:
                del self._watchers[scope]

    def terminate_watchers(self) -> None:
        """End every watch, as when the server loses the store or shuts down."""
        for group in list(self._watchers.values()):
            for watcher in list(group):
                watcher.stop()
                if (
                    watcher.on_stop is None and watcher.on_ready is not None
                ):  # the reader has to be notified of the end
                    watcher.on_ready()


class _After:
    """A matcher that holds until the cache has passed a revision."""

    def __init__(self, start: int, inner: Matcher, cache: WatchCache) -> None:
        self._start = start
        self._inner = inner
        self._cache = cache

    def __call__(self, obj: Object) -> bool:
        return self._cache.revision > self._start and self._inner(obj)


def _node_of(obj: Object | None) -> str:
    if obj is None:
        return ""
    spec = obj.tree.get("spec")
    node: str = spec.get("nodeName", "") if spec else ""
    return node


def _touches(event: Event, interest: Interest) -> bool:
    namespace, _, name = event.key.rpartition("/")
    if interest.namespace and interest.namespace != namespace:
        return False
    if interest.name and interest.name != name:
        return False
    if interest.node:
        return interest.node in (_node_of(event.old), _node_of(event.new))
    return True


def _seen_by(
    event: Event, interest: Interest, deliveries: dict[str, WatchEvent]
) -> WatchEvent | None:
    """Return the event of a change as a watcher sees it: leaving the selection is a deletion, entering a creation.

    `deliveries` keeps the event of each type, so that all watchers share one.
    """
    old, new = event.old, event.new
    before = old is not None and _selected(old, interest)
    after = new is not None and _selected(new, interest)
    if not before and not after:
        return None
    kind = DELETED if not after else (MODIFIED if before else ADDED)
    shared = deliveries.get(kind)
    if shared is None:
        if after:
            assert new is not None
            shared = WatchEvent(kind, new, event.revision)
        else:
            assert old is not None
            shared = WatchEvent(kind, _at_revision(old, event.revision), event.revision)
        deliveries[kind] = shared
    return shared


def _selected(obj: Object, interest: Interest) -> bool:
    if interest.node and _node_of(obj) != interest.node:
        return False
    return interest.matches is None or interest.matches(obj)


def _at_revision(obj: Object, revision: int) -> Object:
    """The object as it stands in a DELETED event: last content, version of the change."""
    tree = dict(obj.tree)
    tree["metadata"] = {**obj.tree["metadata"], "resourceVersion": str(revision)}
    return Object(tree)
