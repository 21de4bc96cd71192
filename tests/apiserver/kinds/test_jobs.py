"""Rules of jobs and cron jobs: indexes, policies of success, templates of suspended ones, and statuses."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.validation.job_indexes import (
    IndexesError,
    count_indexes,
    overlap_problem,
)
from controlplane.apiserver.kinds.validation.job_status import validate_job_status
from controlplane.apiserver.kinds.validation.jobs import (
    validate_cron_job,
    validate_job,
    validate_job_update,
)
from tests.apiserver.world import World

UID = {"batch.kubernetes.io/controller-uid": "u"}
LABELS = {**UID, "controller-uid": "u", "job-name": "j", "batch.kubernetes.io/job-name": "j"}
POD: dict[str, Any] = {
    "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always",
                    "terminationMessagePolicy": "File"}],
}  # fmt: skip
START, END = "2020-01-01T00:00:00Z", "2020-01-01T00:10:00Z"


def job(name: str = "j", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {**LABELS, "job-name": name,
                                        "batch.kubernetes.io/job-name": name}}, "spec": POD}  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": UID}, "template": template, **spec},
    }


def indexed(**spec: Any) -> dict[str, Any]:
    return job(**{"completionMode": "Indexed", "completions": 3, "parallelism": 2, **spec})


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", 0),
        ("0,2-4", 4),
        ("x", 'cannot convert string to integer for index: "x"'),
        ("0-y", 'cannot convert string to integer for index: "y"'),
        ("1-2-3", "the fragment \"1-2-3\" violates the requirement that an index interval can have "
                  "at most two parts separated by '-'"),
        ("5", 'too large index: "5"'),
        ("1-5", 'too large index: "5"'),
        ("2-1", "non-increasing order, previous: 2, current: 1"),
        ("0-2,2", "non-increasing order, previous: 2, current: 2"),
    ],
)  # fmt: skip
def test_indexes_are_counted_or_told_wrong(text: str, told: object) -> None:
    try:
        found: object = count_indexes(text, 5)
    except IndexesError as problem:
        found = str(problem)
    assert found == told


def test_indexes_that_completed_cannot_have_failed() -> None:
    assert overlap_problem("0-1,x,4", "2-3", 5) == ""
    assert overlap_problem("0-1,3-4", "2,4", 5) == (
        "failedIndexes and completedIndexes overlap at index: 4"
    )


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"maxFailedIndexes": 4, "backoffLimitPerIndex": 1}, [
            "spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions"]),
        ({"completions": 100_001, "backoffLimitPerIndex": 1, "parallelism": 10_001}, [
            "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
            "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when "
            "completions are above 100000 and used with backoff limit per index"]),
        ({"successPolicy": {"rules": [{"succeededIndexes": "0-9"}]}}, [
            'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-9": error parsing '
            'succeededIndexes: too large index: "9"']),
        ({"successPolicy": {"rules": [{"succeededIndexes": "0", "succeededCount": 4}]}}, [
            "spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or "
            "equal to 3 (the number of specified completions)",
            "spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or "
            "equal to 1 (the number of indexes in the specified succeededIndexes field)"]),
        ({"managedBy": ""}, ["spec.managedBy: Required value"]),
        ({"managedBy": "A/b"}, [
            'spec.managedBy: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of']),
        ({"managedBy": "a.io/b c"}, [
            'spec.managedBy: Invalid value: "b c": Invalid path (regex used for validation is']),
    ],
)  # fmt: skip
def test_an_indexed_job_keeps_its_bounds(spec: dict[str, Any], problems: list[str]) -> None:
    found = said(validate_job(indexed(**spec)))
    assert len(found) == len(problems)
    assert all(text.startswith(start) for text, start in zip(found, problems, strict=True))


def test_the_last_pod_of_an_indexed_job_needs_a_name_that_is_a_label() -> None:
    name = "a" * 62
    body = job(name, completionMode="Indexed", completions=11)
    assert said(validate_job(body)) == [
        f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS label: '
        f"{name}-10"
    ]


def test_a_selector_may_ask_for_any_of_the_generated_labels() -> None:
    body = job(selector={"matchLabels": {**UID, "job-name": "j"}})
    assert validate_job(body) == []


def test_an_indexed_job_grows_with_its_parallelism() -> None:
    (error,) = validate_job_update(indexed(completions=4), indexed())
    assert error.detail == "can only be modified in tandem with spec.parallelism"
    assert validate_job_update(indexed(completions=4, parallelism=4), indexed()) == []


def _with_pod(**fields: Any) -> dict[str, Any]:
    body = job(suspend=True)
    return {**body, "spec": {**body["spec"], "template": {
        **body["spec"]["template"], "spec": {**POD, **fields}}}}  # fmt: skip


def test_a_suspended_job_may_change_what_its_containers_ask_for() -> None:
    asked = [{**POD["containers"][0], "resources": {"requests": {"cpu": "1"}}}]
    new, old = _with_pod(containers=asked), job(suspend=True)
    assert validate_job_update(new, old) == []
    running = {**old, "status": {"active": 1}}
    assert [error.field for error in validate_job_update(new, running)] == ["spec.template"]
    awake = {**old, "spec": {**old["spec"], "suspend": False}}
    assert [error.field for error in validate_job_update(new, awake)] == ["spec.template"]


def test_a_suspended_job_keeps_all_else_of_its_pods() -> None:
    new = _with_pod(containers=[{**POD["containers"][0], "image": "other"}])
    assert [e.field for e in validate_job_update(new, job(suspend=True))] == ["spec.template.spec"]
    moved = _with_pod(nodeSelector={"a": "b"})
    assert validate_job_update(moved, job(suspend=True)) == []
    begun = {**job(suspend=True), "status": {"startTime": START}}
    assert [e.field for e in validate_job_update(moved, begun)] == ["spec.template.spec"]


def condition(kind: str, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status}


DONE = {"conditions": [condition("SuccessCriteriaMet"), condition("Complete")], "startTime": START,
        "completionTime": END}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "was", "problems"),
    [
        ({"conditions": [condition("Failed")]}, {}, [
            "status.conditions: Invalid value: cannot set Failed=True condition without the "
            "FailureTarget=true condition",
            "status.startTime: Required value: startTime is required for finished job"]),
        ({**DONE, "conditions": [condition("Complete")]}, {}, [
            "status.conditions: Invalid value: cannot set Complete=True condition without the "
            "SuccessCriteriaMet=true condition"]),
        ({**DONE, "terminating": 1}, {}, [
            "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job"]),
        ({**DONE, "completionTime": "2020-01-02T00:00:00Z"}, DONE, [
            'status.completionTime: Invalid value: "2020-01-02T00:00:00Z": field is immutable']),
        ({**DONE, "uncountedTerminatedPods": {"failed": ["a"]}}, {}, [
            'status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a"]}: must be '
            "empty for finished job"]),
        ({"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}}, {}, [
            'status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty',
            'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"']),
        ({"completedIndexes": "0-9"}, {}, [
            'status.completedIndexes: Invalid value: "0-9": error parsing completedIndexes: too large '
            'index: "9"']),
        ({"completedIndexes": "0-1", "failedIndexes": "1"}, {}, [
            'status.failedIndexes: Invalid value: "1": failedIndexes and completedIndexes overlap at '
            "index: 1"]),
        ({"conditions": [condition("SuccessCriteriaMet"), condition("FailureTarget")]}, {}, [
            "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and "
            "FailureTarget=true conditions"]),
        ({}, {"conditions": [condition("FailureTarget")]}, [
            "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True "
            "condition"]),
        ({"ready": 2}, {"ready": 2}, []),
        ({"startTime": END, "conditions": [condition("Suspended", "False")]},
         {"startTime": START, "conditions": [condition("Suspended")]}, []),
    ],
)  # fmt: skip
def test_a_status_tells_a_history_that_can_be(
    status: dict[str, Any], was: dict[str, Any], problems: list[str]
) -> None:
    body = indexed(backoffLimitPerIndex=1)
    assert (
        said(validate_job_status({**body, "status": status}, {**body, "status": was})) == problems
    )


def test_a_job_with_a_policy_of_success_completes_by_it() -> None:
    body = indexed(successPolicy={"rules": [{"succeededCount": 1}]})
    status = {**DONE, "conditions": [condition("Complete")]}
    found = validate_job_status({**body, "status": status}, {**body, "status": status})
    assert said(found) == [
        "status.conditions: Invalid value: cannot set Complete=True for Job with SuccessPolicy unless "
        "SuccessCriteriaMet=True"
    ]


def test_an_elastic_job_may_count_fewer_successes() -> None:
    old, new = ({**indexed(parallelism=3), "status": {"succeeded": n}} for n in (2, 1))
    assert validate_job_status(new, old) == []


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


def test_a_name_that_is_no_label_is_remarked_on() -> None:
    made = World().create("jobs", {"metadata": {"name": "a.b"}, "spec": {
        "template": {"spec": POD}}}, group="batch")  # fmt: skip
    assert made.code == 201
    assert made.warnings == [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
        "behavior; a DNS label is recommended: [must not contain dots]"
    ]
