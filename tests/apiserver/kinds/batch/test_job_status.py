"""Rules of the status of a job."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.batch.job_status import validate_job_status

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
