"""The status of a claim of devices."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.resource.claim_status import validate_device_claim_status

CLAIM: dict[str, Any] = {
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{
        "name": "r", "exactly": {"deviceClassName": "dc", "allocationMode": "ExactCount",
                                 "count": 1}}]}},
}  # fmt: skip


RESULT = {"request": "r", "driver": "d.io", "pool": "p", "device": "d0"}


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


def with_status(**status: Any) -> dict[str, Any]:
    return {**CLAIM, "status": status}


def test_an_allocation_names_requests_of_its_claim() -> None:
    good = with_status(allocation={"devices": {"results": [RESULT]}})
    assert validate_device_claim_status(good, CLAIM) == []
    bad = with_status(allocation={"devices": {"results": [{**RESULT, "request": "other"}]}})
    assert said(validate_device_claim_status(bad, CLAIM)) == [
        'status.allocation.devices.results[0].request: Invalid value: "other": must be the name of '
        "a request in the claim or the name of a request and a subrequest separated by '/'"
    ]


def test_an_allocation_stays_as_it_was_made() -> None:
    was = with_status(allocation={"devices": {"results": [RESULT]}})
    new = with_status(allocation={"devices": {"results": [{**RESULT, "device": "d1"}]}})
    (error,) = validate_device_claim_status(new, was)
    assert error.field == "status.allocation"
    assert error.detail == "field is immutable"


def test_consumers_need_an_allocation_and_are_named_once() -> None:
    consumer = {"resource": "pods", "name": "p", "uid": "1"}
    new = with_status(reservedFor=[consumer, consumer])
    assert said(validate_device_claim_status(new, CLAIM)) == [
        'status.reservedFor[1]: Duplicate value: "1"',
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
    ]


def test_a_device_reports_of_what_was_allocated() -> None:
    device = {"driver": "d.io", "pool": "p", "device": "d1", "networkData": {"ips": ["10.0.0.1"]}}
    new = with_status(allocation={"devices": {"results": [RESULT]}}, devices=[device])
    assert said(validate_device_claim_status(new, CLAIM)) == [
        'status.devices[0]: Invalid value: {"Driver":"d.io","Pool":"p","Device":"d1","ShareID":""}: '
        "must be an allocated device in the claim",
        'status.devices[0].networkData.ips[0]: Invalid value: "10.0.0.1": must be a valid address in '
        "CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a", "error validating uid: invalid UUID length: 1"),
        ("z" * 36, "error validating uid: invalid UUID format"),
        ("6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "uid must be in RFC 4122 normalized form"),
    ],
)
def test_a_share_has_a_uid_in_normal_form(text: str, problem: str) -> None:
    new = with_status(allocation={"devices": {"results": [{**RESULT, "shareID": text}]}})
    (error,) = validate_device_claim_status(new, CLAIM)
    assert error.detail.startswith(problem)
