"""Room for resizes that wait (KEP-5836): from the condition through the victims to the resize."""

from __future__ import annotations

import pytest

from controlplane.decisions import at_once
from controlplane.errors import UsageError
from controlplane.gates import fix_gates
from controlplane.scenarios import Run, Scenario
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scheduler import eventhandlers as handlers
from controlplane.scheduler.config.features import parse
from controlplane.scheduler.config.model import DEFAULT_ARGS, ProfileConfig, SchedulerConfig
from controlplane.scheduler.cycle import binding, failure
from controlplane.scheduler.framework.deferred_resize import (
    GATE,
    DeferredPodSchedulingArgs,
    args_of,
)
from controlplane.scheduler.framework.names import DEFERRED_POD_SCHEDULING
from controlplane.scheduler.plugins.deferred_pod_scheduling import FITS
from tests.kubelet.loops.test_resize import container, resize_conditions, sized
from tests.scheduler.make import World, node, pod, pod_tree

ON = {GATE: True}


def waiting(name, desired, allocated, *, reason="Deferred", node="n", priority=0, **more):
    """A pod on a node that wants more than it was promised."""
    tree = pod_tree(name, cpu=desired, node=node, priority=priority, **more)
    held = {"requests": {"cpu": allocated}}
    (one,) = tree["spec"]["containers"]
    tree["status"] = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        "containerStatuses": [
            {"name": one["name"], "resources": held, "allocatedResources": held["requests"]}
        ],
    }
    from controlplane.api.pod import Pod

    return Pod.from_tree(tree)


def world_with(*nodes, **form):
    args = {**DEFAULT_ARGS, DEFERRED_POD_SCHEDULING: DeferredPodSchedulingArgs(**form)}
    config = SchedulerConfig(profiles=(ProfileConfig(args=args),))
    world = World(config=config, features=ON)
    for each in nodes:
        at_once(handlers.add_node(world.scheduler, each, world.now))
    return world


def seen(world, *pods):
    for each in pods:
        world.pods.put(each)
        at_once(handlers.add_pod(world.scheduler, each, world.now))


def changed(world, old, new):
    world.pods.put(new)
    at_once(handlers.update_pod(world.scheduler, old, new, world.now))


def places(world):
    return world.queue.pending_pods()


def failed(world, attempt):
    """The failure handler's work."""
    cached = world.pods.get(attempt.pod.namespace, attempt.pod.name)
    info = attempt.info
    failure.record(info, attempt.failure)
    verdict = failure.judge(info, cached, fix_gates(), resizes=True)
    at_once(failure.requeue(world.queue, info, verdict, world.now))
    return verdict


def attempt(world):
    """A cycle, as the scheduling task runs it for a pod whose resize waits."""
    found = world.attempt()
    if found.failure is None:
        binding.park(found)
    return found


# ------------------------------------------------------------------ who is queued


def test_a_pod_is_queued_while_its_resize_waits():
    world = world_with(node("n", cpu="4"))
    seen(world, pod("plain", cpu="1", node="n"))
    assert places(world)["active"] == 0
    before = pod("web", cpu="3", node="n")
    seen(world, before)
    wants = waiting("web", "4", "3")
    changed(world, before, wants)
    assert places(world)["active"] == 1
    changed(world, wants, waiting("web", "4", "4", reason="Infeasible"))
    assert sum(places(world).values()) == 0


def test_a_restarted_scheduler_finds_the_resizes_that_wait():
    world = world_with(node("n", cpu="4"))
    web = waiting("web", "4", "3")
    seen(world, web)
    assert places(world)["active"] == 1
    at_once(handlers.delete_pod(world.scheduler, web, world.now))
    assert sum(places(world).values()) == 0


def test_without_the_gate_no_pod_is_queued():
    world = World()
    at_once(handlers.add_node(world.scheduler, node("n", cpu="4"), world.now))
    seen(world, waiting("web", "4", "3"))
    assert sum(places(world).values()) == 0


def test_a_pod_of_which_the_kubelet_says_that_its_node_forbids_it_is_not_queued():
    web = waiting("web", "4", "3")
    tree = {**web.tree}
    tree["status"] = {
        **tree["status"],
        "conditions": [
            *tree["status"]["conditions"],
            {"type": "PodResizePreemptionDisabled", "status": "True"},
        ],
    }
    world = world_with(node("n", cpu="4"))
    seen(world, type(web).from_tree(tree))
    assert sum(places(world).values()) == 0


# ------------------------------------------------------------------ the cycle


