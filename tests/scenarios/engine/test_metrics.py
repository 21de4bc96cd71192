"""All components' numbers in one snapshot; taking it changes nothing."""

from __future__ import annotations

from actors import Context
from controlplane.client.loops.clientset import PODS, Client
from controlplane.cluster_config import SCHEDULER
from controlplane.metrics.exposition import text_of
from controlplane.scenarios.engine.metrics import metrics_of
from tests.test_cluster import SECOND, cluster_with, plain_pod, run


async def user(ctx: Context) -> None:
    for name in ("a", "b"):
        await Client(ctx).create(PODS, plain_pod(name))
    await ctx.sleep(5 * SECOND)


def test_snapshots_leave_the_trace_as_it_is_and_are_the_same_in_every_run():
    plain, watched = cluster_with(user), cluster_with(user)
    taken = []

    async def passer_by(ctx: Context, look) -> None:
        for _ in range(6):
            await ctx.sleep(SECOND)
            look()

    plain.user("passer-by", passer_by, lambda: None)
    watched.user("passer-by", passer_by, lambda: taken.append(text_of(metrics_of(watched))))
    assert run(plain).trace_hash == run(watched).trace_hash
    assert len(taken) == 6 and len(set(taken)) > 1
    assert text_of(metrics_of(plain)) == text_of(metrics_of(watched))


def test_a_process_that_is_down_tells_nothing_and_begins_again():
    cluster = cluster_with(user)
    found = {}

    async def fault(ctx: Context) -> None:
        def attempts():
            return sum(
                sample.value
                for family in metrics_of(cluster)
                if family.name == "scheduler_schedule_attempts_total"
                for sample in family.samples
                if ("result", "scheduled") in sample.labels
            )

        def names():
            return {family.name.partition("_")[0] for family in metrics_of(cluster)}

        await ctx.sleep(3 * SECOND)
        found["before"] = attempts()
        cluster.world.faults.crash(SCHEDULER)
        found["down"] = names()
        cluster.world.faults.restart(SCHEDULER)
        await ctx.sleep(SECOND)
        found["after"] = attempts()

    cluster.user("fault", fault)
    run(cluster)
    assert found == {"before": 2, "down": {"apiserver", "kubelet"}, "after": 0}


def test_equal_processes_are_told_apart():
    cluster = cluster_with(user, apiservers=2)
    run(cluster)
    families = {family.name: family for family in metrics_of(cluster)}
    shown = {
        dict(sample.labels)["instance"]
        for sample in families["apiserver_current_inflight_requests"].samples
    }
    assert shown == {"apiserver", "apiserver-2"}
    nodes = [dict(sample.labels)["node"] for sample in families["kubelet_running_pods"].samples]
    assert nodes == ["node-1", "node-2"]
