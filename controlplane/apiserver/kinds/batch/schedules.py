"""Cron schedules and time zones, with the errors of upstream's parser (robfig/cron, standard form)."""

from __future__ import annotations

from functools import cache

from controlplane.api.durations import DurationError, parse_duration
from controlplane.apiserver.schema.types import load_data

__all__ = ["known_zone", "schedule_problem"]

_MONTHS = {
    name: index + 1
    for index, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split())
}


_DAYS = {name: index for index, name in enumerate("sun mon tue wed thu fri sat".split())}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)


_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = "@every "
_ZONES = ("TZ=", "CRON_TZ=")


class _ScheduleError(ValueError):
    pass


def schedule_problem(text: str) -> str:
    """Return the error of a schedule; "" if there is none."""
    try:
        _parse(text)
    except _ScheduleError as error:
        return str(error)
    return ""


def _parse(text: str) -> None:
    if not text:
        raise _ScheduleError("empty spec string")
    if text.startswith(_ZONES) and " " in text:
        zone, _, text = text.partition("=")[2].partition(" ")
        if zone and zone != "Local" and not known_zone(zone):
            raise _ScheduleError(f"provided bad location {zone}: unknown time zone {zone}")
        text = text.strip()
    if text.startswith("@"):
        if text.startswith(_EVERY):
            try:
                parse_duration(text.removeprefix(_EVERY))
            except DurationError as error:
                raise _ScheduleError(f"failed to parse duration {text}: {error}") from None
            return
        if text in _DESCRIPTORS:
            return
        raise _ScheduleError(f"unrecognized descriptor: {text}")
    fields = text.split()
    if len(fields) != 5:
        listed = " ".join(fields)
        raise _ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{listed}]")
    for field, (low, high, names) in zip(fields, _FIELDS):
        for part in field.split(","):
            if part:
                _range(part, low, high, names)


def _number(text: str, names: dict[str, int]) -> int:
    found = names.get(text.lower())
    if found is not None:
        return found
    try:
        value = int(text)
    except ValueError:
        raise _ScheduleError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        ) from None
    if value < 0:
        raise _ScheduleError(f"negative number ({value}) not allowed: {text}")
    return value


def _range(part: str, low: int, high: int, names: dict[str, int]) -> None:
    pieces = part.split("/")
    ends = pieces[0].split("-")
    single = len(ends) == 1
    if ends[0] in ("*", "?"):
        start, end = low, high
        if len(ends) > 1:
            raise _ScheduleError(f"too many hyphens: {part}")
    else:
        start = _number(ends[0], names)
        if single:
            end = start
        elif len(ends) == 2:
            end = _number(ends[1], names)
        else:
            raise _ScheduleError(f"too many hyphens: {part}")
    step = 1
    if len(pieces) == 2:
        step = _number(pieces[1], {})
        if single and ends[0] not in ("*", "?"):
            end = high
    elif len(pieces) > 2:
        raise _ScheduleError(f"too many slashes: {part}")
    if start < low:
        raise _ScheduleError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise _ScheduleError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise _ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise _ScheduleError(f"step of range should be a positive number: {part}")


@cache
def _zones() -> frozenset[str]:
    return frozenset(load_data("timezones"))


def known_zone(name: str) -> bool:
    """Return whether a time zone of that name exists."""
    return name in _zones()
