"""Gangs of PodGroups of scheduling.x-k8s.io in a whole cluster."""

from __future__ import annotations

from actors import Context
from controlplane.client.loops.clientset import PODS, Client
from tests.scheduler_plugins.worlds import (
    POD_GROUPS,
    coscheduling,
    events,
    group,
    member,
    world,
)
from tests.test_cluster import SECOND, pods, run


def bound(cluster) -> dict[str, str]:
    return {pod.name: pod.spec.node_name for pod in pods(cluster)}


def gang(name: str, least: int, count: int, *, cpu: str = "1", **spec):
    """A user that creates a group and its pods."""

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(POD_GROUPS, group(name, least, **spec))
        for number in range(count):
            await client.create(PODS, member(f"{name}-{number}", name, cpu))

    return user


def failures(cluster) -> list[str]:
    return events(cluster, "FailedScheduling")


def test_a_gang_that_fits_is_bound_wholly():
    cluster = world(gang("red", 3, 3), coscheduling())
    run(cluster)
    assert all(bound(cluster).values())


def test_a_gang_that_does_not_fit_is_retried_none_of_it_is_bound_and_the_run_settles():
    cluster = world(gang("red", 3, 3, cpu="3"), coscheduling())
    run(cluster)
    assert list(bound(cluster).values()) == ["", "", ""]
    told = (
        "PodGroup default/red gets rejected due to Pod red-2 is unschedulable even after PostFilter"
    )
    assert any(told in each for each in failures(cluster))
    assert any("optimistic rejection in PostFilter" in each for each in failures(cluster))


def test_a_pod_waits_until_its_gang_has_enough_pods():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(POD_GROUPS, group("red", 2))
        await client.create(PODS, member("red-0", "red"))
        await ctx.sleep(30 * SECOND)
        seen.append(bound(cluster))
        await client.create(PODS, member("red-1", "red"))

    seen: list[dict[str, str]] = []
    cluster = world(user, coscheduling())
    run(cluster)
    assert seen == [{"red-0": ""}]
    assert all(bound(cluster).values())
    told = "cannot find enough sibling pods, current pods number: 1, minMember of group: 2"
    assert any(told in each for each in failures(cluster))


def test_a_group_created_after_its_pods_lets_them_go():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for number in range(2):
            await client.create(PODS, member(f"red-{number}", "red"))
        await ctx.sleep(20 * SECOND)
        seen.append(bound(cluster))
        await client.create(POD_GROUPS, group("red", 2))

    seen: list[dict[str, str]] = []
    cluster = world(user, coscheduling())
    run(cluster)
    assert seen == [{"red-0": "", "red-1": ""}]
    assert any("PodGroup not found" in each for each in failures(cluster))
    assert all(bound(cluster).values())


def test_a_wait_in_permit_ends_after_the_time_of_the_group_for_all_of_it():
    """With a small gap of pods the group is not rejected at once: those that have a node wait."""

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(POD_GROUPS, group("red", 3, scheduleTimeoutSeconds=7))
        for number, cpu in enumerate(("2", "2", "9")):
            await client.create(PODS, member(f"red-{number}", "red", cpu))

    cluster = world(user, coscheduling(podGroupRejectPercentage=50))
    cluster.world.run("bare", until_ns=30 * SECOND)
    assert list(bound(cluster).values()) == ["", "", ""]
    texts = failures(cluster)
    assert any(
        "rejected due to timeout after waiting 7s at plugin Coscheduling" in each for each in texts
    )
    assert any("rejection in Unreserve" in each for each in texts)


def test_a_group_that_failed_is_refused_until_its_backoff_is_over():
    cluster = world(gang("red", 3, 3, cpu="3"), coscheduling(podGroupBackoffSeconds=40))
    cluster.world.run("bare", until_ns=30 * SECOND)
    assert any("podGroup default/red failed recently" in each for each in failures(cluster))


def test_a_gang_that_the_cluster_cannot_hold_is_refused_before_any_node_is_asked():
    cluster = world(gang("red", 2, 2, minResources={"cpu": "9"}), coscheduling())
    cluster.world.run("bare", until_ns=10 * SECOND)
    assert any("resource gap: map[cpu:" in each for each in failures(cluster))
    assert list(bound(cluster).values()) == ["", ""]


def test_a_world_without_the_plugin_has_no_informer_of_its_kinds():
    cluster = world(gang("red", 1, 1), {})
    run(cluster)
    tasks = {event.task for event in cluster.world.log if event.actor == "scheduler"}
    assert "pods.reflector" in tasks
    assert not any(task.startswith("podgroups") for task in tasks)


def test_without_the_definition_nothing_is_scheduled_and_the_run_says_so():
    async def user(ctx: Context) -> None:
        await Client(ctx).create(PODS, member("red-0", "red"))

    cluster = world(user, coscheduling(), installed=False)
    run(cluster)
    assert bound(cluster) == {"red-0": ""}
    assert cluster.scheduler.missing() == ["podgroups.v1alpha1.scheduling.x-k8s.io"]


def test_a_run_with_gangs_repeats_to_the_bit():
    hashes = [run(world(gang("red", 3, 3), coscheduling())).trace_hash for _ in range(2)]
    assert hashes[0] == hashes[1]
