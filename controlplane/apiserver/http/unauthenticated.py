"""Unauthenticated connections: few at once, and the oldest is closed for a new one.

So a client that opens connections without authenticating displaces only its own. Upstream
leaves this to the operating system and to the proxies before the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field

__all__ = ["UnauthenticatedConnections"]

Key = TypeVar("Key")


@define
class UnauthenticatedConnections(Generic[Key]):
    """At most `limit` of them, and at most `per_address` of one address."""

    limit: int
    per_address: int
    _waiting: dict[str, dict[Key, Callable[[], None]]] = field(factory=dict)
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    def arrive(self, address: str, key: Key, leave: Callable[[], None]) -> None:
        """Add one; where there are too many, call `leave` of the oldest from the address with the most."""
        mine = self._waiting.setdefault(address, {})
        mine[key] = leave
        self._count += 1
        if len(mine) > self.per_address:
            self._evict(address)
        elif self._count > self.limit:
            self._evict(max(self._waiting, key=lambda each: len(self._waiting[each])))

    def depart(self, address: str, key: Key) -> None:
        """It has gone, or it is known now. Said twice, it counts once."""
        mine = self._waiting.get(address, {})
        if mine.pop(key, None) is not None:
            self._count -= 1
            if not mine:
                del self._waiting[address]

    def _evict(self, address: str) -> None:
        key, leave = next(iter(self._waiting[address].items()))
        self.depart(address, key)
        leave()