def test_others_go_on_the_pods_own_node_only():
    world = world_with(node("n", cpu="4"), node("other", cpu="4"))
    victim = pod("low", cpu="2", node="n", priority=1)
    web = waiting("web", "3", "2", priority=10)
    seen(world, victim, pod("elsewhere", cpu="4", node="other", priority=0), web)
    found = attempt(world)
    (task,) = world.scheduler.take_preemptions()
    assert (task.node_name, [each.name for each in task.victims]) == ("n", ["low"])
    assert "Insufficient cpu" in found.failure.message
    verdict = failed(world, found)
    assert not verdict.reports
    assert places(world)["unschedulable"] == 1
    # the first victim to go does not let it out while others are still to be evicted
    world.now += 10**12
    at_once(handlers.delete_pod(world.scheduler, victim, world.now))
    assert places(world)["gated"] == 1
    assert world.queue.nominated_pods_for_node("n") == []


def test_a_resize_that_fits_is_parked_until_its_kubelet_acts():
    world = world_with(node("n", cpu="4"))
    web = waiting("web", "3", "2", priority=10)
    other = pod("other", cpu="1", node="n")
    seen(world, other, web)
    found = attempt(world)
    assert FITS in found.failure.message
    assert not failed(world, found).reports
    assert list(found.info.unschedulable_plugins) == [DEFERRED_POD_SCHEDULING]
    assert places(world)["unschedulable"] == 1
    # somebody on the node grows: perhaps others have to go after all
    changed(world, other, pod("other", cpu="2", node="n"))
    assert places(world)["unschedulable"] == 0


def test_what_happens_on_other_nodes_wakes_no_pod():
    world = world_with(node("n", cpu="4"), node("other", cpu="4"))
    stays = pod("stays", cpu="2", node="n", priority=50)
    gone = pod("gone", cpu="2", node="other")
    seen(world, stays, gone, waiting("web", "3", "2", priority=10))
    failed(world, attempt(world))
    assert places(world)["unschedulable"] == 1
    at_once(handlers.delete_pod(world.scheduler, gone, world.now))
    at_once(handlers.add_node(world.scheduler, node("third", cpu="64"), world.now))
    tainted = node("other", cpu="4", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    at_once(handlers.update_node(world.scheduler, node("other", cpu="4"), tainted, world.now))
    assert places(world)["unschedulable"] == 1
    at_once(handlers.delete_pod(world.scheduler, stays, world.now))
    assert places(world)["unschedulable"] == 0


def test_a_second_resize_while_the_first_waits_is_looked_at_with_its_own_size():
    world = world_with(node("n", cpu="4"))
    stays = pod("stays", cpu="2", node="n", priority=50)
    first = waiting("web", "3", "2", priority=10)
    seen(world, stays, first)
    failed(world, attempt(world))
    world.now += 10**12
    second = waiting("web", "2", "2", priority=10)
    changed(world, first, second)
    found = attempt(world)
    assert FITS in found.failure.message


def test_a_node_that_forbids_it_lets_no_pod_be_preempted():
    quiet = node("n", cpu="4", spec={"podPreemptionPolicy": {"disableResizePreemption": ["vpa"]}})
    world = world_with(quiet)
    seen(world, pod("low", cpu="2", node="n"), waiting("web", "3", "2", priority=10))
    found = attempt(world)
    assert "node had resize preemption disabled" in found.failure.message
    assert world.scheduler.take_preemptions() == []
    failed(world, found)
    at_once(handlers.update_node(world.scheduler, quiet, node("n", cpu="4"), 10**12))
    assert places(world)["unschedulable"] == 0


def test_pods_of_the_same_priority_stay():
    world = world_with(node("n", cpu="4"))
    seen(world, pod("same", cpu="2", node="n"), waiting("web", "3", "2"))
    assert "No preemption victims" in attempt(world).failure.message


# ------------------------------------------------------------------ where sources disagree


def test_a_full_node_is_too_full_for_a_pod_that_is_there_unless_it_is_taken_out():
    """The count of pods is that of the ordinary check: by the code the pod counts twice."""
    for form, says in ({}, "Too many pods"), ({"accounting": "WithoutPod"}, FITS):
        world = world_with(node("n", cpu="4", pods="1"), **form)
        seen(world, waiting("web", "3", "2", priority=10))
        assert says in attempt(world).failure.message


def test_the_worked_example_of_too_many_victims():
    """Node 2X; one important pod and three others, all of which wait for more than there is."""
    for form, victims in ({}, 3), ({"others": "Allocated"}, 1):
        world = world_with(node("n", cpu="4"), **form)
        seen(world, waiting("top", "2", "1", priority=10))
        seen(world, *(waiting(f"low-{i}", "4", "1") for i in range(3)))
        assert attempt(world).pod.name == "top"
        (task,) = world.scheduler.take_preemptions()
        assert len(task.victims) == victims


def test_by_the_proposal_the_fit_check_itself_refuses_what_fits():
    world = world_with(node("n", cpu="4"), parking="Filter")
    seen(world, waiting("web", "3", "2", priority=10))
    found = attempt(world)
    assert FITS in found.failure.message
    assert list(found.info.unschedulable_plugins) == []
    failed(world, found)
    assert "NodeResourcesFit" in found.info.unschedulable_plugins


def test_whether_a_pod_may_preempt_again_while_its_victims_terminate_is_a_form():
    leaving = pod_tree("leaving", cpu="2", node="n", priority=1)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    leaving["status"] = {
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        ]
    }
    from controlplane.api.pod import Pod

    for form, again in ({}, True), ({"repeats": "AwaitVictims"}, False):
        world = world_with(node("n", cpu="4"), **form)
        seen(world, Pod.from_tree(leaving), pod("low", cpu="1", node="n", priority=2))
        seen(world, waiting("web", "4", "1", priority=10))
        attempt(world)
        assert bool(world.scheduler.take_preemptions()) is again


