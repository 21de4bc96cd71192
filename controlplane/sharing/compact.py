"""Dictionaries that share their keys, as instances of one class do (PEP 412): a third of the memory.

A cluster holds hundreds of thousands of trees with the same few keys. An ordinary dictionary of eleven keys has a
table of its own of 400 bytes; one that shares its keys has its values only. It is a dictionary like any other, in
order and equality too; taking in another key makes it an ordinary one.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

__all__ = ["KEPT", "compact"]

V = TypeVar("V")

KEPT: Final = 1024
"""The number of known key sets; dictionaries with further key sets stay as they are."""
_MOST: Final = 20
"""Dictionaries with more keys stay as they are: CPython shares no more than thirty."""
_ROOM: Final = 30
"""The number of keys for which a class reserves space at first; each instance reserves less for further ones."""

_known: dict[tuple[str, ...], dict[str, Any] | None] = {}


def _empty(keys: tuple[str, ...]) -> dict[str, Any] | None:
    """A dictionary with these keys, whose copies share them; None where there is nothing to share."""
    if not 0 < len(keys) <= _MOST or any(type(key) is not str for key in keys):
        return None
    holder = type("Keys", (), {})
    made: dict[str, Any] = {}
    for _ in range(_ROOM + 1):
        made = holder().__dict__
        for key in keys:
            made[key] = None
    return made


def compact(tree: dict[str, V]) -> dict[str, V]:
    """An equal dictionary with its keys in the same order, which shares them with others."""
    keys = tuple(tree)
    try:
        empty = _known[keys]
    except KeyError:
        if len(_known) >= KEPT:
            return tree
        empty = _known[keys] = _empty(keys)
    if empty is None:
        return tree
    made: dict[str, V] = empty.copy()
    for key, value in tree.items():  # a comprehension would make an ordinary one
        made[key] = value  # noqa: PERF403
    return made
