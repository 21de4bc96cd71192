"""Calls about pods that are no longer what they were when the call was decided."""

from __future__ import annotations

import pytest

from actors import Context, RandomWalk
from controlplane.api.pod import Pod
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.loops.connection import RestConfig
from controlplane.gates import FixGates
from controlplane.races.power import every_fix
from controlplane.scenarios import Scenario, User
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.scheduling_picture import LAWS, picture_holds
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scheduler.framework.api_calls import StatusPatchCall
from controlplane.scheduler.framework.nominating import CLEAR_NOMINATION, NominatingInfo
from controlplane.scheduler.framework.preemption_task import PreemptionTask
from controlplane.scheduler.loops.preemption import Preemptor
from controlplane.scheduler.loops.shared import Shared
from controlplane.scheduler.state.pod_info import PodInfo
from tests.scheduler.loops.test_scheduler import cluster_with, create, pod_tree, pods, run

REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
GUARDED = FixGates({"140177": "preconditions"})


def stand_in(name, uid):
    return Pod.from_tree({"metadata": {"namespace": "default", "name": name, "uid": uid}})


def conditions_after_a_call_made_from_a_stand_in(gates, **spec):
    async def user(ctx: Context) -> None:
        await create(ctx, pod_tree("web", **spec))
        client = Client(ctx)
        uid = (await client.get(PODS, "default", "web")).uid
        shared = Shared(ctx, cluster.scheduler.core, 0, gates, {}.get, RestConfig())
        call = StatusPatchCall(stand_in("web", uid), REFUSED, CLEAR_NOMINATION)
        await shared.patch_status(client, call)

    cluster = cluster_with(user)
    run(cluster)
    return [(c.type, c.status) for c in pods(cluster)["web"].status.conditions]


def test_a_condition_taken_over_by_a_stand_in_without_a_version_spares_a_bound_pod():
    bound = {"nodeName": "node-1"}
    late = conditions_after_a_call_made_from_a_stand_in(FixGates(), **bound)
    assert late == [("PodScheduled", "False")]
    assert conditions_after_a_call_made_from_a_stand_in(GUARDED, **bound) == []


def test_it_reaches_a_pod_that_still_waits():
    for gates in (FixGates(), GUARDED):
        found = conditions_after_a_call_made_from_a_stand_in(gates, schedulerName="nobody")
        assert found == [("PodScheduled", "False")]


def test_a_call_that_a_later_one_has_overtaken_takes_nothing_back():
    """The first is refused because the second has been written meanwhile."""

    async def user(ctx: Context) -> None:
        await create(ctx, pod_tree("web", schedulerName="nobody"))
        client = Client(ctx)
        old = (await client.get(PODS, "default", "web")).view
        shared = Shared(ctx, cluster.scheduler.core, 0, GUARDED, {}.get, RestConfig())
        nominated = NominatingInfo(override=True, nominated_node_name="node-1")
        first = StatusPatchCall(old, REFUSED, CLEAR_NOMINATION)
        second = StatusPatchCall(old, {**REFUSED, "message": "later"}, nominated)

        async def late(ctx: Context) -> None:
            await shared.patch_status(Client(ctx), first)

        ctx.faults.cut("user", "apiserver")
        task = ctx.spawn(late)
        await ctx.point("first asks")
        other = ctx.spawn(lambda ctx: shared.patch_status(Client(ctx), second))
        await ctx.point("second asks")
        ctx.faults.heal("user", "apiserver")
        await ctx.join(task)
        await ctx.join(other)

    for seed in range(8):
        cluster = cluster_with(user, strategy=RandomWalk(seed))
        run(cluster)
        found = pods(cluster)["web"].status
        assert found.nominated_node_name == "node-1"
        assert [c.message for c in found.conditions] == ["later"]


def test_a_victim_whose_name_another_pod_has_by_now_is_gone():
    async def user(ctx: Context) -> None:
        await create(ctx, pod_tree("web", nodeName="node-1"), pod_tree("high", cpu="64"))
        core = cluster.scheduler.core
        shared = Shared(ctx, core, 0, GUARDED, {}.get, RestConfig())
        preemptor = core.listers.pods.get("default", "high")
        task = PreemptionTask(preemptor, "node-1", (stand_in("web", "of-the-one-before"),), ())
        core.handle.preemptions.append(task)
        problems.append(await Preemptor(shared).take(ctx, Client(ctx)))

    problems: list[str] = []
    features = {"SchedulerAsyncPreemption": False}
    cluster = cluster_with(user, scheduler_features=features)
    run(cluster)
    assert problems == [""]
    assert not pods(cluster)["web"].status.conditions


async def lingering(user: User) -> None:
    """A victim's finalizer keeps it, so that no delete event comes; another event finds the preemptor's gate closed."""
    await user.sleep(1)
    low = pod("low", "2", priority=0)
    low["metadata"]["finalizers"] = ["example.com/wait"]
    await user.create(low)
    await user.create(pod("other", "2", priority=0, nodeName="node-2"))
    await user.sleep(1)
    await user.create(pod("high", "2", priority=10))
    for _ in range(user.choose(12, "when")):
        await user.point()
    await user.delete("Pod", "other", grace_period_seconds=0)
    await user.sleep(20)


@pytest.mark.slow
def test_a_preemptor_does_not_wait_before_the_gate_that_the_end_of_its_preemption_opened():
    (law,) = [law for law in LAWS if law.name == "no pod waits before an open gate"]
    scenario = Scenario(
        "lingering",
        workload=lingering,
        build=scheduler_alone(),
        invariants=picture_holds(law),
        defaults={"nodes": 1, "node_cpu": "2"},
    )
    off = {"fix": every_fix("142294"), "without_fix": ("142294",)}
    found = Campaign(plan_of(scenario, **off), "random-walk").explore(20).findings
    assert found
    assert found[0].result.reason.startswith(law.name)
    on = Campaign(plan_of(scenario, fix=every_fix()), "random-walk").explore(40)
    assert list(on.verdicts) == ["quiescent"], on.verdicts


def test_a_victim_that_is_bound_unheard_of_is_not_preempted_over_and_over():
    async def user(ctx: Context) -> None:
        await create(ctx, pod_tree("web", schedulerName="nobody"), pod_tree("high", cpu="64"))
        core = cluster.scheduler.core
        shared = Shared(ctx, core, 0, FixGates({"142294": "proposed"}), {}.get, RestConfig())
        victim = core.listers.pods.get("default", "web")
        task = PreemptionTask(core.listers.pods.get("default", "high"), "node-1", (victim,), ())
        preemptor = Preemptor(shared)
        free.append(preemptor.may_be_free(task))
        bound = Pod.from_tree(
            {**victim.tree, "spec": {**victim.tree["spec"], "nodeName": "node-1"}}
        )
        core.cache.assume_pod(PodInfo(bound))
        free.append(preemptor.may_be_free(task))
        core.cache.forget_pod(bound)

    free: list[bool] = []
    cluster = cluster_with(user)
    run(cluster)
    assert free == [True, False]
