"""Times at which a cron job starts Jobs. Upstream: pkg/controller/cronjob/utils.go. Times are nanoseconds."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.api.times import SECOND

if TYPE_CHECKING:
    from controlplane.api.batch import CronJob
    from controlplane.controllers.workloads.cronjob.schedule import Schedule

DELTA_NS: Final = 100_000_000
"""The delay of the look at a cron job after the scheduled time, so that the time has surely come."""
MANY: Final = 100
LONGEST: Final = 2**63
"""Go's durations do not reach further, either way."""


class Missed(Enum):
    """The approximate number of missed times."""

    NONE = "none"
    FEW = "few"
    MANY = "many"


class Recent(NamedTuple):
    """The result of `most_recent`: the start of its search, the last due time, and the missed ones."""

    earliest: int
    time: int | None
    missed: Missed


class NoInterval(ValueError):
    """A schedule that is well formed but has no times, such as the 31st of February."""


def most_recent(
    cron_job: CronJob, now: int, schedule: Schedule, *, starting_deadline: bool
) -> Recent:
    """The last time at which a job should have been started. Raises NoInterval.

    The number of missed times is an estimate by the distance of the first two.
    """
    earliest: int = cron_job.metadata.creation_timestamp or 0
    if cron_job.status.last_schedule_time is not None:
        earliest = cron_job.status.last_schedule_time
    deadline = cron_job.spec.starting_deadline_seconds
    if starting_deadline and deadline is not None:
        earliest = max(earliest, now - deadline * SECOND)
    first = schedule.next(earliest)
    second = schedule.next(first)
    if now < first:
        return Recent(earliest, None, Missed.NONE)
    if now < second:
        return Recent(earliest, first, Missed.NONE)
    between = round((second - first) / SECOND)
    if between < 1:
        raise NoInterval("time difference between two schedules is less than 1 second")
    missed = (now - first) // SECOND // between + 1
    # One interval further back, for schedules whose intervals differ.
    time = schedule.next(first + (missed - 2) * between * SECOND)
    found = None
    while time <= now:
        found = time
        time = schedule.next(time)
    return Recent(earliest, found, Missed.MANY if missed > MANY else Missed.FEW)


def until_next(cron_job: CronJob, now: int, schedule: Schedule) -> int:
    """Return the time until the next look at the cron job."""
    try:
        recent = most_recent(cron_job, now, schedule, starting_deadline=False)
    except NoInterval:
        base = now
    else:
        base = recent.earliest if recent.missed is Missed.NONE else now
        if recent.time is not None:
            base = recent.time
    return max(schedule.next(base) + DELTA_NS - now, -LONGEST)


def job_name(cron_job: CronJob, scheduled: int) -> str:
    """The name of the Job for a scheduled time; it keeps a time from being started twice."""
    return f"{cron_job.name}-{scheduled // SECOND // 60}"
