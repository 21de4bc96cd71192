"""Rules and permitted changes of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.batch.job_rules import validate_job, validate_job_update

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
