"""Rules of devices: what upstream's validation says of claims, what was allocated, and slices."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.api import quantity
from controlplane.apiserver.kinds.validation.conditions import validate_conditions
from controlplane.apiserver.kinds.validation.device_capacity import validate_request_policy
from controlplane.apiserver.kinds.validation.device_claim_status import (
    validate_device_claim_status,
)
from controlplane.apiserver.kinds.validation.device_slices import (
    validate_resource_slice,
    validate_resource_slice_update,
)
from controlplane.apiserver.kinds.validation.dynamic_resources import (
    validate_device_claim,
    validate_device_claim_update,
)
from tests.apiserver.world import World

CLAIM: dict[str, Any] = {
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{
        "name": "r", "exactly": {"deviceClassName": "dc", "allocationMode": "ExactCount",
                                 "count": 1}}]}},
}  # fmt: skip
RESULT = {"request": "r", "driver": "d.io", "pool": "p", "device": "d0"}
SLICE: dict[str, Any] = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d.io", "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d0", "capacity": {"mem": {"value": "8Gi"}}}],
    },
}  # fmt: skip


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


def test_a_changed_claim_shows_lists_as_they_were_written() -> None:
    new = copy.deepcopy(CLAIM)
    new["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    written = copy.deepcopy(new["spec"])
    written["devices"]["config"] = []
    (error,) = validate_device_claim_update(new, CLAIM, written)
    assert error.value["Devices"]["Config"] == []
    assert error.value["Devices"]["Constraints"] is None
    assert validate_device_claim_update(CLAIM, CLAIM, {"devices": {"config": []}}) == []


def test_of_a_list_that_is_too_long_nothing_else_is_said() -> None:
    many = copy.deepcopy(CLAIM)
    many["spec"]["devices"]["requests"] *= 33
    assert said(validate_device_claim(many)) == [
        "spec.devices.requests: Too many: 33: must have at most 32 items"
    ]


def test_capacity_is_shared_only_where_the_device_may_be() -> None:
    new = copy.deepcopy(SLICE)
    new["spec"]["devices"][0]["capacity"]["mem"]["requestPolicy"] = {}
    assert said(validate_resource_slice(new)) == [
        "spec.devices[0].capacity[mem].requestPolicy: Forbidden: allowMultipleAllocations must be "
        "true"
    ]
    new["spec"]["devices"][0]["allowMultipleAllocations"] = True
    assert validate_resource_slice(new) == []


def test_what_was_stored_of_a_device_is_not_looked_at_again() -> None:
    old = copy.deepcopy(SLICE)
    old["spec"]["devices"][0]["capacity"]["mem"]["requestPolicy"] = {}
    new = copy.deepcopy(old)
    new["spec"]["pool"]["generation"] = 2
    assert validate_resource_slice_update(new, old) == []


def test_binding_conditions_come_in_pairs() -> None:
    new = copy.deepcopy(SLICE)
    new["spec"]["devices"][0]["bindingConditions"] = ["a.io/ready"]
    (error,) = validate_resource_slice(new)
    assert error.field == "spec.devices[0].bindingFailureConditions"


@pytest.mark.parametrize(
    ("policy", "problems"),
    [
        (
            {"validValues": ["1Gi", "2Gi"]},
            ["default: Required value: required when validValues is"],
        ),
        ({"default": "1Gi", "validValues": ["2Gi", "1Gi"]}, ["validValues[1]: Invalid value"]),
        ({"default": "3Gi", "validValues": ["1Gi"]}, ["validValues: Invalid value"]),
        ({"default": "1Gi", "validRange": {}}, ["validRange.min: Required value"]),
        (
            {"default": "3Gi", "validRange": {"min": "1Gi", "max": "2Gi"}},
            ['validRange.default: Invalid value: "3Gi": default is more than max: 2Gi'],
        ),
        (
            {"default": "1Gi", "validRange": {"min": "1Gi", "step": "8Gi"}},
            ['validRange.step: Invalid value: "8Gi": one step 9Gi is larger than capacity'],
        ),
        ({"default": "2Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}, []),
    ],
)
def test_a_request_policy_keeps_within_the_capacity(
    policy: dict[str, Any], problems: list[str]
) -> None:
    found = said(validate_request_policy(policy, quantity.parse("8Gi"), "p"))
    assert len(found) == len(problems)
    for text, start in zip(found, problems, strict=True):
        assert text.startswith(f"p.{start}")


def test_conditions_are_whole_and_stand_once() -> None:
    whole = {"type": "Ready", "status": "True", "reason": "Up",
             "lastTransitionTime": "2020-01-01T00:00:00Z"}  # fmt: skip
    assert validate_conditions([whole], "c") == []
    found = said(validate_conditions([whole, {"type": "Ready", "status": "x", "reason": "1"}], "c"))
    assert found[0] == 'c[1].type: Duplicate value: "Ready"'
    assert found[1].startswith('c[1].status: Unsupported value: "x"')
    assert found[2] == "c[1].lastTransitionTime: Required value"
    assert found[3].startswith('c[1].reason: Invalid value: "1": a condition reason must start')


def test_lists_of_a_slice_that_are_empty_are_given_too() -> None:
    """Upstream asks whether they are nil, and what was written as [] is not."""
    for devices, counters, code in (([], [], 422), (None, [], 201), ([], None, 201)):
        body = copy.deepcopy(SLICE)
        body["spec"] |= {"devices": devices, "sharedCounters": counters}
        answer = World().create("resourceslices", body, group="resource.k8s.io", namespace="")
        assert answer.code == code
