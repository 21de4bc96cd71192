"""The informer's store: the objects of one resource as last heard, by key, with indexes.

Reads give the newest object that was heard, not the newest that exists: every stale-cache race
starts here. Upstream: client-go tools/cache/thread_safe_store.go.
"""

from __future__ import annotations

from functools import cache
from sys import intern
from typing import TYPE_CHECKING, Any, Generic

from controlplane.api.generic import V

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from controlplane.api.object import Object


@cache
def label_index(key: str) -> Callable[[Object[Any]], tuple[str, ...]]:
    """Return the index function of the values of a label; one for each label, as `Indexer.add_indexes` asks for."""

    def values(obj: Object[Any]) -> tuple[str, ...]:
        value = (obj.metadata.get("labels") or {}).get(key)
        return (value,) if value else ()

    return values


class Indexer(Generic[V]):
    """Objects by key ("namespace/name" or "name"). `resource_version` is what the store has reached."""

    __slots__ = ("_functions", "_indexes", "_objects", "on_read", "resource_version")

    def __init__(self, **index: Callable[[Object[V]], tuple[str, ...]]) -> None:
        self._objects: dict[str, Object[V]] = {}
        self._functions = index
        self._indexes: dict[str, dict[str, dict[str, Object[V]]]] = {name: {} for name in index}
        self.resource_version = ""
        self.on_read: Callable[[str, Object[V] | None], None] | None = None
        """Told of every read of one object: its key, and what was found."""

    def add_indexes(self, **index: Callable[[Object[V]], tuple[str, ...]]) -> None:
        """Add indexes. A name that is there already has to stand for the same function."""
        for name, function in index.items():
            known = self._functions.setdefault(name, function)
            if known is not function:
                raise ValueError(f"index {name!r} stands for {known} already")
            if name not in self._indexes:
                entries = self._indexes[name] = {}
                for key, obj in self._objects.items():
                    for value in function(obj):
                        entries.setdefault(value, {})[key] = obj

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object[V]]:
        return iter(self._objects.values())

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def get(self, key: str) -> Object[V] | None:
        """The object with this key, as last heard."""
        found = self._objects.get(key)
        if self.on_read is not None:
            self.on_read(key, found)
        return found

    def peek(self, key: str) -> Object[V] | None:
        """The same for observers outside of the run: `on_read` is not told."""
        return self._objects.get(key)

    def keys(self) -> list[str]:
        """All keys, in the order in which they were first heard."""
        return list(self._objects)

    def by_index(self, index: str, value: str) -> list[Object[V]]:
        """The objects for which the index function named `index` answered `value`."""
        return list(self._indexes[index].get(value, {}).values())

    def put(self, obj: Object[V]) -> Object[V] | None:
        """Add or replace; the object that was there before."""
        key = intern(obj.key)  # caches and the store hold the same keys
        old = self._objects.get(key)
        self._objects[key] = obj
        if self._functions:
            self._reindex(key, old, obj)
        return old

    def remove(self, key: str) -> Object[V] | None:
        """Remove; the object that was there."""
        old = self._objects.pop(key, None)
        if old is not None and self._functions:
            self._reindex(key, old, None)
        return old

    def replace(self, objects: Iterable[Object[V]]) -> None:
        """Make these the whole content."""
        self._objects = {}
        self._indexes = {name: {} for name in self._functions}
        for obj in objects:
            self.put(obj)

    def _reindex(self, key: str, old: Object[V] | None, new: Object[V] | None) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            if old is not None:
                for value in function(old):
                    found = index.get(value)
                    if found is not None:
                        found.pop(key, None)
                        if not found:
                            del index[value]
            if new is not None:
                for value in function(new):
                    index.setdefault(value, {})[key] = new
