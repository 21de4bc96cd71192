"""A disk: data of an actor that survive a crash.

Writes are ordered. A crash keeps everything that was synced and a *prefix* of the rest; how much of
it is a choice ("disk", option 0: all of it). Values are bytes or anything MessagePack knows; they are stored as
bytes, so no memory is shared with earlier states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack

if TYPE_CHECKING:
    from collections.abc import Callable

_GONE = b"\xc1"  # a byte that MessagePack never produces


class Disk:
    """A small key-value disk with a write-back cache."""

    __slots__ = ("_cached", "_durable", "_pending", "changes")

    def __init__(self) -> None:
        self.changes = 0
        """The number of writes, removals and losses so far, for observers outside the run."""
        self._durable: dict[str, bytes | Callable[[], Any]] = {}
        self._cached: dict[str, bytes | Callable[[], Any]] = {}
        self._pending: list[tuple[str, bytes | Callable[[], Any]]] = []

    def write(self, key: str, value: Any) -> None:
        """Write a value; it survives a crash for certain only after `sync`."""
        packed = msgpack.packb(value)
        self.changes += 1
        self._pending.append((key, packed))
        self._cached[key] = packed

    def write_later(self, key: str, make: Callable[[], Any]) -> None:
        """Write what `make` returns, which is called at the first read: it must return the same at any time."""
        self.changes += 1
        self._pending.append((key, make))
        self._cached[key] = make

    def remove(self, key: str) -> None:
        """Remove a key, if it is there."""
        self.changes += 1
        self._pending.append((key, _GONE))
        self._cached[key] = _GONE

    def read(self, key: str, default: Any = None) -> Any:
        """The value last written, synced or not."""
        packed = self._cached.get(key)
        if packed is None:
            packed = self._durable.get(key)
        if packed is None or packed == _GONE:
            return default
        if not isinstance(packed, bytes):
            packed = msgpack.packb(packed())
        return msgpack.unpackb(packed)

    def keys(self) -> list[str]:
        """All keys, sorted."""
        merged = {**self._durable, **self._cached}
        return sorted(key for key, packed in merged.items() if packed != _GONE)

    def sync(self) -> None:
        """Make all writes so far survive any crash."""
        self._keep(len(self._pending))

    def unsynced(self) -> int:
        """Return the number of writes that a crash could lose."""
        return len(self._pending)

    def crash(self, lose: Callable[[int], int]) -> int:
        """Lose a suffix of the unsynced writes; `lose(n)` draws 0 to n - 1 of them to lose. How many were lost."""
        self.changes += 1
        count = len(self._pending)
        lost = lose(count + 1) if count else 0
        self._keep(count - lost)
        return lost

    def _keep(self, count: int) -> None:
        for key, packed in self._pending[:count]:
            if packed == _GONE:
                self._durable.pop(key, None)
            else:
                self._durable[key] = packed
        self._pending.clear()
        self._cached.clear()
