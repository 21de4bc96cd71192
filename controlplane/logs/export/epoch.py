"""Virtual time as the time of the emulated cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from controlplane.logs.reading import Events

EPOCH_NS = 1_767_225_600_000_000_000
"""2026-01-01, at which runs begin unless they say otherwise."""


def epoch_of(log: Events) -> int:
    """Nanoseconds since 1970 at which the run began."""
    for line in log.between(0, 0):
        if line.event == "log":
            return int(line.data.get("epoch_ns", EPOCH_NS))
        break
    return EPOCH_NS


def at(epoch_ns: int, t: float) -> int:
    """Nanoseconds since 1970 of a virtual time in seconds."""
    return epoch_ns + round(t * 1_000_000_000)


def moment(epoch_ns: int, t: float) -> datetime:
    """The same as a date, to the microsecond."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at(epoch_ns, t) // 1000)


def micro_time(epoch_ns: int, t: float) -> str:
    """As metav1.MicroTime writes it: 2026-01-01T00:00:00.000000Z."""
    return moment(epoch_ns, t).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
