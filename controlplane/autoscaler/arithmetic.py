"""Floating-point division as Go does it: by zero it gives infinity or not-a-number."""

from __future__ import annotations

import math


def ratio(part: float, whole: float) -> float:
    """Return part / whole; a whole of 0 gives an infinity, or not-a-number for 0 / 0."""
    if whole:
        return part / whole
    if part == 0 or math.isnan(part):
        return math.nan
    return math.copysign(math.inf, part)
