"""A memory of the results of a pure function of immutable trees and values, by identity.

Pods made from one template share their spec, so decoding, defaulting and validating it, or telling
what a scheduler's plugin needs of it, has the same answer for all of them. Nothing here is ever
wrong for an immutable value; asking again only costs time, so traces do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Final, Generic, TypeVar

A = TypeVar("A")
R = TypeVar("R")

KEPT: Final = 256
"""The number of remembered arguments; the next one empties the memory."""


class IdentityCache(Generic[R]):
    """Results by the identity of an immutable value, and by whatever else they depend on.

    An entry keeps its value alive, so that the id cannot pass to another one meanwhile.
    """

    __slots__ = ("_kept", "_known")

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._known: dict[tuple[int, Hashable], tuple[object, R]] = {}

    def get(self, value: object, other: Hashable = None) -> R | None:
        """Return the remembered value, None if there is none."""
        found = self._known.get((id(value), other))
        return None if found is None else found[1]

    def put(self, value: object, result: R, other: Hashable = None) -> R:
        """Keep a result and answer it. A full cache is emptied first."""
        if len(self._known) >= self._kept:
            self._known.clear()
        self._known[id(value), other] = (value, result)
        return result


def by_identity(function: Callable[[A], R], kept: int = KEPT) -> Callable[[A], R]:
    """Return the function with a memory of its results for the most recent arguments (`kept` at most).

    Correct only for pure functions of immutable values with immutable results.
    """
    known: dict[int, tuple[Any, R]] = {}

    @wraps(function)
    def recalled(value: A) -> R:
        found = known.get(id(value))
        if found is not None:
            # The entry keeps the value alive, so the id cannot have passed to another one.
            return found[1]
        result = function(value)
        if len(known) >= kept:
            known.clear()
        known[id(value)] = (value, result)
        return result

    return recalled
