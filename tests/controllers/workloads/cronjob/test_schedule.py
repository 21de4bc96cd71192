"""Cron schedules and what is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.batch import CronJob
from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.controllers.workloads.cronjob.schedule import NEVER, ScheduleError, parse
from controlplane.controllers.workloads.cronjob.timing import (
    Missed,
    job_name,
    most_recent,
    until_next,
)
from controlplane.controllers.workloads.cronjob.zones import UnknownTimeZone, load_location, rfc3339

NOON = parse_time("2026-03-01T12:00:00Z")


def times(schedule, after, count=3):
    found, at = [], parse_time(after)
    for _ in range(count):
        at = parse(schedule).next(at)
        found.append(format_time(at))
    return found


def test_either_kind_of_day_fits_unless_one_is_a_star():
    assert times("0 0 13 * 5", "2026-02-12T00:00:00Z", 2) == [
        "2026-02-13T00:00:00Z",
        "2026-02-20T00:00:00Z",
    ]
    assert times("0 0 13 * *", "2026-02-13T00:00:00Z", 1) == ["2026-03-13T00:00:00Z"]
    assert times("0 0 */2 * MON", "2026-02-28T00:00:00Z", 1) == ["2026-03-01T00:00:00Z"]


def test_an_hour_that_a_clock_change_skips_is_skipped_and_one_that_comes_twice_is_met_twice():
    assert times("TZ=America/New_York 30 2 * * *", "2026-03-07T12:00:00Z", 1) == [
        "2026-03-09T06:30:00Z"
    ]
    assert times("TZ=America/New_York 30 1 * * *", "2026-10-31T12:00:00Z", 2) == [
        "2026-11-01T05:30:00Z",
        "2026-11-01T06:30:00Z",
    ]


def test_a_constant_delay_counts_from_the_last_time():
    assert times("@every 90s", "2026-03-01T12:00:00.7Z", 1) == ["2026-03-01T12:01:30Z"]
    assert times("@every 10ms", "2026-03-01T12:00:00Z", 1) == ["2026-03-01T12:00:01Z"]


def test_a_day_that_never_comes():
    assert parse("59 23 31 2 *").next(NOON) == NEVER


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("@reboot", "unrecognized descriptor: @reboot"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("TZ=No/Where * * * * *", "provided bad location No/Where: unknown time zone No/Where"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
    ],
)
def test_what_is_no_schedule_is_refused_in_the_words_of_robfig_cron(text, message):
    with pytest.raises(ScheduleError) as refused:
        parse(text)
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["../etc/passwd", "/etc/localtime", "Nowhere/Bad", "__init__.py"])
def test_zones_come_from_the_package_only(name):
    with pytest.raises(UnknownTimeZone):
        load_location(name)


def test_times_are_written_with_the_offset_of_their_zone():
    seconds = NOON // SECOND
    assert rfc3339(seconds, load_location("Asia/Kolkata")) == "2026-03-01T17:30:00+05:30"
    assert rfc3339(seconds, load_location("America/New_York")) == "2026-03-01T07:00:00-05:00"
    assert rfc3339(seconds, load_location("Europe/London")) == "2026-03-01T12:00:00Z"


def cron_job(schedule: str, created: str, **spec) -> CronJob:
    return CronJob.from_tree(
        {
            "metadata": {"name": "tick", "namespace": "ns", "creationTimestamp": created},
            "spec": {"schedule": schedule, **spec},
        }
    )


@given(st.integers(1, 100_000), st.sampled_from(["* * * * *", "*/7 * * * *", "0 */2 * * *"]))
def test_the_most_recent_time_is_the_last_one_that_has_come(minutes, text):
    created = NOON - minutes * 60 * SECOND
    found = cron_job(text, format_time(created))
    schedule = parse(text)
    recent = most_recent(found, NOON, schedule, starting_deadline=True)
    if recent.time is None:
        assert schedule.next(created) > NOON
    else:
        assert created < recent.time <= NOON < schedule.next(recent.time)
        assert until_next(found, NOON, schedule) == schedule.next(NOON) + SECOND // 10 - NOON


def test_only_what_lies_within_the_deadline_is_started():
    found = cron_job("0 * * * *", "2026-03-01T01:30:00Z", startingDeadlineSeconds=60)
    late = NOON + 90 * SECOND
    schedule = parse("0 * * * *")
    assert most_recent(found, late, schedule, starting_deadline=True).time is None
    missed = most_recent(found, late, schedule, starting_deadline=False)
    assert (missed.time, missed.missed) == (NOON, Missed.FEW)
    assert job_name(found, NOON) == f"tick-{NOON // SECOND // 60}"
