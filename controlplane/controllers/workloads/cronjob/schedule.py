"""Cron schedules: five fields, descriptors such as @daily, and @every. Texts of errors are those of robfig/cron v3.

Times are nanoseconds since the epoch; `NEVER` is what comes after the last time.
"""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from typing import Final, NamedTuple, Protocol

from attrs import frozen

from controlplane.api.durations import DurationError, parse_duration
from controlplane.api.equality import remembered
from controlplane.api.times import SECOND
from controlplane.controllers.workloads.cronjob.zones import (
    UnknownTimeZone,
    at,
    load_location,
    local,
)

NEVER: Final = -62_135_596_800 * SECOND
"""Go's zero time: the answer of a schedule that finds no time within five years."""
YEARS: Final = 5
HOUR: Final = 3600
_NUMBER = re.compile(r"[+-]?[0-9]+")
_LARGEST = 2**63 - 1


class ScheduleError(ValueError):
    """A text that is no schedule."""


class Schedule(Protocol):
    """Times at which something is due."""

    def next(self, after: int) -> int:
        """The first time after another one."""


@frozen
class Every:
    """At a constant delay, rounded down to whole seconds, at least one."""

    delay_ns: int

    def next(self, after: int) -> int:
        """The next time, on a whole second."""
        return after - after % SECOND + self.delay_ns


@frozen
class Field:
    """The values of a field; `any` if it was written as a star."""

    values: frozenset[int]
    any: bool


@frozen
class Fields:
    """Five fields, in a time zone."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    zone: tzinfo

    def next(self, after: int) -> int:
        """The next time whose fields all fit; days as cron has it: either kind of day, unless one is a star."""
        if after == NEVER:
            return NEVER
        seconds = after // SECOND + 1
        limit = local(seconds, self.zone).year + YEARS
        found: int | None = None
        cut = False
        while found is None:
            if local(seconds, self.zone).year > limit:
                return NEVER
            seconds, cut, found = self._round(seconds, cut=cut)
        return found * SECOND

    def _round(self, seconds: int, *, cut: bool) -> tuple[int, bool, int | None]:
        """Go from field to field; where one runs over, the greater ones have to be looked at again.

        `cut` says that the lesser fields are at their beginning already.
        """
        zone = self.zone
        while (shown := local(seconds, zone)).month not in self.month.values:
            if not cut:
                cut = True
                seconds = at(zone, shown.year, shown.month, 1)
                shown = local(seconds, zone)
            seconds = _moved(seconds, zone, months=1)
            if local(seconds, zone).month == 1:
                return seconds, cut, None
        while not self._day_fits(seconds):
            if not cut:
                cut = True
                shown = local(seconds, zone)
                seconds = at(zone, shown.year, shown.month, shown.day)
            seconds = _to_midnight(_moved(seconds, zone, days=1), zone)
            if local(seconds, zone).day == 1:
                return seconds, cut, None
        while (shown := local(seconds, zone)).hour not in self.hour.values:
            if not cut:
                cut = True
                seconds = at(zone, shown.year, shown.month, shown.day, shown.hour)
            seconds += HOUR
            if local(seconds, zone).hour == 0:
                return seconds, cut, None
        while local(seconds, zone).minute not in self.minute.values:
            if not cut:
                cut = True
                seconds -= seconds % 60
            seconds += 60
            if local(seconds, zone).minute == 0:
                return seconds, cut, None
        while local(seconds, zone).second != 0:
            cut = True
            seconds += 1
            if local(seconds, zone).second == 0:
                return seconds, cut, None
        return seconds, cut, seconds

    def _day_fits(self, seconds: int) -> bool:
        shown = local(seconds, self.zone)
        day = shown.day in self.day.values
        weekday = shown.isoweekday() % 7 in self.weekday.values
        return (day and weekday) if self.day.any or self.weekday.any else (day or weekday)


def _moved(seconds: int, zone: tzinfo, *, months: int = 0, days: int = 0) -> int:
    """Return the same time of day a number of months or days later, as Go's AddDate has it."""
    shown = local(seconds, zone)
    hour = at(zone, shown.year, shown.month + months, shown.day + days, shown.hour)
    return hour + shown.minute * 60 + shown.second