def test_wrong_forms_are_refused_by_name():
    with pytest.raises(ValueError, match="parking: 'Bind' is none of Permit, Filter"):
        args_of({"parking": "Bind"})
    with pytest.raises(ValueError, match="unknown argument 'park'"):
        args_of({"park": "Permit"})


def test_the_proposals_name_of_the_gate_is_understood():
    assert parse(["SchedulerPreemptionForPodResize=true"]) == {GATE: True}
    with pytest.raises(UsageError):
        parse(["SchedulerPreemptionForResize=true"])


# ------------------------------------------------------------------ the whole way


def important(name: str, cpu: str) -> dict:
    tree = sized(name, cpu)
    tree["spec"]["priorityClassName"] = "high"
    return tree


HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}


async def full_node(user) -> None:
    """A node full of unimportant pods on which an important one wants to grow."""
    await user.create(HIGH)
    await user.create(important("web", "1"))
    for name in ("low-1", "low-2", "low-3"):
        await user.create(sized(name, "1"))
    await user.sleep(30)
    await user.resize("web", "main", cpu="2500m")
    await user.sleep(120)


def run(workload, *, on=True, strategy="fifo", seed=0) -> Run:
    scenario = Scenario("resize preemption", workload=workload)
    gates = (f"{GATE}=true",) if on else ()
    plan = plan_of(scenario, nodes=1, node_cpu="4", feature_gates=gates)
    done = Campaign(plan, strategy).under(seed)
    assert done.result.verdict == "quiescent", done.result.reason
    return done


def names(run: Run) -> list[str]:
    return sorted(obj.name for obj in run.objects("/registry/pods/"))


def test_unimportant_pods_go_and_the_resize_is_granted():
    done = run(full_node)
    assert len(names(done)) == 2
    assert "web" in names(done)
    assert container(done, "web")["resources"]["requests"]["cpu"] == "2500m"
    assert resize_conditions(done, "web") == []
    assert sum(done.cluster.scheduler.core.queue.pending_pods().values()) == 0


def test_without_the_gate_the_resize_waits_for_ever():
    done = run(full_node, on=False)
    assert names(done) == ["low-1", "low-2", "low-3", "web"]
    assert resize_conditions(done, "web") == [("PodResizePending", "Deferred", 2)]


@pytest.mark.parametrize("seed", range(10))
def test_in_any_order_the_resize_is_granted_and_one_pod_may_stay(seed):
    done = run(full_node, strategy="random-walk", seed=seed)
    assert container(done, "web")["resources"]["requests"]["cpu"] == "2500m"
    assert len(names(done)) == 2


def test_a_kubelet_says_that_its_node_forbids_it_and_takes_that_back():
    told = []

    async def workload(user) -> None:
        note = {"emulate.controlplane/disable-resize-preemption": "vpa"}
        await user.patch("Node", "node-1", {"metadata": {"annotations": note}})
        await full_node(user)
        told.append([each[0] for each in resize_conditions(user.run, "web")])
        await user.patch("Node", "node-1", {"metadata": {"annotations": dict.fromkeys(note, None)}})
        await user.sleep(60)

    done = run(workload)
    assert told == [["PodResizePending", "PodResizePreemptionDisabled"]]
    assert container(done, "web")["resources"]["requests"]["cpu"] == "2500m"
