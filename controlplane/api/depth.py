"""The nesting limit of documents, decided by their form and not by the free depth of Python's stack.

Upstream: encoding/json and goyaml stop at 10,000 levels. Here everything that walks an object calls
itself once or a few times a level, so the bound is lower, and the interpreter is given the room for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

__all__ = ["DEPTH", "EXCEEDED", "TooDeep", "checked", "too_deep"]

DEPTH: Final = 500
"""Levels of lists and objects in whatever is read."""
EXCEEDED: Final = "exceeded max depth"
_FRAMES: Final = 8000
"""Sixteen calls a level; pure Python calls take no C stack, and what is in between a quarter of 8 MiB."""

if sys.getrecursionlimit() < _FRAMES:
    sys.setrecursionlimit(_FRAMES)


class TooDeep(ValueError):
    """A document nests more deeply than `DEPTH`."""

    def __init__(self) -> None:
        super().__init__(EXCEEDED)


def too_deep(value: Any) -> bool:
    """Return whether a tree has more than `DEPTH` levels. It is looked at level by level."""
    level: list[Any] = [value] if isinstance(value, (dict, list)) else []
    for _ in range(DEPTH):
        if not level:
            return False
        inner: Iterable[Any] = chain.from_iterable(
            each.values() if isinstance(each, dict) else each for each in level
        )
        level = [each for each in inner if isinstance(each, (dict, list))]
    return bool(level)


def checked(value: Any, text: bytes | str) -> Any:
    """Return a value parsed from JSON text if it is not too deep. Raises TooDeep."""
    openings = (
        text.count(b"{") + text.count(b"[")
        if isinstance(text, bytes)
        else text.count("{") + text.count("[")
    )
    if openings > DEPTH and too_deep(value):
        raise TooDeep
    return value
