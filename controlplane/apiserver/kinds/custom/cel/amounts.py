"""Ranges of sizes and costs, as unsigned numbers of 64 bits that stop at the largest one.

Upstream: cel-go checker/cost.go and common/cost.go.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from attrs import frozen

__all__ = [
    "LIST",
    "MAP",
    "NONE",
    "ONE",
    "REGEX",
    "STRUCT",
    "TRAVERSAL",
    "UNBOUNDED",
    "UNKNOWN",
    "Range",
    "exactly",
    "scaled",
    "wrapped",
]

UNBOUNDED: Final = 2**64 - 1
TRAVERSAL: Final = 0.1
"""Cost of going through a text, for each character."""
REGEX: Final = 0.25
"""Cost of applying a regular expression, for each of its characters."""
LIST, MAP, STRUCT = 10, 30, 40
"""Cost of making a list, a map or a struct."""


def scaled(amount: int, factor: float) -> int:
    """An amount times a factor, rounded up."""
    if amount > 0 and factor > 0 and float(amount) > 2.0**64 / factor:
        return UNBOUNDED
    return min(ceil(float(amount) * factor), UNBOUNDED)


def wrapped(amount: int) -> int:
    """An amount as 64 bits hold it."""
    return amount & UNBOUNDED


@frozen
class Range:
    """The least and the greatest size or cost."""

    low: int
    high: int

    def __add__(self, other: Range) -> Range:
        return Range(min(self.low + other.low, UNBOUNDED), min(self.high + other.high, UNBOUNDED))

    def __mul__(self, other: Range) -> Range:
        return Range(min(self.low * other.low, UNBOUNDED), min(self.high * other.high, UNBOUNDED))

    def __or__(self, other: Range) -> Range:
        """The range that has both in it."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def scaled(self, factor: float) -> Range:
        """Both ends times a factor, rounded up."""
        return Range(scaled(self.low, factor), scaled(self.high, factor))


def exactly(amount: int) -> Range:
    """A range of one amount."""
    return Range(amount, amount)


NONE: Final = exactly(0)
ONE: Final = exactly(1)
UNKNOWN: Final = Range(0, UNBOUNDED)
