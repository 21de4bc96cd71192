"""Floating-point numbers as Go prints them: with %v, and in JSON. Error texts of the API server quote both."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["json_float", "shown_float"]

_LEAST_EXPONENT: Final = -4
_PLAIN_DIGITS: Final = 6
"""Go's %v switches to an exponent from ten to this power on, where the shortest digits are printed."""


def shown_float(value: float) -> str:
    """Return the shortest text that reads back as `value`, as strconv.FormatFloat(value, 'g', -1, 64) gives it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign, figures, power = _shortest(value)
    if not figures:
        return f"{sign}0"
    if power < _LEAST_EXPONENT or power >= _PLAIN_DIGITS:
        mantissa = figures[0] + (f".{figures[1:]}" if len(figures) > 1 else "")
        return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return _plain(sign, figures, power)


def _shortest(value: float) -> tuple[str, str, int]:
    """Return sign, significant figures and the power of ten of the first figure; zero has no figures."""
    text = repr(float(value))
    sign = "-" if text.startswith("-") else ""
    digits, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = digits.partition(".")
    figures = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(figures)
    power = len(whole) - leading_zeros - 1 + int(exponent or 0)
    return sign, figures.rstrip("0"), power


def _plain(sign: str, figures: str, power: int) -> str:
    """Return a number without an exponent."""
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{figures}"
    figures = figures.ljust(power + 1, "0")
    rest = figures[power + 1 :]
    return f"{sign}{figures[: power + 1]}{f'.{rest}' if rest else ''}"


_LEAST_JSON_EXPONENT: Final = -6
_PLAIN_JSON_DIGITS: Final = 21


def json_float(value: float) -> str:
    """Return a finite number as encoding/json writes it: `2` for 2.0, an exponent below -6 and from 21 on."""
    sign, figures, power = _shortest(value)
    if not figures:
        return f"{sign}0"
    if power < _LEAST_JSON_EXPONENT or power >= _PLAIN_JSON_DIGITS:
        mantissa = figures[0] + (f".{figures[1:]}" if len(figures) > 1 else "")
        return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power)}"
    return _plain(sign, figures, power)
