"""Elastic quotas that lend and take back, in a whole cluster."""

from __future__ import annotations

import pytest

from actors import Context, RandomWalk
from controlplane.api.request import MERGE_PATCH
from controlplane.client.loops.clientset import NAMESPACES, PODS, Client
from controlplane.scheduler.community.capacity_scheduling import NOMINATIONS
from tests.scheduler.loops.test_points import overtaken
from tests.scheduler_plugins.worlds import (
    QUOTAS,
    capacity_scheduling,
    events,
    member,
    quota,
    world,
)
from tests.test_cluster import SECOND, pods, run

MERGE = {"kind": MERGE_PATCH}


def pod(name: str, namespace: str, cpu: str, **spec) -> dict:
    tree = member(name, "", cpu, **spec)
    tree["metadata"] = {"name": name, "namespace": namespace}
    return tree


async def teams(client: Client, **quotas: dict) -> None:
    """Create namespaces with the quotas of their names."""
    for name, given in quotas.items():
        tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await client.create(NAMESPACES, tree)
        await client.create(QUOTAS, quota(name, **given))


def placed(cluster) -> dict[str, bool]:
    return {pod.name: bool(pod.spec.node_name) for pod in pods(cluster)}


def test_a_pod_above_the_maximum_of_its_namespace_waits():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        cpu = {"cpu": "2", "memory": "8Gi"}
        await teams(client, red={"least": cpu, "most": cpu})
        for number in range(3):
            await client.create(PODS, pod(f"red-{number}", "red", "1"))

    cluster = world(user, capacity_scheduling())
    run(cluster)
    assert placed(cluster) == {"red-0": True, "red-1": True, "red-2": False}
    told = "Pod red/red-2 is rejected in PreFilter because ElasticQuota red is more than Max"
    assert any(told in each for each in events(cluster, "FailedScheduling"))


def test_what_is_lent_is_taken_back_by_its_owner():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        least = {"cpu": "4", "memory": "8Gi"}
        await teams(client, red={"least": least}, green={"least": least})
        for number in range(8):
            await client.create(PODS, pod(f"red-{number}", "red", "1"))
        await ctx.sleep(30 * SECOND)
        seen.append(sum(placed(cluster).values()))
        await client.create(PODS, pod("green-0", "green", "2"))

    seen: list[int] = []
    cluster = world(user, capacity_scheduling())
    run(cluster)
    assert seen == [8]
    found = placed(cluster)
    assert found.pop("green-0")
    assert sum(found.values()) == 6
    assert any(each.startswith("Preempted by pod") for each in events(cluster, "Preempted"))


@pytest.mark.slow
def test_quotas_can_change_between_their_copy_and_the_look_at_nominations():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await teams(client, red={"least": {"cpu": "8", "memory": "8Gi"}})
        for number in range(4):
            await client.create(PODS, pod(f"red-{number}", "red", "1"))
            await client.patch(
                QUOTAS, "red", "red", {"spec": {"min": {"cpu": 8 - number}}}, **MERGE
            )

    found: set[str] = set()
    for seed in range(10):
        cluster = world(user, capacity_scheduling(), strategy=RandomWalk(seed))
        run(cluster)
        found |= overtaken(cluster.world.log)
    assert NOMINATIONS.name in found


def test_together_namespaces_use_no_more_than_all_are_guaranteed():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        least = {"cpu": "1", "memory": "8Gi"}
        await teams(client, red={"least": least}, green={"least": least})
        for number in range(3):
            await client.create(PODS, pod(f"red-{number}", "red", "1"))

    cluster = world(user, capacity_scheduling())
    run(cluster)
    assert sum(placed(cluster).values()) == 2
    told = "is rejected in PreFilter because total ElasticQuota used is more than min"
    assert any(told in each for each in events(cluster, "FailedScheduling"))


def test_a_pod_that_has_ended_gives_its_share_back():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        cpu = {"cpu": "1", "memory": "8Gi"}
        await teams(client, red={"least": cpu, "most": cpu})
        await ctx.sleep(2 * SECOND)
        first = pod("red-0", "red", "1", restartPolicy="Never")
        first["metadata"]["annotations"] = {"emulate.controlplane/run-seconds": "20"}
        await client.create(PODS, first)
        await client.create(PODS, pod("red-1", "red", "1"))
        await ctx.sleep(10 * SECOND)
        seen.append(placed(cluster))
        await ctx.sleep(60 * SECOND)
        await client.delete(PODS, "red", "red-0")

    seen: list[dict[str, bool]] = []
    cluster = world(user, capacity_scheduling())
    run(cluster)
    assert seen == [{"red-0": True, "red-1": False}]
    assert placed(cluster) == {"red-1": True}
