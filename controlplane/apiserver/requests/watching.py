"""Opening watches, and the bookmarks on them. Upstream: apiserver pkg/storage/cacher."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from controlplane.api.flags import flag
from controlplane.api.object import Object
from controlplane.api.request import Request
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.selectable import interest_of
from controlplane.apiserver.requests.bodies import Bodies
from controlplane.apiserver.requests.caches import Caches
from controlplane.apiserver.requests.listing import check_list_options, parse_version
from controlplane.apiserver.requests.registries import Registries
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.codec import decode
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.storage.store import CompactedError, Store
from controlplane.apiserver.storage.watch_cache import (
    ERROR,
    Interest,
    WatchCache,
    Watcher,
    WatchEvent,
)

__all__ = ["Watching"]

_INITIAL_END = "k8s.io/initial-events-end"

_COUNTED = (("apps", "deployments"), ("apps", "replicasets"), ("apps", "statefulsets"))
"""Upstream's internal form of these has a plain number of replicas, so an empty one has 0."""


class Watching:
    """Watches on the caches of one server. Unless `shared`, only this server writes to its store."""

    def __init__(
        self, registries: Registries, bodies: Bodies, caches: Caches, store: Store, *, shared: bool
    ) -> None:
        self._registries = registries
        self._bodies = bodies
        self._caches = caches
        self._store = store
        self._shared = shared

    def open(self, request: Request) -> Watcher:
        """Open a watch. ApiError for a request that cannot be one."""
        info = self._registries.resource(request.group, request.version, request.resource)
        if "watch" not in info.verbs:
            raise status.method_not_supported(info, "watch")
        query = request.query
        check_list_options(query, watch=_asks_for_watch(request))
        interest = interest_of(info, request.namespace, request.name, query)
        version = query.get("resourceVersion", "")
        try:
            wanted = parse_version(version)
        except ValueError as error:
            raise status.plain_error(
                f'resourceVersion: Invalid value: "{version}": {error}'
            ) from None
        watcher = self._opened(info, request, version, wanted, interest)
        watcher.info = info
        return watcher

    def _opened(
        self, info: ResourceInfo, request: Request, version: str, wanted: int, interest: Interest
    ) -> Watcher:
        query = request.query
        cache = self._caches.of(info)
        initial_flag = query.get("sendInitialEvents")
        initial = not wanted if initial_flag is None else flag(initial_flag)
        asks = _asks_for_watch(
            request
        )  # the defaults of a watch end initial events with a bookmark
        convert = None
        holds = info.custom is not None and info.custom.webhook is not None
        if not holds and (info.custom is not None or (info.group, info.version) != info.hub):
            convert = lambda obj: self._bodies.external(info, obj)  # noqa: E731
        if initial:
            if version == "" and cache.lag() and not self._shared:
                cache.advance()
            if wanted > cache.revision:
                failed = status.too_large_resource_version(wanted, cache.revision, 1)
                return _failed_watch(cache, interest, failed)
            watcher = cache.watch(interest, initial=True, convert=convert, holds=holds)
            if asks and flag(query.get("allowWatchBookmarks")):
                mark = self._bookmark(info, cache.revision, {_INITIAL_END: "true"})
                cache.bookmark(watcher, mark)
            return watcher
        if not version:
            start = self._store.revision
        else:
            start = wanted or cache.revision
        return self._watch_after(info, cache, interest, start, convert)

    def _watch_after(
        self,
        info: ResourceInfo,
        cache: WatchCache,
        interest: Interest,
        start: int,
        convert: Callable[[Object], Object] | None,
    ) -> Watcher:
        try:
            holds = info.custom is not None and info.custom.webhook is not None
            return cache.watch(interest, after=start, convert=convert, holds=holds)
        except CompactedError as error:
            text = f"too old resource version: {start} ({error.compacted})"
            if info.resource == "events":
                text = "The resourceVersion for the provided watch is too old."
            return _failed_watch(cache, interest, status.expired(text))

    def _bookmark(self, info: ResourceInfo, revision: int, annotations: Tree) -> Object:
        meta: Tree = {"resourceVersion": str(revision)}
        if annotations:
            meta["annotations"] = annotations
        if info.custom is not None:
            named: Tree = {"apiVersion": info.api_version, "kind": info.kind, "metadata": meta}
            return Object(named)
        empty = _empty(info.type_name, info.api_version, info.kind)
        tree = {**empty, "metadata": {**empty["metadata"], **meta}}
        if (info.group, info.resource) in _COUNTED:
            tree["spec"] = {"replicas": 0, **tree["spec"]}
        return Object(tree)

    def send_bookmark(self, watcher: Watcher) -> None:
        """Queue a plain bookmark at the cache's revision for a watch that asked for bookmarks."""
        info: ResourceInfo = watcher.info
        watcher.bookmark(lambda revision: self._bookmark(info, revision, {}))


def _asks_for_watch(request: Request) -> bool:
    """Return whether the query asks for a watch, as components do; not if only a path with /watch/ does."""
    return not request.path or flag(request.query.get("watch"))


@cache
def _empty(type_name: str, api_version: str, kind: str) -> Tree:
    """An object of which nothing is said, as upstream encodes it."""
    return decode(type_name, {"apiVersion": api_version, "kind": kind, "metadata": {}})


def _failed_watch(cache: WatchCache, interest: Interest, error: status.ApiError) -> Watcher:
    """A watch that ends with an error at once."""
    watcher = cache.watch(interest)
    watcher.push(WatchEvent(ERROR, Object(error.tree), 0))
    watcher.stop()
    return watcher
