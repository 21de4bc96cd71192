"""Floating-point numbers as Go's fmt prints them with %v, which error texts of the API server quote."""

from __future__ import annotations

from typing import Final

__all__ = ["shown_float"]

_LEAST_EXPONENT: Final = -4
_PLAIN_DIGITS: Final = 6
"""Go's %v switches to an exponent from ten to this power on, where the shortest digits are printed."""


def shown_float(value: float) -> str:
    """Return the shortest text that reads back as `value`, as strconv.FormatFloat(value, 'g', -1, 64) gives it."""
    text = repr(float(value))
    if text in ("inf", "-inf", "nan"):
        return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}[text]
    sign = "-" if text.startswith("-") else ""
    digits, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = digits.partition(".")
    figures = (whole + fraction).lstrip("0")
    if not figures.strip("0"):
        return f"{sign}0"
    leading_zeros = len(whole + fraction) - len(figures)
    power = len(whole) - leading_zeros - 1 + int(exponent or 0)
    figures = figures.rstrip("0")
    if power < _LEAST_EXPONENT or power >= _PLAIN_DIGITS:
        mantissa = figures[0] + (f".{figures[1:]}" if len(figures) > 1 else "")
        return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{figures}"
    figures = figures.ljust(power + 1, "0")
    rest = figures[power + 1 :]
    return f"{sign}{figures[: power + 1]}{f'.{rest}' if rest else ''}"
