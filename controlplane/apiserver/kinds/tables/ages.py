"""Durations as tables show them. Upstream: apimachinery pkg/util/duration."""

from __future__ import annotations

from controlplane.api.times import SECOND, parse_time

__all__ = ["age", "human_duration"]

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human_duration(seconds: int) -> str:
    """Two units at most, coarser the longer it is."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    minutes = seconds // _MINUTE
    if minutes < 10:
        rest = seconds % _MINUTE
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = seconds // _HOUR
    if hours < 8:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        rest = hours % 24
        return f"{days}d{rest}h" if rest else f"{days}d"
    if seconds < 2 * _YEAR:
        return f"{days}d"
    years = days // 365
    if seconds < 8 * _YEAR:
        rest = days % 365
        return f"{years}y{rest}d" if rest else f"{years}y"
    return f"{years}y"


def age(text: str | None, now: int) -> str:
    """Return the time since a timestamp in short form."""
    if not text:
        return "<unknown>"
    return human_duration((now - parse_time(text)) // SECOND)
