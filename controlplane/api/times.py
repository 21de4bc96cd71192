"""Times of the API: RFC 3339 text outside, integer nanoseconds since the Unix epoch inside."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final, NewType

from controlplane.api.equality import remembered

Time = NewType("Time", int)
"""Nanoseconds since the Unix epoch."""

SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_FORM: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?([Zz]|[+-]\d\d:\d\d)"
)


@lru_cache(maxsize=8192)
def _seconds_text(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    day = date.fromordinal(_EPOCH_DAY + days)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{day.isoformat()}T{hours:02}:{minutes:02}:{rest:02}"


@lru_cache(maxsize=8192)
def _whole(seconds: int) -> str:
    """One text for all objects of one second."""
    return _seconds_text(seconds) + "Z"


def format_time(now: int) -> str:
    """Whole seconds, as in `creationTimestamp`: 2026-01-01T00:00:00Z; the fraction is cut off."""
    return _whole(now // SECOND)


def format_nano_time(now: int) -> str:
    """As Go's RFC3339Nano in UTC: with as many digits of the second as there are."""
    seconds, nanos = divmod(now, SECOND)
    return f"{_seconds_text(seconds)}{_fraction(nanos)}Z"


def go_time(now: int) -> str:
    """As Go prints a time in UTC: 2026-01-01 00:00:00 +0000 UTC, with a fraction if there is one."""
    seconds, nanos = divmod(now, SECOND)
    date, _, clock = _seconds_text(seconds).partition("T")
    return f"{date} {clock}{_fraction(nanos)} +0000 UTC"


def _fraction(nanos: int) -> str:
    return f".{nanos:09}".rstrip("0") if nanos else ""


def format_micro_time(now: int) -> str:
    """Microseconds, as in lease and event times: 2026-01-01T00:00:00.000000Z."""
    seconds, nanos = divmod(now, SECOND)
    return f"{_seconds_text(seconds)}.{nanos // 1000:06}Z"


@remembered(8192)
def parse_time(text: str) -> Time:
    """Nanoseconds of an RFC 3339 time with any offset; ValueError for anything else."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise ValueError(f"{text!r} is not an RFC 3339 time") from None
    seconds = days * 86400 + hour * 3600 + minute * 60 + second
    zone = match[8]
    if zone not in "Zz":
        offset = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
        seconds += -offset if zone[0] == "+" else offset
    nanos = int((match[7] or "").ljust(9, "0")[:9])
    return Time(seconds * SECOND + nanos)


_GO_FORM: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T)([0-9]{1,2})(:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?)"
    r"(Z|[+-](?:[01][0-9]|2[0-4]):(?:[0-5][0-9]|60))"
)
_LEAP_CYCLE: Final = 146_097 * 86_400 * SECOND
"""400 years: the calendar repeats, and Python's begins with the year 1."""


def parse_go_time(text: str) -> Time:
    """Nanoseconds of a time that Go's time.Parse reads with the layout RFC3339; ValueError for anything else.

    Go wants capital letters and an offset of at most 24 hours and 60 minutes, and takes an hour of one digit
    and the year 0.
    """
    match = _GO_FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    written = f"{match[1]}{match[2]:0>2}{match[3]}{match[4]}"
    if written.startswith("0000"):
        return Time(parse_time("0400" + written[4:]) - _LEAP_CYCLE)
    return parse_time(written)
