"""Claims of devices in a small cluster: from the pod that names one to the reservation, and back."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Context, RandomWalk
from controlplane.client.loops.clientset import PODS, Client
from controlplane.cluster import Cluster
from controlplane.scheduler.config.load import load
from controlplane.scheduler.loops.informers import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from controlplane.scheduler.loops.points import POINTS
from tests.scheduler.loops.test_points import overtaken
from tests.scheduler.loops.test_scheduler import (
    SECOND,
    cluster_with,
    events,
    pod_tree,
    pods,
    reasons,
    run,
)
from tests.scheduler.test_metrics import numbers

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def device_class(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}


def slice_of(node: str, *devices: dict[str, Any]) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices)}
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": spec,
    }


def claim(name: str, **exactly: Any) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }


def pod_with(name: str, claim_name: str, **spec: Any) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimName": claim_name}]
    return pod_tree(name, cpu="100m", resourceClaims=claims, **spec)


async def devices(ctx: Context, *slices: dict[str, Any], **of_class: Any) -> Client:
    client = Client(ctx)
    await ctx.sleep(SECOND)
    await client.create(DEVICE_CLASSES, device_class(**of_class))
    for tree in slices:
        await client.create(RESOURCE_SLICES, tree)
    return client


def claims(cluster: Cluster) -> dict[str, dict[str, Any]]:
    found = cluster.objects("/registry/resourceclaims/")
    return {obj.name: obj.tree.get("status") or {} for obj in found}


def chosen(status: dict[str, Any]) -> list[str]:
    return [each["device"] for each in status["allocation"]["devices"]["results"]]


@pytest.mark.parametrize("expects", [True, False])
def test_a_claim_is_allocated_and_reserved_for_its_pod(expects):
    async def user(ctx: Context) -> None:
        client = await devices(ctx, slice_of("node-2", {"name": "a"}, {"name": "b"}))
        await client.create(RESOURCE_CLAIMS, claim("one"))
        await client.create(PODS, pod_with("p", "one"))

    features = {"NominatedNodeNameForExpectation": expects}
    cluster = cluster_with(user, scheduler_features=features)
    run(cluster)
    assert pods(cluster)["p"].spec.node_name == "node-2"
    status = claims(cluster)["one"]
    assert chosen(status) == ["a"]
    assert [(each["resource"], each["name"]) for each in status["reservedFor"]] == [("pods", "p")]
    tracker = cluster.scheduler.core.handle.dra.tracker
    assert tracker.in_flight == {}
    assert "Scheduled" in reasons(cluster, "p")


def test_a_pod_waits_for_its_claim_and_for_a_free_device():
    async def user(ctx: Context) -> None:
        client = await devices(ctx, slice_of("node-1", {"name": "a"}))
        await client.create(RESOURCE_CLAIMS, claim("one"))
        await client.create(PODS, pod_with("first", "one"))
        await client.create(PODS, pod_with("second", "two"))
        await ctx.sleep(5 * SECOND)
        await client.create(RESOURCE_CLAIMS, claim("two"))
        await ctx.sleep(5 * SECOND)
        held.append((await client.get(PODS, "default", "second")).view.spec.node_name)
        await client.delete(PODS, "default", "first")
        free = (await client.get(RESOURCE_CLAIMS, "default", "one")).tree
        await client.update(RESOURCE_CLAIMS, {**free, "status": {}}, "status")

    held: list[str] = []
    cluster = cluster_with(user)
    run(cluster)
    assert held == [""]
    assert pods(cluster)["second"].spec.node_name == "node-1"
    assert chosen(claims(cluster)["two"]) == ["a"]
    gated = events(cluster, "scheduler.gated")
    assert {(each.obj, each.data["message"]) for each in gated if "second" in each.obj} == {
        ("Pod/default/second", 'could not find resource claim "default/two"')
    }
    (failed,) = events(cluster, "scheduler.failed")
    assert list(failed.data["claims"]) == [
        {
            "claim": "default/two",
            "request": "gpu",
            "class": "gpu",
            "wanted": "1",
            "devices": {"class": 1, "selected": 1, "free": 0},
        }
    ]


def test_two_claims_share_a_device_until_its_capacity_is_used_up():
    shared = {
        "name": "a",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "40Gi", "requestPolicy": {"default": "16Gi"}}},
    }

    async def user(ctx: Context) -> None:
        client = await devices(ctx, slice_of("node-1", shared))
        for number in range(3):
            await client.create(RESOURCE_CLAIMS, claim(f"c{number}"))
            await client.create(PODS, pod_with(f"p{number}", f"c{number}"))
            await ctx.sleep(SECOND)

    cluster = cluster_with(user)
    run(cluster)
    nodes = {name: pod.spec.node_name for name, pod in pods(cluster).items()}
    assert nodes == {"p0": "node-1", "p1": "node-1", "p2": ""}
    results = [claims(cluster)[f"c{n}"]["allocation"]["devices"]["results"][0] for n in (0, 1)]
    assert [each["consumedCapacity"] for each in results] == [{"memory": "16Gi"}] * 2
    assert len({each["shareID"] for each in results}) == 2


def test_an_extended_resource_of_a_class_becomes_a_claim():
    async def user(ctx: Context) -> None:
        client = await devices(
            ctx, slice_of("node-2", {"name": "a"}), extendedResourceName="example.com/gpu"
        )
        tree = pod_tree("p", cpu="100m")
        amounts = tree["spec"]["containers"][0]["resources"]
        amounts["requests"]["example.com/gpu"] = "1"
        amounts["limits"] = {"example.com/gpu": "1"}
        await client.create(PODS, tree)

    cluster = cluster_with(user, devices=True)
    run(cluster)
    assert pods(cluster)["p"].spec.node_name == "node-2"
    ((name, status),) = claims(cluster).items()
    assert chosen(status) == ["a"]
    assert numbers(cluster)["resourceclaim_creates_total", "success"] == 1
    told = pods(cluster)["p"].status.extended_resource_claim_status
    assert told["resourceClaimName"] == name


@pytest.mark.parametrize("broken", [False, True], ids=["ready", "broken"])
def test_a_pod_is_bound_when_its_device_is_ready(broken):
    device = {
        "name": "a",
        "bindingConditions": ["example.com/attached"],
        "bindingFailureConditions": ["example.com/failed"],
    }

    async def user(ctx: Context) -> None:
        client = await devices(ctx, slice_of("node-1", device))
        await client.create(RESOURCE_CLAIMS, claim("one"))
        await client.create(PODS, pod_with("p", "one"))
        await ctx.sleep(7 * SECOND)
        found = (await client.get(RESOURCE_CLAIMS, "default", "one")).tree
        bound.append((await client.get(PODS, "default", "p")).view.spec.node_name)
        kind = "example.com/failed" if broken else "example.com/attached"
        condition = {
            "type": kind,
            "status": "True",
            "reason": "Cable",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        entry = {"driver": DRIVER, "pool": "node-1", "device": "a", "conditions": [condition]}
        status = {**found["status"], "devices": [entry]}
        await client.update(RESOURCE_CLAIMS, {**found, "status": status}, "status")
        await ctx.sleep(4 * SECOND)
        bound.append((await client.get(PODS, "default", "p")).view.spec.node_name)

    bound: list[str] = []
    cluster = cluster_with(user)
    cluster.world.run("bare", until_ns=15 * SECOND) if broken else run(cluster)
    assert bound == ["", "" if broken else "node-1"]
    assert "BindingConditionsPending" in reasons(cluster, "p")
    counted = numbers(cluster)
    labels = (DRIVER, "default-scheduler", "failure" if broken else "success")
    # The driver speaks after seven seconds, and claims are looked at every five.
    assert counted["dra_bindingconditions_allocations_total", *labels] == 1
    assert counted["dra_bindingconditions_wait_duration_seconds", *labels] == (1, 10)
    if broken:
        (failed, *_) = events(cluster, "scheduler.failed")
        assert "device binding failed: claim=one, reason=Cable" in failed.data["message"]


async def busy(ctx: Context) -> None:
    """Pods that share claims and compete for devices while claims are changed by others."""
    client = await devices(
        ctx, slice_of("node-1", {"name": "a"}), slice_of("node-2", {"name": "b"})
    )
    for number in range(3):
        await client.create(RESOURCE_CLAIMS, claim(f"c{number}"))
        await client.create(PODS, pod_with(f"p{number}", f"c{number}"))
    await client.create(PODS, pod_with("sharing", "c0"))
    for number in range(3):
        patch = {"metadata": {"labels": {"touched": str(number)}}}
        await client.patch(RESOURCE_CLAIMS, "default", f"c{number}", patch)
    await ctx.sleep(3 * SECOND)


@pytest.mark.parametrize("seed", range(8))
def test_no_device_is_given_twice_under_any_schedule(seed):
    cluster = cluster_with(busy, strategy=RandomWalk(seed))
    run(cluster)
    found = claims(cluster)
    allocated = [
        device for status in found.values() if "allocation" in status for device in chosen(status)
    ]
    assert sorted(allocated) == ["a", "b"]
    placed = [name for name, pod in pods(cluster).items() if pod.spec.node_name]
    users = [user["name"] for each in found.values() for user in each.get("reservedFor") or ()]
    assert sorted(placed) == sorted(users)
    assert cluster.scheduler.core.handle.dra.tracker.in_flight == {}


NEEDS_MORE = {
    "scheduler.claims.restore",
    "scheduler.prebind.appears",
    "scheduler.prebind.conditions",
    "scheduler.prebind.patch",
    "scheduler.prebind.poll",
    "scheduler.prebind.wait",
}
"""These need binding conditions, extended resources, volumes, or failures."""


@pytest.mark.slow
def test_the_points_of_claims_are_overtaken_under_some_schedule():
    wanted = {
        point for point in POINTS if point.startswith(("scheduler.claims.", "scheduler.prebind."))
    }
    found: set[str] = set()
    for seed in range(40):
        cluster = cluster_with(busy, strategy=RandomWalk(seed))
        assert cluster.world.run("bare").verdict == "quiescent"
        found |= overtaken(cluster.world.log)
    assert wanted - found == NEEDS_MORE


def test_a_world_without_claims_asks_for_none():
    async def user(ctx: Context) -> None:
        await ctx.sleep(SECOND)
        await Client(ctx).create(PODS, pod_tree("p"))

    cluster = cluster_with(user)
    run(cluster)
    asked = [each for each in cluster.world.log if "resourceclaims" in str(each.data)]
    assert asked == []


def test_selectors_that_cost_too_much_end_the_search_as_a_time_limit_does():
    numbers = "[" + ",".join(map(str, range(60))) + "]"
    expression = f"{numbers}.all(a, {numbers}.all(b, a + b >= 0 && device.driver == 'x'))"
    expression = f"{numbers}.exists(a, {numbers}.exists(b, a + b > 1000)) || {expression}"

    async def user(ctx: Context) -> None:
        tree = slice_of("node-1", *({"name": f"d{number}"} for number in range(4)))
        client = await devices(ctx, tree, selectors=[{"cel": {"expression": expression}}])
        await client.create(RESOURCE_CLAIMS, claim("one"))
        await client.create(PODS, pod_with("p", "one"))

    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "pluginConfig": [
                    {
                        "name": "DynamicResources",
                        "args": {"kind": "DynamicResourcesArgs", "filterTimeout": "100ms"},
                    }
                ]
            }
        ],
    }
    cluster = cluster_with(user, scheduler=load(document))
    cluster.world.run("bare", until_ns=3 * SECOND)
    (failed, *_) = events(cluster, "scheduler.failed")
    assert "node node-1: timed out trying to allocate devices" in failed.data["message"]
