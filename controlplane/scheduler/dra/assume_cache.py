"""Claims as the informer shows them, or newer, as the scheduler has just written them.

An assumed object stands for what the informer will show; it gives way to a newer one only. The informer's
notification of the same version is ignored, so that the object to which `restore` goes back stays the older one.
Handlers are told after the cache's lock was let go, by one task at a time, in the order of the changes.

Points: `scheduler.claims.event` before a handler is told, `scheduler.claims.emit` while another task tells them.

Upstream: pkg/scheduler/util/assumecache/assume_cache.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from attrs import define

from controlplane.api.view import View
from controlplane.decisions import Locked, Point, Steps

__all__ = ["NOT_FOUND", "AssumeCache", "Handler"]

Handler = Callable[[View | None, View | None], Steps[None]]
"""Told of a change: the object before (None: it is new) and after (None: it is gone)."""

NOT_FOUND: Final = "not found"
"""The answer of `assume` about an object that no informer has shown yet."""

_EVENT: Final = Point("scheduler.claims.event")
_EMIT: Final = Locked("scheduler.claims.emit")


@define(eq=False)
class _Entry:
    latest: View
    api: View


def _version(obj: View) -> int:
    return int(obj.resource_version or 0)


def _unindexed(_obj: View) -> tuple[str, ...]:
    return ()


class AssumeCache:
    """Objects by `namespace/name`. Each method that changes it is one step up to its first point."""

    def __init__(self, values: Callable[[View], tuple[str, ...]] = _unindexed) -> None:
        """`values` are what `keys_of` finds an object by."""
        self.handlers: list[Handler] = []
        self._entries: dict[str, _Entry] = {}
        self._values = values
        self._index: dict[str, dict[str, None]] = {}
        self._waiting: deque[tuple[Handler, View | None, View | None]] = deque()
        self._emitting = False

    def get(self, key: str) -> View | None:
        """Return the latest object, assumed or not; None if there is none."""
        entry = self._entries.get(key)
        return None if entry is None else entry.latest

    def list(self) -> Iterator[View]:
        """Iterate over the latest objects."""
        return (entry.latest for entry in self._entries.values())

    def keys_of(self, value: str) -> tuple[str, ...]:
        """Return the keys of the latest objects with this value of the index, in no order."""
        return tuple(self._index.get(value, ()))

    def is_assumed(self, key: str) -> bool:
        """Return whether the latest object is not the one that the informer showed."""
        entry = self._entries.get(key)
        return entry is not None and entry.latest is not entry.api

    # -- the informer --------------------------------------------------------------------------

    def put(self, new: View) -> Steps[None]:
        """The informer shows a new object or version."""
        entry = self._entries.get(new.key)
        old = None if entry is None else entry.latest
        if old is None or _version(new) > _version(old):
            self._entries[new.key] = _Entry(new, new)
            self._push(old, new)
        yield from self._emit()

    def remove(self, gone: View) -> Steps[None]:
        """The informer shows that an object is gone."""
        entry = self._entries.pop(gone.key, None)
        if entry is not None:
            self._push(entry.latest, None)
        yield from self._emit()

    # -- the scheduler -------------------------------------------------------------------------

    def assume(self, obj: View) -> Steps[str]:
        """Take the answer of a write for the latest object; returns why not, "" if it was done."""
        problem = self._assume(obj)
        yield from self._emit()
        return problem

    def _assume(self, obj: View) -> str:
        entry = self._entries.get(obj.key)
        if entry is None:
            return NOT_FOUND
        stored, wanted = _version(entry.latest), _version(obj)
        if wanted < stored:
            return f'resource claim "{obj.key}" is out of sync (stored: {stored}, assume: {wanted})'
        self._push(entry.latest, obj)
        entry.latest = obj
        return ""

    def restore(self, key: str) -> Steps[None]:
        """Go back to what the informer showed."""
        entry = self._entries.get(key)
        if entry is not None and entry.latest is not entry.api:
            self._push(entry.latest, entry.api)
            entry.latest = entry.api
        yield from self._emit()

    # -- handlers ------------------------------------------------------------------------------

    def _push(self, old: View | None, new: View | None) -> None:
        """The latest object changed."""
        if old is not None:
            for value in self._values(old):
                keys = self._index[value]
                del keys[old.key]
                if not keys:
                    del self._index[value]
        if new is not None:
            for value in self._values(new):
                self._index.setdefault(value, {})[new.key] = None
        self._waiting.extend((handler, old, new) for handler in self.handlers)

    def _emit(self) -> Steps[None]:
        """Tell the handlers what waits. Without anything to tell nothing is waited for."""
        if not self._waiting:
            return
        yield _EVENT
        while self._emitting:
            yield _EMIT
        self._emitting = True
        try:
            while self._waiting:
                handler, old, new = self._waiting.popleft()
                yield from handler(old, new)
                yield _EVENT  # the cache's lock is taken for the next one, or for the end
        finally:
            self._emitting = False
