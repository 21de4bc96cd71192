"""Remembering what a pure function said about immutable trees and values, by identity.

Pods made from one template share their spec, so decoding, defaulting and validating it, or telling
what a scheduler's plugin needs of it, has the same answer for all of them. Nothing here is ever
wrong for a value that nobody writes to; asking again only costs time, so traces do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

A = TypeVar("A")
R = TypeVar("R")

KEPT: Final = 256
"""So many arguments are remembered; the next one makes all be forgotten."""


def by_identity(function: Callable[[A], R]) -> Callable[[A], R]:
    """The function, asked once for each of the objects that it was handed last.

    Right only for pure functions of immutable values, whose results nobody writes to either.
    """
    known: dict[int, tuple[Any, R]] = {}

    @wraps(function)
    def recalled(value: A) -> R:
        found = known.get(id(value))
        if found is not None:
            # The entry keeps the value alive, so the id cannot have passed to another one.
            return found[1]
        result = function(value)
        if len(known) >= KEPT:
            known.clear()
        known[id(value)] = (value, result)
        return result

    return recalled
