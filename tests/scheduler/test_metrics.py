"""The scheduler's numbers agree with what its log and the API server say happened."""

from __future__ import annotations

from actors import Context
from controlplane.client.loops.clientset import PODS, Client
from controlplane.metrics.family import Buckets
from controlplane.scheduler.metrics import families
from tests.scheduler.loops.test_scheduler import SECOND, cluster_with, pod_tree, run


def numbers(cluster):
    """What the scheduler counted, by name and labels."""
    probe = cluster.scheduler
    return {
        (family.name.removeprefix("scheduler_"), *(value for _, value in sample.labels)): (
            (sample.value.count, sample.value.sum)
            if isinstance(sample.value, Buckets)
            else sample.value
        )
        for family in families(probe.core, probe.metrics)
        for sample in family.samples
    }


def told(cluster, event):
    return sum(1 for each in cluster.world.log if each.event == event)


def test_attempts_waits_and_queues():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for name in ("a", "b", "c"):
            await client.create(PODS, pod_tree(name))
        await client.create(PODS, pod_tree("huge", cpu="9"))
        await client.create(PODS, pod_tree("gated", schedulingGates=[{"name": "wait"}]))
        await ctx.sleep(3 * SECOND)

    cluster = cluster_with(user)
    run(cluster)
    found = numbers(cluster)
    profile = "default-scheduler"
    failed = told(cluster, "scheduler.failed")
    assert cluster.activity.writes["create pods/binding"] == 3 and failed >= 1
    assert found["schedule_attempts_total", profile, "scheduled"] == 3
    assert found["schedule_attempts_total", profile, "unschedulable"] == failed
    assert found["scheduling_attempt_duration_seconds", profile, "unschedulable"][0] == failed
    assert found["pod_scheduling_attempts",] == (3, 3)
    assert found["pod_scheduling_sli_duration_seconds", "1"][0] == 3
    assert found["pending_pods", "unschedulable"] == 1
    assert found["pending_pods", "gated"] == 1
    assert found["unschedulable_pods", "NodeResourcesFit", profile] == 1
    assert found["queue_incoming_pods_total", "UnschedulablePodAdd", "active"] == 4
    assert found["inflight_events", "PodPopped"] == 0
    assert (found["cache_size", "nodes"], found["cache_size", "pods"]) == (2, 3)
    assert found["preemption_attempts_total",] == failed


def test_a_pod_that_had_to_wait_tells_for_how_long():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(PODS, pod_tree("first", cpu="2"))
        await ctx.sleep(SECOND)
        await client.create(PODS, pod_tree("second", cpu="2"))
        await ctx.sleep(30 * SECOND)
        await client.delete(PODS, "default", "first")
        await ctx.sleep(30 * SECOND)

    cluster = cluster_with(user, nodes=1)
    run(cluster)
    found = numbers(cluster)
    count, waited = found["pod_scheduling_sli_duration_seconds", "2"]
    assert count == 1
    assert 29 < waited < 45
    assert found["pod_scheduling_attempts",] == (2, 3)


def test_victims_are_counted():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for name in ("low-1", "low-2"):
            await client.create(PODS, pod_tree(name, priority=1))
        await ctx.sleep(5 * SECOND)
        await client.create(PODS, pod_tree("high", cpu="2", priority=100))
        await ctx.sleep(60 * SECOND)

    cluster = cluster_with(user, nodes=1)
    run(cluster)
    found = numbers(cluster)
    chosen = [each for each in cluster.world.log if each.event == "scheduler.preemption"]
    victims = sum(len(each.data["victims"]) for each in chosen)
    assert victims == 2
    assert found["preemption_victims",] == (len(chosen), victims)
    assert found["preemption_attempts_total",] >= len(chosen)
