"""Times in layouts of Go's package time, for the common elements."""

from __future__ import annotations

import re
from calendar import timegm
from typing import Final

from controlplane.api.times import SECOND

__all__ = ["parse"]

_DIGITS: Final = {
    "2006": ("year", 4),
    "01": ("month", 2),
    "02": ("day", 2),
    "15": ("hour", 2),
    "04": ("minute", 2),
    "05": ("second", 2),
}
_ZONES: Final = {
    "Z07:00": re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}"),
    "-07:00": re.compile(r"[+-][0-9]{2}:[0-9]{2}"),
    "-0700": re.compile(r"[+-][0-9]{4}"),
}
_NAME: Final = re.compile(r"[A-Z]{3,4}")
_FRACTION: Final = re.compile(r"[.,][0-9]+")


def parse(layout: str, text: str) -> int:
    """Return nanoseconds since the epoch of a time in a layout. Raises ValueError."""
    found = {"year": 0, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
    wrong = ValueError(f"{text!r} does not have the layout {layout!r}")
    zone, at, rest = "Z", 0, layout
    while rest:
        element = next((each for each in (*_DIGITS, *_ZONES, "MST") if rest.startswith(each)), "")
        if element in _DIGITS:
            name, size = _DIGITS[element]
            digits = text[at : at + size]
            if len(digits) != size or not (digits.isascii() and digits.isdigit()):
                raise wrong
            found[name] = int(digits)
            at += size
            fraction = _FRACTION.match(text, at) if name == "second" else None
            at = fraction.end() if fraction else at
        elif element:
            match = (_ZONES.get(element) or _NAME).match(text, at)
            if match is None:
                raise wrong
            zone = match.group() if element in _ZONES else zone
            at = match.end()
        elif text[at : at + 1] == rest[0]:
            at += 1
        else:
            raise wrong
        rest = rest[len(element) or 1 :]
    if at != len(text):
        raise wrong
    return (_seconds(found, text) - _offset(zone)) * SECOND


def _seconds(found: dict[str, int], text: str) -> int:
    year, month, day, *clock = found.values()
    if not (1 <= month <= 12 and 1 <= day <= 31 and tuple(clock) < (24, 0, 0)):
        raise ValueError(f"{text!r} is no time")
    return timegm((year, month, day, *clock, 0, 0, 0))


def _offset(zone: str) -> int:
    """Return the seconds that a zone is ahead of UTC."""
    if zone == "Z":
        return 0
    plain = zone.replace(":", "")
    return (int(plain[1:3]) * 3600 + int(plain[3:5]) * 60) * (-1 if plain[0] == "-" else 1)
