"""Endpoints without a selector are mirrored to slices: what is mirrored, how, and under races."""

from __future__ import annotations

from typing import Any

import pytest

from actors import RandomWalk
from controlplane.api.view import GenericView
from controlplane.client.errors import ApiError
from controlplane.client.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from controlplane.controllers.common.effects import Retry
from controlplane.controllers.network.endpointslicemirroring.controller import (
    EndpointSliceMirroringController,
)
from controlplane.controllers.network.endpointslicemirroring.mirroring import (
    MANAGER,
    desired_of,
    mirrored,
    plan_of,
)
from tests.controllers.worlds import Small, workload
from tests.golden.controller_world import World

NAME = "endpointslice-mirroring"
SERVICE = workload(SERVICES, "Service", "web", {"ports": [{"port": 80}]})


def endpoints(*subsets: Any, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "web", "namespace": "default", **meta},
        "subsets": list(subsets),
    }


def subset(*ready: str, waiting: tuple[str, ...] = (), port: int = 80) -> dict[str, Any]:
    found: dict[str, Any] = {"ports": [{"port": port, "protocol": "TCP"}]}
    if ready:
        found["addresses"] = [{"ip": each} for each in ready]
    if waiting:
        found["notReadyAddresses"] = [{"ip": each} for each in waiting]
    return found


def made(tree: dict[str, Any]) -> Any:
    return (ENDPOINTS, tree)


def mirrors(small: Small) -> list[dict[str, Any]]:
    return [obj.tree for obj in small.objects("endpointslices") if obj.namespace == "default"
            and obj.view.labels.get("kubernetes.io/service-name") == "web"]  # fmt: skip


def addresses(small: Small) -> list[tuple[str, bool]]:
    return sorted(
        (each["addresses"][0], each["conditions"]["ready"])
        for tree in mirrors(small)
        for each in tree["endpoints"]
    )


def test_endpoints_of_a_service_without_selector_are_mirrored():
    annotations = {"mine": "x", "endpoints.kubernetes.io/last-change-trigger-time": "t"}
    tree = endpoints(
        subset("10.1.2.3", waiting=("10.1.2.4",)), labels={"a": "b"}, annotations=annotations
    )
    small = Small((NAME,), SERVICE, made(tree)).run()
    (found,) = mirrors(small)
    meta = found["metadata"]
    assert meta["name"].startswith("web-")
    assert meta["labels"] == {
        "a": "b",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": MANAGER,
    }
    assert meta["annotations"] == {"mine": "x"}
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Endpoints", "web", True)
    assert found["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    assert addresses(small) == [("10.1.2.3", True), ("10.1.2.4", False)]


async def no_more(client: Any, _ctx: Any) -> None:
    await client.delete(ENDPOINTS, "default", "web")


async def moved(client: Any, _ctx: Any) -> None:
    await client.update(ENDPOINTS, endpoints(subset("10.2.3.4")))


def test_slices_follow_updates_in_place_and_go_with_the_endpoints():
    tree = endpoints(subset("10.1.2.3"))
    names = [
        mirrors(Small((NAME,), SERVICE, made(tree), 10, *more).run())[0]["metadata"]["name"]
        for more in ((), (moved,))
    ]
    assert names[0] == names[1]
    assert addresses(Small((NAME,), SERVICE, made(tree), 10, moved).run()) == [("10.2.3.4", True)]
    assert mirrors(Small((NAME,), SERVICE, made(tree), 10, no_more).run()) == []


def test_each_set_of_ports_and_each_kind_of_address_has_a_slice():
    tree = endpoints(subset("10.0.0.1", "fd00::1"), subset("10.0.0.2", port=81))
    small = Small((NAME,), SERVICE, made(tree)).run()
    found = {(each["addressType"], each["ports"][0]["port"]) for each in mirrors(small)}
    assert found == {("IPv4", 80), ("IPv6", 80), ("IPv4", 81)}


@pytest.mark.parametrize("seed", range(6))
def test_no_order_of_events_leaves_a_wrong_or_a_second_slice(seed):
    async def again(client: Any, ctx: Any) -> None:
        await client.update(ENDPOINTS, endpoints(subset("10.0.0.7", "10.0.0.8")))
        await client.delete(ENDPOINTS, "default", "web")
        both = [subset("10.0.0.9", port=port) for port in (80, 81)]
        for each in both:
            each["ports"][0]["name"] = f"p{each['ports'][0]['port']}"
        await client.create(ENDPOINTS, endpoints(*both))

    tree = endpoints(subset("10.1.2.3"))
    small = Small((NAME,), SERVICE, made(tree), moved, again, strategy=RandomWalk(seed)).run()
    assert len(mirrors(small)) == 1, "the two subsets have the same address, so they are one"
    assert addresses(small) == [("10.0.0.9", True)]
    assert {each["port"] for each in mirrors(small)[0]["ports"]} == {80, 81}


async def selects(client: Any, _ctx: Any) -> None:
    await client.patch(SERVICES, "default", "web", {"spec": {"selector": {"a": "b"}}})


async def skips(client: Any, _ctx: Any) -> None:
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    await client.patch(ENDPOINTS, "default", "web", {"metadata": {"labels": labels}})


async def service_goes(client: Any, _ctx: Any) -> None:
    await client.delete(SERVICES, "default", "web")


@pytest.mark.parametrize("change", [selects, skips, service_goes])
def test_slices_go_when_endpoints_are_not_to_be_mirrored_any_more(change):
    tree = endpoints(subset("10.1.2.3"))
    assert mirrors(Small((NAME,), SERVICE, made(tree), 10, change).run()) == []


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({}, True),
        ({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}, False),
        ({"labels": {"endpointslice.kubernetes.io/skip-mirror": "no"}}, True),
        ({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}, False),
    ],
)
def test_labels_and_annotations_say_what_is_mirrored(meta, expected):
    assert mirrored(endpoints(**meta)) is expected


