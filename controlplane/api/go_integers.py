"""Whole numbers as Go computes with them: division towards zero, and 64 bits that wrap around."""

from __future__ import annotations

__all__ = ["divide", "int64"]


def divide(left: int, right: int) -> int:
    """Return a quotient cut towards zero. Raises ZeroDivisionError."""
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


def int64(value: int) -> int:
    """Return a number as 64 bits hold it: what does not fit wraps around."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
