"""JSON values by what they are, so that one is found among many without being compared with each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar

__all__ = ["Seen", "by_value", "first_by_value", "remembered"]

_Answer = TypeVar("_Answer")
_LONG: Final = 512
"""Texts of more characters are not kept: what asks for them is rare, and may be hostile."""


def by_value(value: Any) -> Hashable:
    """Something to look up a value by: equal for equal values, as `==` compares them."""
    if isinstance(value, dict):
        return _MAP, frozenset([(key, by_value(each)) for key, each in value.items()])
    if isinstance(value, list):
        return _LIST, tuple([by_value(each) for each in value])
    return value  # type: ignore[no-any-return]


_MAP: Final = "map"
_LIST: Final = "list"


class Seen:
    """Values seen so far."""

    __slots__ = ("_known",)

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._known = {by_value(value): None for value in values}

    def __contains__(self, value: Any) -> bool:
        return by_value(value) in self._known

    def again(self, value: Any) -> bool:
        """Return whether a value was seen before; now it is."""
        key = by_value(value)
        if key in self._known:
            return True
        self._known[key] = None
        return False


def first_by_value(values: Iterable[Any]) -> dict[Hashable, int]:
    """Return the first index of each value."""
    found: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        found.setdefault(by_value(value), index)
    return found


def remembered(maxsize: int) -> Callable[[Callable[[str], _Answer]], Callable[[str], _Answer]]:
    """Keeps the answers for short texts, the least recently asked for make room; of long ones the last."""

    def keeping(function: Callable[[str], _Answer]) -> Callable[[str], _Answer]:
        kept = lru_cache(maxsize)(function)
        last = lru_cache(1)(function)

        @wraps(function)
        def asked(text: str) -> _Answer:
            return kept(text) if len(text) <= _LONG else last(text)

        return asked

    return keeping
