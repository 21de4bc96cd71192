"""A server's view of stored objects: straight from a store of its own, or from its watch caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from controlplane.api.object import Object
from controlplane.apiserver.schema.resources import ResourceInfo, every_resource
from controlplane.apiserver.storage.store import Keyspace, Store
from controlplane.apiserver.storage.watch_cache import WatchCache

__all__ = ["CacheLookup", "StoreLookup", "resource_named"]


@cache
def resource_named(group: str, resource: str) -> ResourceInfo:
    """The built-in resource in the version that is stored. KeyError for any other."""
    info: ResourceInfo
    for info in every_resource():
        if info.group == group and info.resource == resource:
            if (info.group, info.version) != info.hub:
                hub = every_resource().get(*info.hub, resource)
                return info if hub is None else hub
            return info
    raise KeyError(f"{resource}.{group}")


class StoreLookup:
    """The current objects of the store: for a server with a store of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._spaces: dict[tuple[str, str], Keyspace] = {}

    def info(self, group: str, resource: str) -> ResourceInfo:
        """The resource. KeyError for one that is not built in."""
        return resource_named(group, resource)

    def _space(self, group: str, resource: str) -> Keyspace:
        space = self._store.keyspace(resource_named(group, resource).storage_prefix)
        self._spaces[group, resource] = space
        return space

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """The live object, or None."""
        space = self._spaces.get((group, resource)) or self._space(group, resource)
        entry = space.entries.get(f"{namespace}/{name}" if namespace else name)
        return None if entry is None else entry.object

    def all(self, group: str, resource: str) -> Iterable[Object]:
        """All live objects."""
        space = self._spaces.get((group, resource)) or self._space(group, resource)
        return [entry.object for entry in space.entries.values()]

    def read(self, info: ResourceInfo, namespace: str, name: str) -> Object | None:
        """A live object of any resource, or None."""
        entry = self._store.keyspace(info.storage_prefix).entries.get(
            f"{namespace}/{name}" if namespace else name
        )
        return None if entry is None else entry.object

    def read_within(self, info: ResourceInfo, namespace: str) -> list[Object]:
        """The live objects of any resource in a namespace ("" for all), by name."""
        space = self._store.keyspace(info.storage_prefix)
        return [obj for _, obj in space.items(f"{namespace}/" if namespace else "")]

    def within(self, group: str, resource: str, namespace: str) -> list[Object]:
        """The live objects of a namespace ("" for those without one), by name."""
        space = self._spaces.get((group, resource)) or self._space(group, resource)
        if not space.entries:
            return []
        return [obj for _, obj in space.items(f"{namespace}/" if namespace else "")]


class CacheLookup:
    """The objects of the server's watch caches: for one of several servers."""

    def __init__(self, cache_of: Callable[[ResourceInfo], WatchCache]) -> None:
        self._cache_of = cache_of

    def info(self, group: str, resource: str) -> ResourceInfo:
        """The resource. KeyError for one that is not built in."""
        return resource_named(group, resource)

    def _cache(self, group: str, resource: str) -> WatchCache:
        return self._cache_of(resource_named(group, resource))

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """The object as the cache has it, or None."""
        return self._cache(group, resource).get(f"{namespace}/{name}" if namespace else name)

    def all(self, group: str, resource: str) -> Iterable[Object]:
        """All objects of the cache."""
        return list(self._cache(group, resource).objects.values())

    def read(self, info: ResourceInfo, namespace: str, name: str) -> Object | None:
        """An object of any resource as its cache has it, or None."""
        return self._cache_of(info).get(f"{namespace}/{name}" if namespace else name)

    def read_within(self, info: ResourceInfo, namespace: str) -> list[Object]:
        """Return the objects that the cache of any resource has in a namespace ("" for all), by name."""
        items = self._cache_of(info).items(f"{namespace}/" if namespace else "")
        return [obj for _, obj in items]

    def within(self, group: str, resource: str, namespace: str) -> list[Object]:
        """The cache's objects of a namespace ("" for those without one), by name."""
        items = self._cache(group, resource).items(f"{namespace}/" if namespace else "")
        return [obj for _, obj in items]
