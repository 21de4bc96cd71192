"""The watch caches of a server, one per resource, made on first use."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.storage.store import Store
from controlplane.apiserver.storage.watch_cache import WatchCache

__all__ = ["CacheMade", "Caches"]


CacheMade = Callable[[ResourceInfo, WatchCache], None]
"""Told of a resource whose cache has just been made."""


class Caches:
    """Caches over what the server has heard of the store; each moves on when asked to."""

    def __init__(self, store: Store, options: ServerOptions, made: CacheMade | None = None) -> None:
        self._made = made
        self._store = store
        self._options = options
        self._started = store.watches_since()
        self._caches: dict[str, WatchCache] = {}

    def of(self, info: ResourceInfo) -> WatchCache:
        """The watch cache of a resource."""
        found = self._caches.get(info.storage_prefix)
        if found is None:
            found = WatchCache(
                self._store.keyspace(info.storage_prefix),
                window=self._options.watch_window,
                by_node=info.resource == "pods" and not info.group,
                since=self._started,
                exact_window=self._options.exact_windows,
            )
            self._caches[info.storage_prefix] = found
            if self._made is not None:
                self._made(info, found)
        return found

    def known(self) -> dict[str, WatchCache]:
        """All caches in use, by storage prefix."""
        return self._caches

    def advance(self, up_to: int | None = None) -> int:
        """Let every cache see the store's events up to `up_to` (None: all)."""
        store = self._store
        compacted = store.compacted
        target = store.revision if up_to is None else min(up_to, store.revision)
        count = 0
        for cache in list(self._caches.values()):
            revision = cache.revision
            if cache.keyspace.latest <= revision >= compacted:
                # Nothing was written there: the common case, so it costs no call.
                if revision < target:
                    cache.revision = target
            else:
                count += cache.advance(up_to)
        return count

    def note_progress(self) -> None:
        """Caches of whose resource nothing is new are as far as the store.

        Upstream: etcd tells of its progress on every watch of a cacher.
        """
        current = self._store.revision
        for cache in self._caches.values():
            if cache.keyspace.latest <= cache.revision:
                cache.revision = current

    def forget(self, storage_prefix: str) -> None:
        """Drop the cache of a resource that is no longer served and of which nothing is stored."""
        found = self._caches.get(storage_prefix)
        if found is not None and not self._store.keyspace(storage_prefix).entries:
            self.end_watches(storage_prefix)
            del self._caches[storage_prefix]

    def end_watches(self, storage_prefix: str) -> None:
        """End the watches of a resource that is served in another way from now on, or no more.

        Events known by then are still sent to them. Upstream: tearDown in customresource_handler.go.
        """
        found = self._caches.get(storage_prefix)
        if found is not None:
            found.advance()
            found.terminate_watchers()
