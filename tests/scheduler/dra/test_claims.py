"""Claims of pods, the devices they hold, and the changes that pods wait for."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.scheduler.dra.claims import (
    ClaimError,
    FindClaim,
    allocated_state,
    claims_of,
    is_reserved_for,
)
from controlplane.scheduler.dra.devices import DeviceID
from controlplane.scheduler.dra.hints import queue_after_claim, queue_after_pod
from tests.scheduler.dra.makers import DRIVER


def pod_with(*entries: Any, statuses: Any = ()) -> Any:
    return {
        "metadata": {"namespace": "ns", "name": "p", "uid": "p-1"},
        "spec": {"resourceClaims": list(entries)},
        "status": {"resourceClaimStatuses": list(statuses)},
    }


def claim_named(name: str, owner: str = "", **fields: Any) -> Any:
    meta: Any = {"namespace": "ns", "name": name, "uid": f"uid-{name}"}
    if owner:
        meta["ownerReferences"] = [{"uid": owner, "controller": True}]
    return {"metadata": meta, **fields}


def finder(*claims: Any) -> FindClaim:
    known = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in claims}
    return lambda namespace, name: known.get((namespace, name))


BY_NAME = {"name": "a", "resourceClaimName": "one"}
BY_TEMPLATE = {"name": "b", "resourceClaimTemplateName": "t"}
DEVICES = {"results": [{"driver": DRIVER, "pool": "p", "device": "d"}]}
ALLOCATED = {"allocation": {"devices": DEVICES}}


def test_claims_are_found_by_name_and_by_the_status_of_a_template() -> None:
    pod = pod_with(BY_NAME, BY_TEMPLATE, statuses=[{"name": "b", "resourceClaimName": "two"}])
    one, two = claim_named("one"), claim_named("two", owner="p-1")
    assert list(claims_of(pod, finder(one, two))) == [("a", one), ("b", two)]


def test_a_template_without_a_name_needs_no_claim() -> None:
    assert list(claims_of(pod_with(BY_TEMPLATE, statuses=[{"name": "b"}]), finder())) == []


@pytest.mark.parametrize(
    ("pod", "claims", "text"),
    [
        (pod_with(BY_NAME), [], 'could not find resource claim "ns/one"'),
        (pod_with(BY_TEMPLATE), [], 'pod "ns/p": ResourceClaim not created yet'),
        (
            pod_with({"name": "c"}),
            [],
            'pod "ns/p", spec.resourceClaim "c": none of the supported fields are set',
        ),
        (
            pod_with(BY_TEMPLATE, statuses=[{"name": "b", "resourceClaimName": "two"}]),
            [claim_named("two", owner="p-0")],
            "ResourceClaim ns/two was not created for Pod ns/p (Pod is not owner)",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_is_an_error(pod: Any, claims: Any, text: str) -> None:
    with pytest.raises(ClaimError) as caught:
        list(claims_of(pod, finder(*claims)))
    assert str(caught.value) == text


def test_a_claim_that_is_being_deleted_is_an_error() -> None:
    leaving = claim_named("one")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(ClaimError, match='resourceclaim "one" is being deleted'):
        list(claims_of(pod_with(BY_NAME), finder(leaving)))


def test_a_claim_is_reserved_by_uid() -> None:
    claim = claim_named("one", status={"reservedFor": [{"name": "p", "uid": "p-1"}]})
    assert is_reserved_for(claim, pod_with())
    assert not is_reserved_for(claim, {"metadata": {"name": "p", "uid": "p-2"}})


def test_allocated_devices_are_whole_or_shared_and_admin_access_holds_none() -> None:
    results = [
        {"driver": DRIVER, "pool": "p", "device": "whole"},
        {"driver": DRIVER, "pool": "p", "device": "admin", "adminAccess": True},
        *(
            {
                "driver": DRIVER,
                "pool": "p",
                "device": "part",
                "shareID": share,
                "consumedCapacity": {"beam": "2"},
            }
            for share in ("s1", "s2")
        ),
    ]
    claim = claim_named("one", status={"allocation": {"devices": {"results": results}}})
    found = allocated_state([claim])
    part = DeviceID(DRIVER, "p", "part")
    assert found.devices == {DeviceID(DRIVER, "p", "whole")}
    assert found.shared == {part}
    assert found.capacity[part]["beam"].value() == 4
    assert allocated_state([claim], shares=False).devices == {
        DeviceID(DRIVER, "p", "whole"),
        part,
    }


def test_a_pod_waits_for_its_own_claims_and_for_devices_of_any() -> None:
    one, other = claim_named("one"), claim_named("other")
    find, pod = finder(one, other), pod_with(BY_NAME)
    assert queue_after_claim(pod, None, one, find)
    assert not queue_after_claim(pod, None, other, find)
    assert queue_after_claim(pod, {**other, "status": ALLOCATED}, other, find)
    assert queue_after_claim(pod, one, {**one, "status": ALLOCATED}, find)
    assert not queue_after_claim(pod, one, {**one, "status": {"reservedFor": []}}, find)
    assert not queue_after_claim(pod_with(BY_TEMPLATE), None, one, find)


def test_equal_quantities_of_a_status_are_no_change() -> None:
    def with_capacity(text: str) -> Any:
        result = {**DEVICES["results"][0], "consumedCapacity": {"beam": text}}
        return claim_named("one", status={"allocation": {"devices": {"results": [result]}}})

    find, pod = finder(claim_named("one")), pod_with(BY_NAME)
    assert not queue_after_claim(pod, with_capacity("1Ki"), with_capacity("1024"), find)
    assert queue_after_claim(pod, with_capacity("1Ki"), with_capacity("1025"), find)


def test_a_pod_waits_until_its_own_claims_are_named() -> None:
    pod = pod_with(BY_TEMPLATE)
    named = pod_with(BY_TEMPLATE, statuses=[{"name": "b", "resourceClaimName": "two"}])
    find = finder(claim_named("two", owner="p-1"))
    assert queue_after_pod(pod, named, find)
    assert not queue_after_pod(pod, pod, find)
    assert not queue_after_pod({"metadata": {"uid": "p-2"}}, named, find)
