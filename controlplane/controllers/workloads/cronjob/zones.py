"""Time zones by the data of package `tzdata`: the same on every machine, whatever it has installed.

Local times that do not exist, or exist twice, are read as Go's time.Date reads them.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

_EPOCH_DAY = date(1970, 1, 1).toordinal()
DAY = 86400


class UnknownTimeZone(ValueError):
    """No zone has this name; the text is Go's."""


@lru_cache(maxsize=256)
def load_location(name: str) -> tzinfo:
    """The zone of a name; "" and UTC are UTC. Raises UnknownTimeZone."""
    if name in ("", "UTC"):
        return UTC
    parts = name.split("/")
    if ".." in parts or name.startswith("/") or "\\" in name:
        raise UnknownTimeZone("time: invalid location name")
    found = files("tzdata").joinpath("zoneinfo", *parts)
    if not found.is_file() or not name[0].isupper() or name.endswith(".py"):
        raise UnknownTimeZone(f"unknown time zone {name}")
    with found.open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def local(seconds: int, zone: tzinfo) -> datetime:
    """Return the local time in the zone at that second since the epoch."""
    return datetime.fromtimestamp(seconds, zone)


def offset(seconds: int, zone: tzinfo) -> int:
    """Return the offset of the zone from UTC then, in seconds."""
    shift = local(seconds, zone).utcoffset()
    return 0 if shift is None else int(shift.total_seconds())


def at(zone: tzinfo, year: int, month: int, day: int, hour: int = 0) -> int:
    """The second since the epoch at which a clock in the zone shows that; month and day may lie beyond their range."""
    years, months = divmod(month - 1, 12)
    days = date(year + years, months + 1, 1).toordinal() - _EPOCH_DAY + day - 1
    shown = days * DAY + hour * 3600
    # Go guesses the offset as if what is shown were UTC, and corrects it once if that lies in another period.
    guess = offset(shown, zone)
    return shown - offset(shown - guess, zone) if guess else shown


def rfc3339(seconds: int, zone: tzinfo) -> str:
    """The time with the zone's offset, Z where that is zero."""
    text = local(seconds, zone).strftime("%Y-%m-%dT%H:%M:%S")
    minutes = offset(seconds, zone) // 60
    if not minutes:
        return f"{text}Z"
    sign = "-" if minutes < 0 else "+"
    return f"{text}{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
