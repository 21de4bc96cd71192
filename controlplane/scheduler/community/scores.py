"""Scores between the lowest and the highest raw number, as several community plugins normalise them."""

from __future__ import annotations

import math

__all__ = ["MOST", "as_int64", "int64", "quotient", "spread"]

MOST = 100


def quotient(left: int, right: int) -> int:
    """Return a whole quotient cut towards zero, as Go divides."""
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


def int64(value: int) -> int:
    """Return a number as 64 bits hold it: what does not fit wraps around."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def as_int64(value: float) -> int:
    """Return a float cut to a whole number; the least of 64 bits where it does not fit, as amd64 converts."""
    fits = math.isfinite(value) and -(2.0**63) <= value < 2.0**63
    return int(value) if fits else -(1 << 63)


def spread(scores: list[int]) -> None:
    """Bring scores into 0..100 in place: the lowest becomes 0, the highest 100, equal ones 0."""
    if not scores:
        return
    lowest, highest = min(scores), max(scores)
    width = int64(highest - lowest)
    for at, score in enumerate(scores):
        scores[at] = quotient(int64(int64(score - lowest) * MOST), width) if width else 0
