"""Memories of what pure functions of immutable values have answered, and the switch that turns them all off.

A control plane meets the same values again and again: pods made from one template share their spec, pods that become
ready in one second share their conditions. So decoding, defaulting or validating such a value, or telling what a
plugin of the scheduler needs of it, has one answer for all of them. Most memories go by the identity of a value, which
costs nothing to compute: an entry keeps its value alive, so that the id cannot pass to another one.

Nothing here may be observable. `turned_off` turns all memories off, and a test runs worlds both ways and compares
their traces: what differs then is a function that is not pure, or a key that says too little.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

__all__ = ["KEPT", "IdentityCache", "Memory", "by_identity", "memories", "turned_off"]

A = TypeVar("A")
K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

KEPT: Final = 256
"""The number of remembered entries unless a memory has its own."""


class Memory(Generic[K, R]):
    """A bounded dictionary: a new entry for which there is no room empties it first.

    Emptying all at once keeps a look-up as cheap as that of a dictionary; what is still in use is back soon.

    Args:
        name: of what it remembers, for people: `turned_off` takes it.
        kept: the number of entries that fit.
    """

    __slots__ = ("__weakref__", "_kept", "known", "name")

    def __init__(self, name: str, kept: int = KEPT) -> None:
        self.name = name
        self.known: dict[K, R] = {}
        """The entries, for look-ups; only `keep` and `shared` write."""
        self._kept = kept
        _MEMORIES.add(self)

    def keep(self, key: K, value: R) -> R:
        """Remember an entry, and return its value."""
        if _OFF and not _OFF.isdisjoint((self.name, _ALL)):
            return value
        if len(self.known) >= self._kept:
            self.known.clear()
        self.known[key] = value
        return value

    def shared(self, key: K, value: R) -> R:
        """Return the remembered value of a key; remember this one, and return it, if there is none."""
        found = self.known.get(key)
        return self.keep(key, value) if found is None else found


_MEMORIES: Final[WeakSet[Memory[Any, Any]]] = WeakSet()
_OFF: Final[set[str]] = set()
"""The names of the memories that are turned off."""
_ALL: Final = "all memories"


class IdentityCache(Generic[R]):
    """Results by the identity of an immutable value, and by whatever else they depend on."""

    __slots__ = ("_known", "_memory")

    def __init__(self, name: str, kept: int = KEPT) -> None:
        self._memory: Memory[tuple[int, Hashable], tuple[object, R]] = Memory(name, kept)
        self._known = self._memory.known

    def get(self, value: object, other: Hashable = None) -> R | None:
        """Return the remembered value, None if there is none."""
        found = self._known.get((id(value), other))
        return None if found is None else found[1]

    def put(self, value: object, result: R, other: Hashable = None) -> R:
        """Keep a result and answer it."""
        self._memory.keep((id(value), other), (value, result))
        return result


def by_identity(
    function: Callable[[A], R], kept: int = KEPT, *, name: str = ""
) -> Callable[[A], R]:
    """Return the function with a memory of its results for the most recent arguments (`kept` at most).

    Correct only for pure functions of immutable values with immutable results. The memory has the name of the
    function unless `name` is another one.
    """
    name = name or f"{function.__module__}.{function.__qualname__}"
    memory: Memory[int, tuple[A, R]] = Memory(name, kept)
    known = memory.known

    @wraps(function)
    def recalled(value: A) -> R:
        found = known.get(id(value))
        if found is not None:
            return found[1]
        result = function(value)
        memory.keep(id(value), (value, result))
        return result

    return recalled


def memories() -> tuple[str, ...]:
    """Return the names of the memories of this process, in order."""
    return tuple(sorted({each.name for each in _MEMORIES}))


@contextmanager
def turned_off(*names: str) -> Iterator[None]:
    """Within this context memories forget all they have, and remember nothing: these, or all of them.

    For tests and measurements, with no world running.
    """
    before = set(_OFF)
    _OFF.update(names or (_ALL,))
    for each in list(_MEMORIES):
        if not names or each.name in names:
            each.known.clear()
    try:
        yield
    finally:
        _OFF.clear()
        _OFF.update(before)