def _to_midnight(seconds: int, zone: tzinfo) -> int:
    """Undo what a change of the clock at midnight did."""
    hour = local(seconds, zone).hour
    if hour > 12:
        return seconds + (24 - hour) * HOUR
    return seconds - hour * HOUR


class _Bounds(NamedTuple):
    low: int
    high: int
    names: dict[str, int]


_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_WEEKDAYS = "sun mon tue wed thu fri sat".split()
_MINUTE = _Bounds(0, 59, {})
_HOUR = _Bounds(0, 23, {})
_DAY = _Bounds(1, 31, {})
_MONTH = _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)})
_WEEKDAY = _Bounds(0, 6, {name: number for number, name in enumerate(_WEEKDAYS)})
_BOUNDS = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "


@remembered(1024)
def parse(text: str) -> Schedule:
    """The schedule of a text, which may begin with TZ=zone or CRON_TZ=zone. Raises ScheduleError."""
    if not text:
        raise ScheduleError("empty spec string")
    zone: tzinfo = UTC
    if text.startswith(("TZ=", "CRON_TZ=")):
        name, _, text = text.partition("=")[2].partition(" ")
        try:
            zone = load_location(name)
        except UnknownTimeZone as error:
            raise ScheduleError(f"provided bad location {name}: {error}") from None
        text = text.strip()
    if text.startswith("@"):
        return _descriptor(text, zone)
    return _fields(text, zone)


def _descriptor(text: str, zone: tzinfo) -> Schedule:
    known = _DESCRIPTORS.get(text)
    if known is not None:
        return _fields(known, zone)
    if text.startswith(_EVERY):
        try:
            delay = parse_duration(text.removeprefix(_EVERY))
        except DurationError as error:
            raise ScheduleError(f"failed to parse duration {text}: {error}") from None
        return Every(max(delay - delay % SECOND, SECOND))
    raise ScheduleError(f"unrecognized descriptor: {text}")


def _fields(text: str, zone: tzinfo) -> Fields:
    parts = text.split()
    if len(parts) != len(_BOUNDS):
        said = f"expected exactly {len(_BOUNDS)} fields, found {len(parts)}: [{' '.join(parts)}]"
        raise ScheduleError(said)
    minute, hour, day, month, weekday = (
        _field(part, bounds) for part, bounds in zip(parts, _BOUNDS)
    )
    return Fields(minute, hour, day, month, weekday, zone)


def _field(text: str, bounds: _Bounds) -> Field:
    values: set[int] = set()
    star = False
    for part in filter(None, text.split(",")):
        chosen, whole = _range(part, bounds)
        values.update(chosen)
        star |= whole
    return Field(frozenset(values), star)


def _range(text: str, bounds: _Bounds) -> tuple[range, bool]:
    """The values of `number | number-number | *`, each maybe with `/number`; whether it is a star."""
    limits, *steps = text.split("/")
    low, *highs = limits.split("-")
    whole = low in ("*", "?")
    if whole:
        start, end = bounds.low, bounds.high
    else:
        start = _value(low, bounds)
        if len(highs) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        end = _value(highs[0], bounds) if highs else start
    step = 1
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    if steps:
        step = _number(steps[0])
        if not highs:
            end = bounds.high
        whole = whole and step <= 1
    if start < bounds.low:
        said = f"beginning of range ({start}) below minimum ({bounds.low}): {text}"
        raise ScheduleError(said)
    if end > bounds.high:
        raise ScheduleError(f"end of range ({end}) above maximum ({bounds.high}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step), whole


def _value(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return _number(text) if named is None else named


def _number(text: str) -> int:
    problem = "invalid syntax"
    if _NUMBER.fullmatch(text):
        value = int(text)
        if abs(value) <= _LARGEST:
            if value < 0:
                raise ScheduleError(f"negative number ({value}) not allowed: {text}")
            return value
        problem = "value out of range"
    said = f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {problem}'
    raise ScheduleError(said)
