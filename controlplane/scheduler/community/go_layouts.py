"""Times in layouts of Go's package time, for the common elements."""

from __future__ import annotations

import re
from calendar import timegm
from typing import Final

from controlplane.api.times import SECOND

__all__ = ["parse"]

_ELEMENTS: Final = (
    ("2006", r"(?P<year>\d{4})"),
    ("01", r"(?P<month>\d\d)"),
    ("02", r"(?P<day>\d\d)"),
    ("15", r"(?P<hour>\d\d)"),
    ("04", r"(?P<minute>\d\d)"),
    ("05", r"(?P<second>\d\d)(?:[.,]\d+)?"),
    ("Z07:00", r"(?P<zone>Z|[+-]\d\d:\d\d)"),
    ("-07:00", r"(?P<zone>[+-]\d\d:\d\d)"),
    ("-0700", r"(?P<zone>[+-]\d{4})"),
    ("MST", r"(?P<name>[A-Z]{3,4})"),
)


def parse(layout: str, text: str) -> int:
    """Return nanoseconds since the epoch of a time in a layout. Raises ValueError."""
    pattern, rest = "", layout
    while rest:
        for element, form in _ELEMENTS:
            if rest.startswith(element):
                pattern += form
                rest = rest[len(element) :]
                break
        else:
            pattern += re.escape(rest[0])
            rest = rest[1:]
    found = re.fullmatch(pattern, text)
    if found is None:
        raise ValueError(f"{text!r} does not have the layout {layout!r}")
    parts = found.groupdict()
    date = tuple(
        int(parts.get(name) or least) for name, least in (("year", 0), ("month", 1), ("day", 1))
    )
    clock = tuple(int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    if not (1 <= date[1] <= 12 and 1 <= date[2] <= 31 and clock < (24, 0, 0)):
        raise ValueError(f"{text!r} is no time")
    zone = (parts.get("zone") or "Z").replace(":", "")
    offset = 0
    if zone != "Z":
        offset = (int(zone[1:3]) * 3600 + int(zone[3:5]) * 60) * (-1 if zone[0] == "-" else 1)
    return (timegm((*date, *clock, 0, 0, 0)) - offset) * SECOND
