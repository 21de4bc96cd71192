"""Values that only expressions know, and JSON values as an expression sees them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from attrs import frozen

from controlplane.api.tree import Tree

__all__ = ["Keyed", "Optional", "Unordered", "duration", "moment", "seen"]

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[Tt](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d))?")


@frozen(eq=False)
class Optional:
    """A value that may be missing."""

    value: Any = None
    present: bool = False


class Unordered(list[Any]):
    """A list of type set: equal to one with the same elements in any order."""


class Keyed(list[Any]):
    """A list of type map: equal to one with the same elements in any order."""


_LONGEST_S = Fraction(1 << 63, 10**9)


def duration(text: str) -> timedelta:
    """A Go duration such as `1h30m`. ValueError."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return timedelta()
    total, at = Fraction(0), 0
    for match in _parts(rest):
        total += Fraction(match[1]) * _UNITS[match[2]]
        at = match.end()
    if not rest or at != len(rest) or total > _LONGEST_S:
        raise ValueError(text)
    return timedelta(microseconds=sign * float(total * 10**6))


def _parts(text: str) -> Iterator[re.Match[str]]:
    at = 0
    while (match := _PART.match(text, at)) is not None:
        yield match
        at = match.end()


def moment(text: str) -> datetime:
    """A time or a date. ValueError."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    if match[2] is None:
        return datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    zone = "+00:00" if match[4] in "Zz" else match[4]
    fraction = (match[3] or "")[:7]
    whole = f"{match[1]}T{match[2]}{fraction.ljust(7, '0') if fraction else ''}{zone}"
    return datetime.fromisoformat(whole)


def _text(value: str, form: str) -> Any:
    try:
        if form == "byte":
            return base64.b64decode(value, validate=True)
        if form == "duration":
            return duration(value)
        if form in ("date", "date-time"):
            return moment(value)
    except (ValueError, binascii.Error):
        return value
    return value


def seen(value: Any, schema: Tree) -> Any:
    """A JSON value as rules of its schema see it: times are times, numbers are floats, sets have no order."""
    if isinstance(value, str):
        form = schema.get("format")
        return _text(value, form) if form else value
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if schema.get("type") == "number" else value
    if isinstance(value, list):
        items = schema.get("items")
        inner = [seen(item, items) for item in value] if isinstance(items, dict) else value
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            return Unordered(inner)
        return Keyed(inner) if kind == "map" else inner
    if isinstance(value, dict):
        known, more = schema.get("properties") or {}, schema.get("additionalProperties")
        out = {}
        for name, item in value.items():
            part = known.get(name, more)
            out[name] = seen(item, part) if isinstance(part, dict) else item
        return out
    return value
