"""CronJobs. Upstream: pkg/registry/batch/cronjob, pkg/apis/batch."""

from __future__ import annotations

import re
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.apps.workloads import Workload
from controlplane.apiserver.kinds.batch.job_rules import validate_job_spec
from controlplane.apiserver.kinds.batch.jobs import with_pod_conditions
from controlplane.apiserver.kinds.batch.schedules import known_zone, schedule_problem
from controlplane.apiserver.kinds.cells import (
    age,
    age_of,
    name_of,
    part_of,
    selector_text,
    template_cells,
)
from controlplane.apiserver.kinds.checks import non_negative_field, when, word
from controlplane.apiserver.kinds.core.pods.defaults import templated
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import selector_shown
from controlplane.apiserver.kinds.trees import filled, inside, with_spec
from controlplane.apiserver.schema.field_errors import FieldError, invalid, not_supported, required

__all__ = ["KIND"]


def default_cron_job(tree: Tree) -> Tree:
    """Defaults of a cron job; of its template only pods and their conditions have any."""

    def job(spec: Tree) -> Tree:
        return with_pod_conditions(templated(spec))

    def spec(spec: Tree) -> Tree:
        spec = filled(
            spec,
            {
                "concurrencyPolicy": "Allow",
                "suspend": False,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
            },
        )
        return inside(spec, "jobTemplate", lambda made: inside(made, "spec", job))

    return with_spec(tree, spec)


_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def _schedule(spec: Tree, *, zones: bool) -> list[FieldError]:
    """A schedule that can be read; with a zone in it only if it had one before."""
    schedule, path = spec["schedule"], "spec.schedule"
    problem = schedule_problem(schedule)
    errors = [invalid(path, schedule, problem)] if problem else []
    if "TZ" not in schedule:
        return errors
    if not zones:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid(path, schedule, text))
    elif spec.get("timeZone") is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        errors.append(invalid(path, schedule, text))
    return errors


def _zone(zone: str | None) -> list[FieldError]:
    path = "spec.timeZone"
    if zone is None:
        return []
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    unknown = invalid(path, zone, f"unknown time zone {zone}")
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            return [unknown]
    errors: list[FieldError] = []
    if zone.lower() == "local":
        text = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        errors.append(invalid(path, zone, text))
    return errors if zone == "Local" or known_zone(zone) else [*errors, unknown]


_CONCURRENCY = ("Allow", "Forbid", "Replace")


def validate_cron_job(tree: Tree, old: Tree | None = None) -> list[FieldError]:
    """Return the errors of a cron job, or of the change of `old` into it."""
    spec, was = tree.get("spec") or {}, (old or {}).get("spec") or {}
    errors: list[FieldError] = []
    if not spec.get("schedule"):
        errors.append(required("spec.schedule"))
    else:
        errors += _schedule(spec, zones="TZ" in was.get("schedule", ""))
    errors += non_negative_field(spec, "startingDeadlineSeconds", "spec")
    if old is None or spec.get("timeZone") != was.get("timeZone"):
        errors += _zone(spec.get("timeZone"))
    policy = spec.get("concurrencyPolicy", "")
    errors += word(policy, "spec.concurrencyPolicy", _CONCURRENCY)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors += validate_job_spec(job, "spec.jobTemplate.spec")
    if job.get("selector") is not None:
        shown = selector_shown(job["selector"])
        text = "`selector` will be auto-generated"
        errors.append(invalid("spec.jobTemplate.spec.selector", shown, text))
    errors += when(
        job.get("manualSelector"),
        not_supported,
        "spec.jobTemplate.spec.manualSelector",
        True,
        ("nil", "false"),
        sort=False,
    )
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += non_negative_field(spec, key, "spec")
    name = tree["metadata"].get("name", "")
    problem = "must be no more than 52 characters"
    errors += when(old is None and len(name) > 52, invalid, "metadata.name", name, problem)
    return errors


def _row(tree: Tree, now: int) -> list[Any]:
    spec, state = part_of(tree, "spec"), part_of(tree, "status")
    last = age(state["lastScheduleTime"], now) if state.get("lastScheduleTime") else "<none>"
    job = part_of(spec, "jobTemplate")
    return [
        name_of(tree),
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        "True" if spec.get("suspend") else "False",
        len(state.get("active") or ()),
        last,
        age_of(tree, now),
        *template_cells(job),
        selector_text(part_of(job, "spec").get("selector")),
    ]


class CronJobStrategy(Workload):
    """CronJobs, whose status has no rules of its own."""

    def meta_checks(self, sub: str) -> str:
        """Return the checks of changed metadata in the rules of the kind: none for a status."""
        return "" if sub == "status" else super().meta_checks(sub)


KIND = Kind(
    strategy=CronJobStrategy(
        default=default_cron_job,
        rule=validate_cron_job,
        update_rule=validate_cron_job,
        generation=True,
        named_pods=True,
    ),
    row=_row,
)
