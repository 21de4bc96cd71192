"""Rules of cron jobs."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.batch.cron_jobs import validate_cron_job

POD: dict[str, Any] = {
    "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always",
                    "terminationMessagePolicy": "File"}],
}  # fmt: skip


def cron(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {
        "schedule": "* * * * *", "concurrencyPolicy": "Allow",
        "jobTemplate": {"spec": {"template": {"spec": POD}}}, **spec}}  # fmt: skip


@pytest.mark.parametrize(
    ("zone", "problems"),
    [
        ("local", ["timeZone must be an explicit time zone as defined in "
                   "https://www.iana.org/time-zones", "unknown time zone local"]),
        ("Local", ["timeZone must be an explicit time zone as defined in "
                   "https://www.iana.org/time-zones"]),
        ("../UTC", ["unknown time zone ../UTC"]),
    ],
)  # fmt: skip
def test_a_time_zone_has_a_name_of_its_own(zone: str, problems: list[str]) -> None:
    assert [error.detail for error in validate_cron_job(cron(timeZone=zone))] == problems
    assert validate_cron_job(cron(timeZone=zone), cron(timeZone=zone)) == []


def test_a_zone_in_a_schedule_stays_where_it_was() -> None:
    old = cron(schedule="TZ=UTC 0 * * * *")
    (error,) = validate_cron_job(old)
    assert error.detail == "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    assert validate_cron_job(cron(schedule="TZ=UTC 1 * * * *"), old) == []
    (error,) = validate_cron_job(cron(schedule="TZ=UTC 1 * * * *", timeZone="UTC"), old)
    assert error.detail == "cannot use both timeZone field and TZ or CRON_TZ in schedule"
    (error,) = validate_cron_job(cron(schedule="TZ=No 1 * * * *"), old)
    assert error.detail == "provided bad location No: unknown time zone No"
