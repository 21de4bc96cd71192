"""The search for devices."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from controlplane.api.quantity import parse
from controlplane.scheduler.dra.allocator import AllocationError
from controlplane.scheduler.dra.devices import AllocatedState, DeviceID
from controlplane.scheduler.dra.features import (
    EXPERIMENTAL,
    INCUBATING,
    STABLE,
    Features,
    channel,
)
from tests.scheduler.dra.makers import (
    ALL_ON,
    DRIVER,
    NODE,
    allocator,
    claim,
    device,
    names,
    piece,
    request,
)


def test_the_features_choose_the_implementation() -> None:
    assert channel(Features(admin_access=True, device_taints=True)) == STABLE
    assert channel(ALL_ON) == INCUBATING
    assert channel(attrs.evolve(ALL_ON, list_type_attributes=True)) == EXPERIMENTAL


def test_devices_are_taken_in_the_order_of_pools_slices_and_devices() -> None:
    slices = [
        piece("s2", device("c"), pool="q"),
        piece("s1", device("a"), device("b")),
    ]
    found = allocator(*slices).allocate(NODE, [claim(request(number=3))])
    assert names(found) == [["a", "b", "c"]]


def test_a_device_in_use_is_passed_over_except_for_admin_access() -> None:
    used = AllocatedState(frozenset((DeviceID(DRIVER, "p", "a"),)))
    slices = [piece("s", device("a"), device("b"))]
    assert names(allocator(*slices, state=used).allocate(NODE, [claim(request())])) == [["b"]]
    found = allocator(*slices, state=used).allocate(NODE, [claim(request(adminAccess=True))])
    assert names(found) == [["a"]]
    assert found is not None
    assert found[0]["devices"]["results"][0]["adminAccess"] is True


def test_claims_that_do_not_fit_together_are_not_allocated() -> None:
    one = allocator(piece("s", device("a")))
    assert one.allocate(NODE, [claim(request()), claim(request(), name="d")]) is None


def test_the_search_goes_back_where_a_later_request_needs_the_device() -> None:
    found = allocator(piece("s", device("ab"), device("b"))).allocate(
        NODE,
        [claim(request("any"), request("first", selectors=[{"cel": {"expression": "ab"}}]))],
    )
    assert names(found) == [["b", "ab"]]


def test_all_devices_are_taken_or_none() -> None:
    slices = piece("s", device("a"), device("b"), device("c"))
    wish = claim(request(allocationMode="All", selectors=[{"cel": {"expression": "b"}}]))
    assert names(allocator(slices).allocate(NODE, [wish])) == [["b"]]
    none = claim(request(allocationMode="All", selectors=[{"cel": {"expression": "z"}}]))
    assert allocator(slices).allocate(NODE, [none]) is None


def test_the_first_alternative_that_fits_is_taken() -> None:
    subs = [
        {"name": name, "deviceClassName": "laser", "allocationMode": "ExactCount", "count": number}
        for name, number in (("many", 3), ("few", 2), ("one", 1))
    ]
    wish = claim({"name": "r", "firstAvailable": subs})
    found = allocator(piece("s", device("a"), device("b"))).allocate(NODE, [wish])
    assert found is not None
    assert [each["request"] for each in found[0]["devices"]["results"]] == ["r/few", "r/few"]


def test_taints_keep_requests_off_that_do_not_tolerate_them() -> None:
    taint = {"key": "hot", "effect": "NoSchedule"}
    one = piece("s", device("a", taints=[taint]), device("b", taints=[{**taint, "effect": "None"}]))
    assert names(allocator(one).allocate(NODE, [claim(request())])) == [["b"]]
    tolerating = claim(request(tolerations=[{"key": "hot", "operator": "Exists"}]))
    assert names(allocator(one).allocate(NODE, [tolerating])) == [["a"]]
    off = attrs.evolve(ALL_ON, device_taints=False)
    assert names(allocator(one, features=off).allocate(NODE, [claim(request())])) == [["a"]]


def _partitions() -> list[Any]:
    def part(name: str, amount: str) -> Any:
        used = [{"counterSet": "s", "counters": {"memory": {"value": amount}}}]
        return device(name, consumesCounters=used)

    counters = piece(
        "counters",
        sharedCounters=[{"name": "s", "counters": {"memory": {"value": "4Gi"}}}],
        nodeName="n1",
    )
    devices = piece("devices", part("whole", "4Gi"), part("half-1", "2Gi"), part("half-2", "2Gi"))
    for each in (counters, devices):
        each["spec"]["pool"]["resourceSliceCount"] = 2
    return [counters, devices]


def test_partitions_share_the_counters_of_their_pool() -> None:
    found = allocator(*_partitions()).allocate(NODE, [claim(request(number=2))])
    assert names(found) == [["half-1", "half-2"]]
    used = AllocatedState(frozenset((DeviceID(DRIVER, "p", "half-2"),)))
    found = allocator(*_partitions(), state=used).allocate(NODE, [claim(request())])
    assert names(found) == [["half-1"]]


def test_shares_of_a_device_consume_its_capacity() -> None:
    capacity = {"beam": {"value": "10", "requestPolicy": {"default": "4"}}}
    one = piece("s", device("a", allowMultipleAllocations=True, capacity=capacity))
    wish = claim(request("r1"), request("r2", capacity={"requests": {"beam": "6"}}))
    found = allocator(one).allocate(NODE, [wish])
    assert found is not None
    results = found[0]["devices"]["results"]
    assert [(each["consumedCapacity"], each["shareID"]) for each in results] == [
        ({"beam": "4"}, "share-1"),
        ({"beam": "6"}, "share-2"),
    ]
    used = AllocatedState(capacity={DeviceID(DRIVER, "p", "a"): {"beam": parse("5")}})
    assert allocator(one, state=used).allocate(NODE, [wish]) is None


def test_the_result_names_the_node_of_its_devices() -> None:
    found = allocator(piece("s", device("a"))).allocate(NODE, [claim(request())])
    assert found is not None
    only = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert found[0]["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": [only]}]}
    found = allocator(piece("s", device("a"), allNodes=True)).allocate(NODE, [claim(request())])
    assert found is not None
    assert "nodeSelector" not in found[0]


def test_configuration_of_class_and_claim_follows_the_requests() -> None:
    config = {"opaque": {"driver": DRIVER, "parameters": {"mode": "pulse"}}}
    classes = {"laser": {"metadata": {"name": "laser"}, "spec": {"config": [config]}}}
    wish = claim(request("r1"), request("r2"), config=[{**config, "requests": ["r2"]}])
    found = allocator(piece("s", device("a"), device("b")), classes=classes).allocate(NODE, [wish])
    assert found is not None
    assert [(each["source"], each["requests"]) for each in found[0]["devices"]["config"]] == [
        ("FromClass", ["r1", "r2"]),
        ("FromClaim", ["r2"]),
    ]


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        (
            claim(request(deviceClassName="maser")),
            "claim default/c, request r: could not retrieve device class maser: "
            'deviceclass.resource.k8s.io "maser" not found',
        ),
        (
            claim(request(allocationMode="Some")),
            "claim default/c, request r: unsupported count mode Some",
        ),
        (
            claim(request(number=33)),
            "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
        ),
        (
            claim(request(), constraints=[{}]),
            "claim default/c, constraint #0: empty constraint (unsupported constraint type?)",
        ),
    ],
)
def test_claims_that_cannot_be_read_are_errors(wish: Any, text: str) -> None:
    with pytest.raises(AllocationError) as caught:
        allocator(piece("s", device("a"))).allocate(NODE, [wish])
    assert str(caught.value) == text


def test_fields_of_features_that_are_off_are_errors() -> None:
    off = Features()
    for wish, text in (
        (request(adminAccess=False), "admin access is requested, but the feature is disabled"),
        (
            {"name": "r", "firstAvailable": [{"name": "a"}]},
            "DRAPrioritizedList feature is disabled",
        ),
    ):
        with pytest.raises(AllocationError, match=text):
            allocator(piece("s", device("a")), features=off).allocate(NODE, [claim(wish)])


def test_an_invalid_pool_is_told_where_nothing_else_fits() -> None:
    one = piece("s", device("a"), device("a"))
    with pytest.raises(AllocationError, match="invalid resource pools were encountered") as caught:
        allocator(one).allocate(NODE, [claim(request())])
    assert caught.value.node_only


def test_a_search_ends_at_its_limit_of_steps() -> None:
    many = piece("s", *(device(f"d{at}") for at in range(20)))
    wish = claim(request(number=10), request("z", selectors=[{"cel": {"expression": "z"}}]))
    with pytest.raises(AllocationError) as caught:
        allocator(many, most_steps=50).allocate(NODE, [wish])
    assert caught.value.aborted
