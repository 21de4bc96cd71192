from controlplane.api.policy import PodDisruptionBudget
from controlplane.decisions import at_once
from controlplane.gates import FixGates
from controlplane.scheduler import eventhandlers as handlers
from controlplane.scheduler.cycle import failure
from controlplane.scheduler.framework import preemption_task as tasks
from controlplane.scheduler.state.listers import MemoryLister
from tests.scheduler.make import World, node, pod


def bound(world, name, node_name, **kwargs):
    each = pod(name, node=node_name, **kwargs)
    world.pods.put(each)
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    return each


def submit(world, each):
    world.pods.put(each)
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    return world.attempt()


def world_with(**nodes):
    world = World()
    for name, cpu in nodes.items():
        at_once(handlers.add_node(world.scheduler, node(name, cpu=cpu), world.now))
    return world


def fail(world, attempt):
    cached = world.pods.get("default", attempt.pod.name)
    return failure.handle(world.queue, attempt, cached, FixGates(), world.now)


def test_the_least_important_pods_go_and_the_preemptor_is_nominated():
    world = world_with(a="2", b="2")
    bound(world, "a1", "a", cpu="2", priority=5)
    bound(world, "b1", "b", cpu="1", priority=1)
    bound(world, "b2", "b", cpu="1", priority=1)
    attempt = submit(world, pod("vip", cpu="2", priority=9))
    (task,) = world.scheduler.take_preemptions()
    assert (task.node_name, [victim.name for victim in task.victims]) == ("b", ["b1", "b2"])
    _, report = fail(world, attempt)
    assert report.patch.patch["status"]["nominatedNodeName"] == "b"
    assert world.queue.nominated_nodes() == ["b"]


def test_pods_that_can_stay_are_spared():
    world = world_with(a="4")
    for name, cpu in (("big", "3"), ("small", "1")):
        bound(world, name, "a", cpu=cpu)
    submit(world, pod("vip", cpu="1", priority=9))
    (task,) = world.scheduler.take_preemptions()
    assert [victim.name for victim in task.victims] == ["small"]


def test_a_budget_is_violated_only_when_there_is_no_other_way():
    world = world_with(a="1", b="1")
    bound(world, "guarded", "a", cpu="1", labels={"app": "db"})
    bound(world, "plain", "b", cpu="1")
    budget = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    budgets = MemoryLister([PodDisruptionBudget.from_tree(budget)])
    world.scheduler.listers.pod_disruption_budgets = budgets
    submit(world, pod("vip", cpu="1", priority=9))
    (task,) = world.scheduler.take_preemptions()
    assert task.node_name == "b"


def test_the_preemptor_is_held_until_its_last_victim_terminates():
    world = world_with(a="2")
    victims = [bound(world, name, "a", cpu="1") for name in ("v1", "v2")]
    attempt = submit(world, pod("vip", cpu="2", priority=9))
    fail(world, attempt)
    (task,) = world.scheduler.take_preemptions()
    plugin = world.scheduler.preemption_plugin(task)
    (info,) = world.queue.unschedulable
    at_once(handlers.delete_pod(world.scheduler, victims[0], world.now))
    world.pods.remove("default", "v1")
    assert info.gating_plugin == "DefaultPreemption"
    plugin.evict_last(task)
    assert plugin.pre_enqueue(attempt.pod) is not None
    last = task.victims[-1].name
    world.pods.put(pod(last, node="a", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert plugin.pre_enqueue(attempt.pod) is None
    plugin.finish(task)
    assert plugin.preempting == {}


def test_a_preemptor_does_not_preempt_again_while_a_victim_terminates():
    world = world_with(a="2")
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
    }
    bound(
        world,
        "v",
        "a",
        cpu="2",
        deletionTimestamp="2026-01-01T00:00:00Z",
        status={"conditions": [condition]},
    )
    vip = pod("vip", cpu="2", priority=9, status={"nominatedNodeName": "a"})
    attempt = submit(world, vip)
    assert attempt.failure.message.endswith(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    assert attempt.failure.nominating is None


def test_never_means_never():
    world = world_with(a="1")
    bound(world, "v", "a", cpu="1")
    attempt = submit(world, pod("vip", cpu="1", priority=9, preemptionPolicy="Never"))
    assert attempt.failure.message.endswith("not eligible due to preemptionPolicy=Never.")
    assert world.scheduler.take_preemptions() == []


def test_without_pods_of_lower_priority_every_node_says_so_in_one_message():
    world = world_with(a="1", b="1", c="1")
    for name in "abc":
        bound(world, f"v{name}", name, cpu="1", priority=9)
    message = submit(world, pod("vip", cpu="1", priority=9)).failure.message
    assert message.endswith(
        "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
    )
    bound(world, "low", "a", cpu="0", priority=1)
    assert submit(world, pod("vip2", cpu="1", priority=9)).failure.message.endswith(
        "preemption: 0/3 nodes are available: 1 Insufficient cpu, "
        "2 No preemption victims found for incoming pod."
    )


def test_the_writes_of_an_eviction():
    world = world_with(a="1")
    victim = bound(world, "v", "a", cpu="1")
    submit(world, pod("vip", uid="U9", cpu="1", priority=9))
    (task,) = world.scheduler.take_preemptions()
    patch = tasks.disruption_patch(victim, "default-scheduler", 0)
    (condition,) = patch.patch["status"]["conditions"]
    assert condition["message"] == (
        "default-scheduler: preempting to accommodate a higher priority pod"
    )
    event = tasks.preempted_event(victim, task)
    assert event.note == "Preempted by pod U9 on node a"
    assert tasks.preempted_event(victim, task, in_memory=True).note.endswith(
        " (in kube-scheduler memory)."
    )


def test_less_important_pods_lose_their_nomination_to_the_node():
    world = world_with(a="1")
    bound(world, "v", "a", cpu="1", priority=0)
    nominated = pod("n", priority=1, status={"nominatedNodeName": "a"})
    world.pods.put(nominated)
    at_once(handlers.add_pod(world.scheduler, nominated, world.now))
    info = world.queue.pop()
    info.unschedulable_plugins = {"NodeResourcesFit": None}
    at_once(world.queue.add_unschedulable_if_not_present(info, 1, world.now))
    submit(world, pod("vip", cpu="1", priority=9))
    (task,) = world.scheduler.take_preemptions()
    assert [each.name for each in task.nominated] == ["n"]
    assert tasks.clear_nomination(nominated).patch(0).patch == {
        "status": {"nominatedNodeName": None}
    }
    assert tasks.clear_nomination(pod("other")).patch(0) is None


def test_the_offset_of_the_dry_run_can_be_chosen():
    world = World(choose_offset=lambda _kind, n: n - 1)
    for name in "abc":
        at_once(handlers.add_node(world.scheduler, node(name, cpu="1"), world.now))
        bound(world, f"v{name}", name, cpu="1")
    submit(world, pod("vip", cpu="1", priority=9))
    (task,) = world.scheduler.take_preemptions()
    assert task.node_name == "c"
