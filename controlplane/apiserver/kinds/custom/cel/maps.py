"""Maps that expressions construct: their keys are told apart as Go tells the keys of a map apart.

Python's dict takes 1, 1.0 and true for one key and refuses lists. cel-go keeps the entries of such a map in a Go
map of its own values: numbers of different types are different keys, lists, maps and others that are pointers in
Go equal only themselves, and bytes cannot be keys at all, which is found when the map is made.
Upstream: cel-go interpreter/interpretable.go (evalMap), common/types/map.go (refValMapAccessor).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from controlplane.apiserver.kinds.custom.cel.tree import CelError, Unsigned

__all__ = ["ABSENT", "Complete", "Entries", "Typed", "find", "items_of", "key_of", "keys_of"]

ABSENT: Final = object()
"""The result of `find` where there is no such key."""
_UNHASHABLE: Final = {"bytes": "types.Bytes", "Semver": "cel.Semver", "NamedFormat": "cel.Format"}
_BY_VALUE: Final = (bool, float, Unsigned, datetime, timedelta, type(None))
_IN_GO_BY_VALUE: Final = frozenset(("Address", "Network"))


class Entries(dict[Any, Any]):
    """A map that an expression constructed; a map of an object is a plain dict, whose keys are texts."""


class Complete(dict[str, Any]):
    """A map in which every key leads to a value: to `default` where it has none.

    The keys that it does not have count neither in its size nor for `in`.
    """

    def __init__(self, entries: dict[str, Any], default: Any) -> None:
        super().__init__(entries)
        self.default = default

    def __missing__(self, key: str) -> Any:
        return self.default


class Typed:
    """An object of a type that knows its fields: each leads to a value, the zero value of its type if it is not set."""

    type_name: str

    def get(self, name: Any) -> Any:
        """Return the value of a field, `ABSENT` or a CelError where there is none."""
        raise NotImplementedError

    def is_set(self, name: Any) -> bool:
        """Return whether a field has another value than the zero value of its type."""
        raise NotImplementedError


class _Key:
    """A key that Python would confuse with others, or cannot hash."""

    __slots__ = ("mark", "value")

    def __init__(self, value: Any, mark: tuple[Any, ...]) -> None:
        self.value = value
        self.mark = mark

    def __hash__(self) -> int:
        return hash(self.mark)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.mark == other.mark


def key_of(value: Any) -> Any:
    """Return a value as a key of `Entries`. CelError for one that Go cannot hash."""
    if isinstance(value, str) or type(value) is int:
        return value
    if isinstance(value, _BY_VALUE):
        # Not a number is no key twice, though a tuple would find the same object equal.
        apart = id(value) if value != value else 0  # noqa: PLR0124
        return _Key(value, (type(value), value, apart))
    name = type(value).__name__
    if name in _UNHASHABLE:
        raise CelError(
            f"internal error: runtime error: hash of unhashable type {_UNHASHABLE[name]}"
        )
    if name in _IN_GO_BY_VALUE:
        return _Key(value, (name, value.value))
    return _Key(value, ("same", id(value)))


def find(entries: dict[Any, Any], value: Any) -> Any:
    """Return what a map has for a key, `ABSENT` for none. An int and a uint of the same amount are one key, as is
    a double that is whole; a key that is a double is found by a double alone. CelError.
    """
    if not isinstance(entries, Entries):
        try:  # some compute what is asked for
            return entries[value] if isinstance(value, str) else ABSENT
        except KeyError:
            return ABSENT
    if not entries:
        return ABSENT
    found = entries.get(key_of(value), ABSENT)
    if found is not ABSENT or isinstance(value, bool | str):
        return found
    if isinstance(value, float):
        if not value.is_integer():
            return ABSENT
        if -(1 << 63) <= value < 1 << 63:
            found = entries.get(int(value), ABSENT)
        if found is ABSENT and 0 <= value < 1 << 64:
            found = entries.get(key_of(Unsigned(value)), ABSENT)
    elif isinstance(value, Unsigned):
        found = entries.get(int(value), ABSENT)
    elif isinstance(value, int):
        found = entries.get(key_of(Unsigned(value)), ABSENT)
    return found


def keys_of(entries: dict[Any, Any]) -> Iterator[Any]:
    """Iterate over the keys of a map as values."""
    return (key.value if isinstance(key, _Key) else key for key in entries)


def items_of(entries: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Iterate over the keys of a map, as values, and what it has for them."""
    return zip(keys_of(entries), entries.values(), strict=True)
