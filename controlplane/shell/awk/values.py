"""Values of awk: numbers, strings, strings of input that look like numbers, and what was never set."""

from __future__ import annotations

import math
import re
from typing import Any, Final

__all__ = [
    "UNSET",
    "InputText",
    "Value",
    "compared",
    "formatted",
    "given",
    "number",
    "text",
    "true",
]

_PREFIX: Final = re.compile(
    r"[ \t\n\r\f\v]*([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
)
_DIRECTIVE: Final = re.compile(r"%([-+ #0]{0,5})(\*|[0-9]{0,3})(?:\.(\*|[0-9]{0,3}))?([a-zA-Z%])")
_WHOLE: Final = 1e16
WIDEST: Final = 999


class InputText(str):
    """A string of input that looks like a number, and is compared as one."""

    __slots__ = ()


class _Unset:
    """Both 0 and the empty string."""


UNSET: Final = _Unset()
Value = float | str | _Unset


def given(value: str) -> str:
    """Return a string of input, as one that looks like a number if it does."""
    found = _PREFIX.match(value)
    return InputText(value) if found and not value[found.end() :].strip() else value


def number(value: Value) -> float:
    """Return a value as a number: of a string what it begins with."""
    if isinstance(value, float):
        return value
    found = _PREFIX.match(value) if isinstance(value, str) else None
    return float(found[1]) if found else 0.0


def text(value: Value, form: str = "%.6g") -> str:
    """Return a value as a string; whole numbers without a point, others by `form`."""
    if isinstance(value, str):
        return value
    if not isinstance(value, float):
        return ""
    if math.isfinite(value) and value == int(value) and abs(value) < _WHOLE:
        return str(int(value))
    return formatted(form, [value])


def true(value: Value) -> bool:
    """Return whether a value counts as true."""
    if isinstance(value, InputText):
        return number(value) != 0
    return bool(value) if isinstance(value, float | str) else False


def compared(left: Value, right: Value, form: str) -> int:
    """Return -1, 0 or 1: as numbers where both are or look like some, else as strings."""
    if all(not isinstance(each, str) or isinstance(each, InputText) for each in (left, right)):
        one: Any = number(left)
        other: Any = number(right)
    else:
        one, other = text(left, form), text(right, form)
    return int(one > other) - int(one < other)


def formatted(form: str, values: list[Value]) -> str:
    """Return what printf makes of a format and values; missing ones are unset."""
    rest = iter(values)

    def size(part: str | None) -> str:
        if part != "*":
            return part or ""
        return str(max(-WIDEST, min(WIDEST, int(number(next(rest, UNSET))))))

    def one(found: re.Match[str]) -> str:
        flags, kind = found[1], found[4]
        if kind == "%":
            return "%"
        width = size(found[2])
        precision = "" if found[3] is None else f".{size(found[3]) or 0}"
        value = next(rest, UNSET)
        if kind == "c":
            shown = (
                chr(int(number(value)) & 0x1FFFFF)
                if isinstance(value, float) and 0 <= value < 0x110000
                else text(value)[:1]
            )
            return f"%{flags}{width}s".replace("0", "", flags.count("0")) % shown
        if kind == "s":
            return f"%{flags}{width}{precision}s" % text(value)
        amount = number(value)
        if kind in "di" and math.isfinite(amount):
            return f"%{flags}{width}{precision}d" % int(amount)
        if kind in "ouxX" and math.isfinite(amount):
            return f"%{flags}{width}{precision}{'d' if kind == 'u' else kind}" % int(amount)
        if kind in "diouxX":
            return f"%{flags.replace('0', '')}{width}s" % amount
        if kind in "eEfFgG":
            return f"%{flags}{width}{precision}{kind}" % amount
        return found[0]

    return _DIRECTIVE.sub(one, form)
