"""Scores between the lowest and the highest raw number, as several community plugins normalise them."""

from __future__ import annotations

import math

from controlplane.api.go_integers import divide, int64

__all__ = ["MOST", "as_int64", "spread"]

MOST = 100


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
        scores[at] = divide(int64(int64(score - lowest) * MOST), width) if width else 0
