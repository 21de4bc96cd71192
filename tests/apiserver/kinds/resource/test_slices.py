"""Slices of devices."""

from __future__ import annotations

import copy
from typing import Any

from controlplane.apiserver.kinds.resource.claims import (
    validate_device_claim,
)
from controlplane.apiserver.kinds.resource.slices import (
    validate_resource_slice,
    validate_resource_slice_update,
)
from tests.apiserver.world import World

CLAIM: dict[str, Any] = {
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{
        "name": "r", "exactly": {"deviceClassName": "dc", "allocationMode": "ExactCount",
                                 "count": 1}}]}},
}  # fmt: skip


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


def test_an_update_validates_capacities_again_but_not_taints_that_stay() -> None:
    old = copy.deepcopy(SLICE)
    device = old["spec"]["devices"][0]
    device["taints"] = [{"key": "not a key", "effect": "NoSchedule"}]
    device["capacity"]["mem"]["requestPolicy"] = {}
    new = copy.deepcopy(old)
    new["spec"]["pool"]["generation"] = 2
    assert said(validate_resource_slice_update(new, old)) == [
        "spec.devices[0].capacity[mem].requestPolicy: Forbidden: allowMultipleAllocations must be "
        "true"
    ]


def test_binding_conditions_come_in_pairs() -> None:
    new = copy.deepcopy(SLICE)
    new["spec"]["devices"][0]["bindingConditions"] = ["a.io/ready"]
    (error,) = validate_resource_slice(new)
    assert error.field == "spec.devices[0].bindingFailureConditions"


def test_lists_of_a_slice_that_are_empty_are_given_too() -> None:
    """Upstream asks whether they are nil, and what was written as [] is not."""
    for devices, counters, code in (([], [], 422), (None, [], 201), ([], None, 201)):
        body = copy.deepcopy(SLICE)
        body["spec"] |= {"devices": devices, "sharedCounters": counters}
        answer = World().create("resourceslices", body, group="resource.k8s.io", namespace="")
        assert answer.code == code
