"""Durations as Go writes and reads them: 1m30s, 1.5s, 10ms."""

from __future__ import annotations

import re


class DurationError(ValueError):
    """A text that is no duration; the message is Go's."""


_DURATION_PART = re.compile(r"([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}


_DIGITS = 18
"""More digits after the point change nothing, and more before it are more than 64 bits hold of most units."""
_LIMIT = 1 << 63
"""Go counts nanoseconds in 64 bits."""


def parse_duration(text: str) -> int:
    """Nanoseconds of a Go duration such as 1m30s. Raises DurationError."""
    sign, rest = 1, text
    if rest[:1] in ("-", "+"):
        sign = -1 if rest[0] == "-" else 1
        rest = rest[1:]
    if rest == "0":
        return 0
    total, position = 0, 0
    while part := _DURATION_PART.match(rest, position):
        whole, _, fraction = part.group(1).partition(".")
        unit = _UNITS[part.group(2)]
        whole, fraction = whole.lstrip("0"), fraction[:_DIGITS]
        total += int(whole or 0) * unit if len(whole) <= _DIGITS else _LIMIT
        if fraction:
            total += int(fraction) * unit // 10 ** len(fraction)
        position = part.end()
    if position != len(rest) or not rest or total > _LIMIT - (sign > 0):
        raise DurationError(_problem(text, rest[position:]))
    return sign * total


_NUMBER = re.compile(r"[0-9]++(?:\.[0-9]*+)?|\.[0-9]++")
_UNIT = re.compile(r"[^0-9.]*")


def _problem(text: str, rest: str) -> str:
    """Return Go's error text for a duration that is malformed from `rest` on. Upstream: time.ParseDuration."""
    number = _NUMBER.match(rest)
    unit = None if number is None else _UNIT.match(rest, number.end())
    if unit is None or unit[0] in _UNITS:
        return f"time: invalid duration {_quoted(text)}"
    if not unit[0]:
        return f"time: missing unit in duration {_quoted(text)}"
    return f"time: unknown unit {_quoted(unit[0])} in duration {_quoted(text)}"


def _quoted(text: str) -> str:
    """Return a text in quotes as package time writes it, characters beyond ASCII as bytes."""
    shown = (
        f"\\{chr(byte)}"
        if byte in b'"\\'
        else chr(byte)
        if 0x20 <= byte < 0x80
        else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "surrogatepass")
    )
    return f'"{"".join(shown)}"'


def format_duration(nanoseconds: int) -> str:
    """A duration as Go prints it: 1m30s, 1.5s, 10ms."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if rest < size * 1000:
            return f"{sign}{_decimal(rest, size)}{unit}"
    seconds = rest % 60_000_000_000
    minutes = rest // 60_000_000_000
    out = f"{_decimal(seconds, 1_000_000_000)}s"
    if minutes:
        out = f"{minutes % 60}m{out}"
        if minutes >= 60:
            out = f"{minutes // 60}h{out}"
    return sign + out


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{str(rest).zfill(digits).rstrip('0')}"
