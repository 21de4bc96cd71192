"""The CronJob controller: schedules, and whole syncs."""

from __future__ import annotations

from typing import Any

from controlplane.api.batch import CronJob
from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.controllers.common.controller import Caches
from controlplane.controllers.workloads.cronjob.controller import CronJobController, Turn, zoned
from controlplane.controllers.workloads.cronjob.schedule import NEVER, ScheduleError, parse
from controlplane.controllers.workloads.cronjob.timing import (
    NoInterval,
    job_name,
    most_recent,
    until_next,
)
from tests.golden.controller_world import World, complete, outcome
from tests.golden.runner import difference


def answer(case: Any) -> Any:
    return _schedule(case) if "includeStartingDeadline" in case else _sync(case)


def compare(want: Any, got: Any) -> str | None:
    if "requests" in want:
        got = got(want.pop("anyOrder", ()))
    return difference(want, got)


def _seconds(duration: int) -> float | int:
    found = duration / SECOND
    return int(found) if found == int(found) else found


def _schedule(case: Any) -> Any:
    cron_job = CronJob.from_tree(complete("CronJob", case["cronJob"]))
    now = parse_time(case["now"])
    try:
        schedule = parse(zoned(cron_job))
    except ScheduleError as error:
        return {"parseError": str(error)}
    found: dict[str, Any] = {"next": []}
    time: int = now
    for _ in range(5):
        time = schedule.next(time)
        if time == NEVER:
            found["next"].append(None)
            break
        found["next"].append(format_time(time))
    deadline = case["includeStartingDeadline"]
    try:
        recent = most_recent(cron_job, now, schedule, starting_deadline=deadline)
    except NoInterval as error:
        found.update(error=str(error), missed="none", mostRecent=None)
        earliest = _earliest(cron_job, now, deadline=deadline)
    else:
        earliest = recent.earliest
        found["missed"] = recent.missed.value
        found["mostRecent"] = None if recent.time is None else format_time(recent.time)
    found["earliest"] = format_time(earliest)
    found["requeueSeconds"] = _seconds(until_next(cron_job, now, schedule))
    world = World({}, now=now)
    controller = CronJobController(world, Caches())
    try:
        due = controller._due(
            Turn(cron_job, dict(cron_job.tree.get("status") or {})), now, schedule
        )
    except NoInterval:
        due = None
    found["nextScheduleTime"] = None if due is None else format_time(due)
    if due is not None:
        found["jobName"] = job_name(cron_job, due)
    if world.events:
        found["events"] = world.events
    return found


def _earliest(cron_job: Any, now: int, *, deadline: bool) -> int:
    earliest = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
    seconds = cron_job.spec.starting_deadline_seconds
    if deadline and seconds is not None:
        earliest = max(earliest, now - seconds * SECOND)
    return earliest


def _sync(case: Any) -> Any:
    main = case["cronJob"]
    cached = case["jobs"]
    world = World(
        {"CronJob": [main], "Job": cached}, case.get("failures", ()), parse_time(case["now"])
    )
    world.see_live("CronJob", case, main)
    controller = CronJobController(world, world.caches)
    world.fill()
    for job in case.get("liveJobs", ()):
        world.add_live("Job", job)
    for name in case.get("goneJobs", ()):
        world.live.pop(("jobs", f"{main['metadata']['namespace']}/{name}"), None)
    key = f"{main['metadata']['namespace']}/{main['metadata']['name']}"
    delays: list[Any] = []

    def turn() -> Any:
        delays.append((yield from controller.turn(key)))

    error = world.attempt(turn())

    def found(any_order: Any) -> Any:
        result = outcome(world, error, "cronjob", any_order)
        if delays and delays[0] is not None:
            result["requeueAfterSeconds"] = _seconds(delays[0])
        return result

    return found
