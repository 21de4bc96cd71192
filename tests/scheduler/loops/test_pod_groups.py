"""Pod groups in the running scheduler: gangs wait, run as a whole, preempt, and are overtaken at every point."""

from __future__ import annotations

import pytest

from actors import Context, RandomWalk
from controlplane.client.loops.clientset import PODS, Client
from controlplane.scheduler.loops.pod_groups import POD_GROUPS
from controlplane.scheduler.loops.points import POINTS
from tests.scheduler.loops.test_points import overtaken
from tests.scheduler.loops.test_scheduler import (
    cluster_with,
    events,
    pod_tree,
    pods,
    reasons,
    run,
)

SECOND = 1_000_000_000
GANGS = {"GenericWorkload": True, "GangScheduling": True}
PREEMPTING = {**GANGS, "WorkloadAwarePreemption": True}
PLACING = {**GANGS, "TopologyAwareWorkloadScheduling": True}


def group_tree(name, *, least=2, **spec):
    policy = {"gang": {"minCount": least}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def member(name, group, **more):
    return pod_tree(name, schedulingGroup={"podGroupName": group}, **more)


def nodes_of(cluster):
    return {name: pod.spec.node_name for name, pod in pods(cluster).items()}


def condition(cluster, name):
    found = next(each for each in cluster.objects("/registry/podgroups/") if each.name == name)
    return [(each.status, each.reason, each.message) for each in found.view.status.conditions]


async def late_member(ctx: Context) -> None:
    client = Client(ctx)
    await ctx.sleep(SECOND)
    await client.create(PODS, member("b-0", "band"))
    await client.create(POD_GROUPS, group_tree("band", least=3))
    await client.create(PODS, member("b-1", "band"))
    await ctx.sleep(5 * SECOND)
    await client.create(PODS, member("b-2", "band"))
    await ctx.sleep(5 * SECOND)


def test_a_gang_waits_for_its_group_and_its_last_member_and_is_bound_as_a_whole():
    cluster = cluster_with(late_member, scheduler_features=GANGS)
    run(cluster)
    assert all(nodes_of(cluster).values())
    bound = [event.t_ns for event in events(cluster, "scheduler.assumed")]
    assert len(bound) == 3 and len(set(bound)) == 1
    assert condition(cluster, "band") == [("True", "Scheduled", "")]
    assert reasons(cluster, "b-0") == ["Scheduled"]


async def two_gangs(ctx: Context) -> None:
    """Two gangs of which one fits, and a pod for which there is room besides."""
    client = Client(ctx)
    await ctx.sleep(SECOND)
    for name in ("a", "b"):
        await client.create(POD_GROUPS, group_tree(name, least=3))
    for number in range(3):
        for name in ("a", "b"):
            await client.create(PODS, member(f"{name}-{number}", name))
    await client.create(PODS, pod_tree("alone", cpu="500m"))
    await ctx.sleep(30 * SECOND)
    for number in range(3):
        await client.delete(PODS, "default", f"b-{number}")


@pytest.mark.parametrize("seed", range(6))
def test_of_two_gangs_one_is_bound_wholly_and_the_other_not_at_all(seed):
    cluster = cluster_with(two_gangs, scheduler_features=GANGS, strategy=RandomWalk(seed))
    run(cluster)
    assumed = {event.obj for event in events(cluster, "scheduler.assumed")}
    by_gang = [sum(1 for obj in assumed if f"/{name}-" in obj) for name in "ab"]
    assert sorted(by_gang) == [0, 3]


async def preempting_gang(ctx: Context) -> None:
    client = Client(ctx)
    await ctx.sleep(SECOND)
    for number in range(2):
        await client.create(PODS, pod_tree(f"low-{number}", cpu="2", priority=0))
    await ctx.sleep(SECOND)
    await client.create(POD_GROUPS, group_tree("band", priority=10))
    for number in range(2):
        await client.create(PODS, member(f"b-{number}", "band", cpu="2"))
    await ctx.sleep(20 * SECOND)


@pytest.mark.parametrize(
    "features", [{}, {"SchedulerAsyncPreemption": False}], ids=["async", "sync"]
)
def test_a_gang_evicts_what_is_in_the_way_of_all_its_pods(features):
    cluster = cluster_with(preempting_gang, scheduler_features={**PREEMPTING, **features})
    run(cluster)
    assert sorted(nodes_of(cluster)) == ["b-0", "b-1"]
    assert all(nodes_of(cluster).values())
    assert reasons(cluster, "low-0") == ["Scheduled", "Preempted"]


async def racks(ctx: Context) -> None:
    client = Client(ctx)
    await ctx.sleep(SECOND)
    topology = {"topology": [{"key": "kubernetes.io/hostname"}]}
    await client.create(POD_GROUPS, group_tree("band", schedulingConstraints=topology))
    await client.create(PODS, pod_tree("other", cpu="500m", nodeName="node-1"))
    await ctx.sleep(SECOND)
    for number in range(2):
        await client.create(PODS, member(f"b-{number}", "band"))
    await ctx.sleep(5 * SECOND)


def test_a_group_with_a_topology_is_placed_within_one_domain():
    cluster = cluster_with(racks, scheduler_features=PLACING)
    run(cluster)
    placed = nodes_of(cluster)
    assert placed["b-0"] == placed["b-1"] == "node-2"


async def busy_groups(ctx: Context) -> None:
    """Members come, go, fail and are evicted while groups are tried."""
    client = Client(ctx)
    await ctx.sleep(SECOND)
    await client.create(PODS, pod_tree("low", cpu="2", priority=0))
    await client.create(POD_GROUPS, group_tree("a", priority=10))
    for number in range(4):
        await client.create(PODS, member(f"a-{number}", "a", priority=number))
        await client.create(PODS, pod_tree(f"single-{number}", cpu="100m"))
    await ctx.sleep(SECOND)
    await client.delete(PODS, "default", "a-3")
    await ctx.sleep(15 * SECOND)
    for number in range(3):
        await client.delete(PODS, "default", f"a-{number}")


@pytest.mark.slow
def test_every_point_of_a_groups_cycle_is_overtaken_under_some_schedule():
    found: set[str] = set()
    for seed in range(20):
        cluster = cluster_with(
            busy_groups, scheduler_features=PREEMPTING, strategy=RandomWalk(seed)
        )
        run(cluster)
        found |= overtaken(cluster.world.log)
    wanted = {name for name in POINTS if name.startswith("scheduler.group.")}
    assert wanted <= found
