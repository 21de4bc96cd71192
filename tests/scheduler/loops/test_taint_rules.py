"""DeviceTaintRules in a small cluster: a claim goes elsewhere, and a pod that waits hears of a rule that goes."""

from __future__ import annotations

from typing import Any

from actors import Context, RandomWalk
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.resources import DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES
from controlplane.cluster import Cluster
from controlplane.scheduler.loops.points import POINTS
from tests.scheduler.loops.test_claims import (
    DRIVER,
    chosen,
    claim,
    claims,
    devices,
    pod_with,
    slice_of,
)
from tests.scheduler.loops.test_points import overtaken
from tests.scheduler.loops.test_scheduler import SECOND, cluster_with, events, pods, run

GATE = {"DRADeviceTaintRules": True}


def rule(**selector: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "maintenance"},
        "spec": {
            "deviceSelector": {"driver": DRIVER, **selector},
            "taint": {"key": "broken", "value": "fan", "effect": "NoSchedule"},
        },
    }


async def taints(ctx: Context) -> None:
    client = await devices(ctx, *(slice_of(f"node-{n}", {"name": "a"}) for n in (1, 2)))
    await client.create(DEVICE_TAINT_RULES, rule(pool="node-1"))
    await client.create(RESOURCE_CLAIMS, claim("one"))
    await client.create(PODS, pod_with("p", "one"))
    await client.create(RESOURCE_CLAIMS, claim("two"))
    await client.create(PODS, pod_with("q", "two"))


def test_a_rule_sends_a_claim_elsewhere_and_the_log_names_it():
    cluster = cluster_with(taints, scheduler_features=GATE)
    run(cluster)
    placed = {name: pod.spec.node_name for name, pod in pods(cluster).items()}
    assert placed == {"p": "node-2", "q": ""}
    kept = "taint broken=fan:NoSchedule of DeviceTaintRule maintenance keeps it off gpu.example.com/node-1/a"
    (assumed,) = events(cluster, "scheduler.assumed")
    assert list(assumed.data["taint_rules"]) == [f"claim default/one, request gpu: {kept}"]
    (failed, *_) = events(cluster, "scheduler.failed")
    (entry,) = failed.data["claims"]
    assert list(entry["taint_rules"]) == [kept]
    assert entry["devices"] == {"class": 1 + 1, "selected": 2, "free": 1}


def test_a_pod_is_tried_again_when_the_rule_goes():
    async def user(ctx: Context) -> None:
        await taints(ctx)
        await ctx.sleep(5 * SECOND)
        await Client(ctx).delete(DEVICE_TAINT_RULES, "", "maintenance")

    cluster = cluster_with(user, scheduler_features=GATE)
    run(cluster)
    assert pods(cluster)["q"].spec.node_name == "node-1"
    assert chosen(claims(cluster)["two"]) == ["a"]


def test_without_the_gate_the_scheduler_asks_for_no_rules():
    async def user(ctx: Context) -> None:
        client = await devices(ctx, slice_of("node-1", {"name": "a"}))
        await client.create(RESOURCE_CLAIMS, claim("one"))
        await client.create(PODS, pod_with("p", "one"))

    cluster = cluster_with(user)
    run(cluster)
    assert [each for each in cluster.world.log if "devicetaintrules" in str(each.data)] == []


async def changing(ctx: Context) -> None:
    client = await devices(ctx, slice_of("node-1", {"name": "a"}), slice_of("node-2"))
    await client.create(RESOURCE_CLAIMS, claim("one"))
    await client.create(PODS, pod_with("p", "one"))
    for number in range(3):
        await client.create(DEVICE_TAINT_RULES, rule())
        found = (await client.get(RESOURCE_SLICES, "", "node-1-gpus")).tree
        more = [*found["spec"]["devices"], {"name": f"b{number}"}]
        spec = {**found["spec"], "devices": more}
        await client.update(RESOURCE_SLICES, {**found, "spec": spec})
        await client.delete(DEVICE_TAINT_RULES, "", "maintenance")


def test_the_points_of_slices_are_overtaken_under_some_schedule():
    wanted = {point for point in POINTS if point.startswith("scheduler.slices.")}
    found: set[str] = set()
    for seed in range(20):
        cluster: Cluster = cluster_with(
            changing, strategy=RandomWalk(seed), scheduler_features=GATE
        )
        assert cluster.world.run("bare").verdict == "quiescent"
        found |= overtaken(cluster.world.log)
        if wanted <= found:
            break
    assert wanted - found == set()