def test_a_slice_that_a_user_changes_or_deletes_is_put_right():
    async def spoil(client: Any, ctx: Any) -> None:
        (found,) = (await client.list(ENDPOINT_SLICES, "default")).items
        await client.update(ENDPOINT_SLICES, {**found.tree, "endpoints": []})
        await ctx.sleep(5_000_000_000)
        await client.delete(ENDPOINT_SLICES, "default", found.name)

    small = Small((NAME,), SERVICE, made(endpoints(subset("10.1.2.3"))), 10, spoil).run()
    assert addresses(small) == [("10.1.2.3", True)]


# ---------------------------------------------------------------------- decisions


def owner(**meta: Any) -> GenericView:
    tree = endpoints(uid="u", **meta)
    return GenericView.from_tree(tree)


def test_at_most_so_many_addresses_of_a_subset_are_mirrored_ready_ones_first():
    tree = endpoints(subset("10.0.0.3", "10.0.0.1", waiting=("10.0.0.2", "10.0.0.4")))
    found = desired_of(tree, 3)
    members = [each for each in found.endpoints.values() if each]
    assert [len(each) for each in members] == [3]
    ready = [each["conditions"]["ready"] for each in members[0].values()]
    assert sorted(ready) == [False, True, True]
    assert (found.invalid, found.skipped) == (0, 1)


def test_what_is_no_address_is_counted_and_left_out():
    found = desired_of(endpoints(subset("10.0.0.1", "nowhere", "1.2.3", "::x")), 1000)
    assert (found.invalid, found.skipped) == (3, 3)


def test_an_address_of_version_4_in_version_6_is_one_of_version_4():
    found = desired_of(endpoints(subset("::ffff:10.0.0.1", "010.0.0.2")), 1000)
    (kind,) = [group[0] for group, members in found.endpoints.items() if members]
    assert kind == "IPv4"


def slice_of(name: str, kind: str, *ips: str, port: int = 80) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "addressType": kind,
        "ports": [{"name": "", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in ips],
    }


def test_a_slice_that_is_right_is_left_alone_and_its_doubles_go():
    existing = [slice_of("a", "IPv4", "10.0.0.1"), slice_of("b", "IPv4", "10.0.0.1")]
    plan = plan_of(owner(), desired_of(endpoints(subset("10.0.0.1")), 9), existing, 9)
    assert (plan.create, plan.update) == ([], [])
    assert [each["metadata"]["name"] for each in plan.delete] == ["b"]


def test_changed_labels_alone_are_written():
    existing = [slice_of("a", "IPv4", "10.0.0.1")]
    wanted = desired_of(endpoints(subset("10.0.0.1")), 9)
    plan = plan_of(owner(labels={"x": "y"}), wanted, existing, 9)
    assert [each["metadata"]["labels"]["x"] for each in plan.update] == ["y"]


def test_a_slice_of_ports_that_nothing_wants_takes_those_that_something_wants():
    existing = [slice_of("old", "IPv4", "10.0.0.1", port=81), slice_of("six", "IPv6", "fd00::1")]
    plan = plan_of(owner(), desired_of(endpoints(subset("10.0.0.1")), 9), existing, 9)
    assert [each["metadata"]["name"] for each in plan.update] == ["old"]
    assert [each["metadata"]["name"] for each in plan.delete] == ["six"]
    assert plan.create == []


def world(*subsets: Any, limit: int = 1000) -> tuple[World, EndpointSliceMirroringController]:
    meta = {"name": "web", "namespace": "ns", "uid": "u"}
    service = {"metadata": meta, "spec": {"clusterIP": "10.0.0.1"}}
    found = World({"Service": [service], "Endpoints": [{"metadata": meta, "subsets": [*subsets]}]})
    controller = EndpointSliceMirroringController(found, found.caches, limit)
    found.fill()
    return found, controller


def test_a_sync_over_a_cache_that_lags_behind_its_own_writes_is_refused():
    found, controller = world(subset("10.0.0.1"))
    found.run(controller.sync("ns/web"))
    assert [each["verb"] for each in found.requests] == ["create"]
    with pytest.raises(Retry, match="EndpointSlice informer cache is out of date"):
        found.run(controller.sync("ns/web"))


def test_addresses_that_are_left_out_are_told_in_events():
    found, controller = world(subset("10.0.0.1", "10.0.0.2", "x"), limit=1)
    found.run(controller.sync("ns/web"))
    reasons = [each["reason"] for each in found.events]
    assert "TooManyAddressesToMirror" in reasons


def test_failed_writes_are_tried_again_and_a_namespace_that_goes_ends_the_try():
    _, controller = world(subset("10.0.0.1"))
    steps = controller.sync("ns/web")
    next(steps)
    with pytest.raises(Retry, match="failed to create EndpointSlice for Endpoints ns/web"):
        steps.throw(ApiError(500, {"kind": "Status", "message": "boom", "code": 500}))
    _, controller = world(subset("10.0.0.1"))
    steps = controller.sync("ns/web")
    next(steps)
    causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
    status = {"kind": "Status", "reason": "Forbidden", "code": 403, "details": {"causes": causes}}
    with pytest.raises(StopIteration):
        steps.throw(ApiError(403, status))
