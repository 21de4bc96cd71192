"""Cron jobs in a whole cluster."""

from __future__ import annotations

from typing import Any

import pytest

from actors import RandomWalk
from controlplane.client.resources import CRON_JOBS, JOBS
from controlplane.cluster_config import CONTROLLER_MANAGER
from tests.controllers.worlds import Small, template, workload

ALL = ("job", "cronjob", "ttl-after-finished")


def cron_job(
    *, annotations: dict[str, str] | None = None, ttl: int | None = None, **spec: Any
) -> Any:
    job: dict[str, Any] = {"template": template({}, policy="Never", annotations=annotations or {})}
    if ttl is not None:
        job["ttlSecondsAfterFinished"] = ttl
    given = {"schedule": "* * * * *", "jobTemplate": {"spec": job}, **spec}
    return workload(CRON_JOBS, "CronJob", "tick", given)


def names(small: Small) -> list[str]:
    return [obj.name for obj in small.objects("jobs")]


def test_a_job_is_started_every_minute_and_history_is_kept_short():
    small = Small(ALL, cron_job(), 330).run()
    tick = small.one("cronjobs")
    assert names(small) == ["tick-29453763", "tick-29453764", "tick-29453765"]
    assert small.reasons("CronJob").count("SuccessfulCreate") == 5
    assert tick.status.active == ()
    assert tick.status.last_successful_time is not None
    stamps = [obj.view.annotations for obj in small.objects("jobs")]
    assert stamps[-1]["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-01-01T00:05:00Z"


@pytest.mark.parametrize(
    ("policy", "started", "left"), [("Allow", 3, 3), ("Forbid", 1, 1), ("Replace", 3, 1)]
)
def test_what_becomes_of_a_run_that_is_still_going(policy, started, left):
    async def look(client, _ctx):
        await client.patch(CRON_JOBS, "default", "tick", {"spec": {"suspend": True}})
        jobs = (await client.list(JOBS, "default")).items
        found.extend(job for job in jobs if "deletionTimestamp" not in job.metadata)

    found: list[Any] = []
    lasting = cron_job(concurrencyPolicy=policy, annotations={"run-seconds": "1000"})
    small = Small(ALL, lasting, 200, look).run()
    assert len(found) == left
    assert small.reasons("CronJob").count("SuccessfulCreate") == started


def test_a_run_awaits_the_first_job_of_a_cron_job_and_no_other():
    small = Small(ALL, cron_job()).run()
    assert names(small) == ["tick-29453761"]
    assert small.one("cronjobs").status.last_successful_time is not None


@pytest.mark.parametrize("spec", [{"schedule": "0 3 * * *"}, {"suspend": True}])
def test_a_run_does_not_await_a_job_that_is_far_away(spec):
    small = Small(ALL, cron_job(**spec)).run()
    assert names(small) == []
    assert small.cluster.world.now < 60_000_000_000


def test_a_suspended_cron_job_starts_nothing_and_a_bad_zone_is_refused_by_the_server():
    small = Small(ALL, cron_job(suspend=True), 200).run()
    assert names(small) == []


def test_a_finished_job_goes_after_its_time_to_live():
    async def gone(client, _ctx):
        assert not (await client.list(JOBS, "default")).items

    job = {
        "template": template({}, policy="Never"),
        "ttlSecondsAfterFinished": 30,
    }
    small = Small(("job", "ttl-after-finished"), workload(JOBS, "Job", "brief", job)).run()
    brief = small.one("jobs")
    # The collector of garbage is not there to let go of what is deleted in the foreground.
    assert brief.metadata.deletion_timestamp is not None
    assert brief.metadata.finalizers == ("foregroundDeletion",)
    ended = brief.status.completion_time
    assert 30 <= (brief.metadata.deletion_timestamp - ended) // 10**9 <= 31


@pytest.mark.parametrize("seed", range(4))
def test_no_time_is_started_twice_though_the_manager_crashes(seed):
    async def crash(_client, ctx):
        for _ in range(5):
            await ctx.sleep((50 + ctx.choose("when", 20)) * 10**9)
            ctx.faults.crash(CONTROLLER_MANAGER)
            ctx.faults.restart(CONTROLLER_MANAGER)

    kept = cron_job(successfulJobsHistoryLimit=100)
    small = Small(ALL, kept, crash, 70, strategy=RandomWalk(seed)).run()
    stamps = [
        obj.view.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        for obj in small.objects("jobs")
    ]
    assert len(stamps) == len(set(stamps))
    assert len(stamps) >= 3
