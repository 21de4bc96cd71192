"""Texts made of a pattern and values: `'%s has %d'.format([name, count])`.

Upstream: cel-go ext/formatting.go, with numbers as English has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from math import isinf, isnan
from typing import Any, Final

from attrs import frozen

from controlplane.api.validation import quote
from controlplane.apiserver.kinds.custom.cel.conversions import to_string, type_name
from controlplane.apiserver.kinds.custom.cel.maps import items_of
from controlplane.apiserver.kinds.custom.cel.operators import failed
from controlplane.apiserver.kinds.custom.cel.tree import CelError

__all__ = ["CLAUSES", "Clause", "clauses", "formatted", "refused_type"]

_DIGITS: Final = 5
"""More digits no precision has: what is written counts only afterwards."""
_PLACES: Final = 6
_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_ANY: Final = (
    "list",
    "map",
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "timestamp",
    "bytes",
    "duration",
    "type",
    "null",
)
CLAUSES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "s": (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        "types, durations, and timestamps",
        _ANY,
    ),
    "d": ("decimal clause can only be used on integers", ("int", "uint")),
    "f": ("fixed-point clause can only be used on doubles", ("double", "string")),
    "e": ("scientific clause can only be used on doubles", ("double", "string")),
    "b": ("only integers and bools can be formatted as binary", ("int", "uint", "bool")),
    "x": (
        "only integers, byte buffers, and strings can be formatted as hex",
        ("int", "uint", "string", "bytes"),
    ),
    "o": ("octal clause can only be used on integers", ("int", "uint")),
}
"""Clauses with what is said of values that they are not for, and the types that they are for."""


@frozen
class Clause:
    """A place for a value: its letter, and how many places it has after the point."""

    letter: str
    places: int


def refused_type(letter: str, name: str) -> CelError:
    """The failure of a clause on a value of a type that it is not for."""
    return failed(f"error during formatting: {CLAUSES[letter.lower()][0]}, was given {name}")


def clauses(text: str, count: int, *, checked: bool = False) -> Iterator[str | Clause]:
    """Yield the parts of a pattern, one by one.

    Args:
        text: the pattern.
        count: the number of values.
        checked: the pattern is checked before there are values.

    Raises:
        CelError: a clause is invalid, or has no value.
    """
    at = index = 0
    while at < len(text):
        if text[at] != "%":
            end = text.find("%", at)
            end = len(text) if end < 0 else end
            yield text[at:end]
            at = end
            continue
        if text[at + 1 : at + 2] == "%":
            yield "%"
            at += 2
            continue
        if not checked and index >= count:
            raise failed(f"index {index} out of range")
        if at + 1 >= len(text):
            raise failed("unexpected end of string")
        if index >= count:
            raise failed(f"index {index} out of range")
        at, clause = _clause(text, at + 1)
        yield clause
        index += 1


def _clause(text: str, at: int) -> tuple[int, Clause]:
    """The clause at a place, and the place after it."""
    wrong = "could not parse formatting clause: "
    places = _PLACES
    if text[at] == ".":
        start = at = at + 1
        while at < len(text) and text[at] in "0123456789":
            at += 1
        digits = text[start:at]
        if at >= len(text):
            raise failed(
                f"{wrong}error while parsing precision: could not find end of precision specifier"
            )
        if not digits:
            raise failed(
                f"{wrong}error while parsing precision: error while converting precision to "
                'integer: strconv.Atoi: parsing "": invalid syntax'
            )
        if len(digits) > _DIGITS:
            raise failed(f"{wrong}precision {digits[:20]} is too large")
        places = int(digits)
    letter = text[at]
    if letter.lower() not in CLAUSES or (letter != "X" and letter.isupper()):
        raise failed(f'{wrong}unrecognized formatting clause "{letter}"')
    return at + 1, Clause(letter, places)


def formatted(text: str, values: list[Any]) -> str:
    """The pattern with the values in their places. CelError."""
    left = iter(values)
    return "".join(
        part if isinstance(part, str) else _shown(part, next(left))
        for part in clauses(text, len(values))
    )


_NAMED: Final = {
    "null_type": "null",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
}
_SPECIAL: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def _shown(clause: Clause, value: Any) -> str:
    letter = clause.letter
    name = type_name(value)
    if _NAMED.get(name, name) not in CLAUSES[letter.lower()][1]:
        raise refused_type(letter, name)
    if letter in "fe":
        if isinstance(value, str):
            if value not in _SPECIAL:
                raise refused_type(letter, name)
            value = _SPECIAL[value]
        return _fixed(value, clause.places) if letter == "f" else _scientific(value, clause.places)
    if letter == "s":
        return _text(value)
    if letter == "d":
        return str(int(value))
    if letter in "xX":
        raw = value.encode() if isinstance(value, str) else value
        found = raw.hex() if isinstance(raw, bytes) else f"{int(raw):x}"
        return found.upper() if letter == "X" else found
    return f"{int(value):o}" if letter == "o" else f"{int(value):b}"


def _beyond(value: float) -> str:
    if isnan(value):
        return "NaN"
    return "∞" if value > 0 else "-∞"


def _fixed(value: float, places: int) -> str:
    """A number with its thousands apart."""
    return _beyond(value) if isnan(value) or isinf(value) else f"{value:,.{places}f}"


def _scientific(value: float, width: int) -> str:
    """A number with its power of ten; upstream takes the precision for the width."""
    if isnan(value) or isinf(value):
        return _beyond(value).rjust(width)
    mantissa, _, exponent = f"{value:.{_PLACES}e}".partition("e")
    power = int(exponent)
    raised = f"{'-' if power < 0 else ''}{abs(power):02d}".translate(_RAISED)
    return f"{mantissa}×10{raised}".rjust(width)


def _text(value: Any) -> str:
    """A value as a text; lists and maps as they would be written down."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        pairs = sorted((_written_key(key), _written(item)) for key, item in items_of(value))
        return f"{{{', '.join(f'{key}:{item}' for key, item in pairs)}}}"
    return to_string(value)


def _written_key(value: Any) -> str:
    """A key of a map as it would be written down. CelError for one of a type that has no such form."""
    if not isinstance(value, str | int):
        name = type_name(value)
        raise failed(f"error during formatting: no formatting function for map key of type {name}")
    return _written(value)


def _written(value: Any) -> str:
    """A value within a list or map as it would be written down."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return f"b{quote(to_string(value))}"
    if isinstance(value, float):
        return f"{value:.{_PLACES}f}"
    if isinstance(value, timedelta | datetime):
        name = "duration" if isinstance(value, timedelta) else "timestamp"
        return f'{name}("{to_string(value)}")'
    return _text(value)
