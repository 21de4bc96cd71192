import pytest

from controlplane.decisions import at_once
from controlplane.scheduler import eventhandlers as handlers
from controlplane.scheduler.config.model import ProfileConfig, SchedulerConfig
from controlplane.scheduler.cycle import binding
from controlplane.scheduler.cycle import scheduling as cycle
from controlplane.scheduler.cycle.attempt import Attempt
from controlplane.scheduler.framework import args as a
from controlplane.scheduler.framework import interface as fwk
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.plugins.registry import Entry, in_tree_registry
from controlplane.scheduler.scheduler import Skipped
from tests.scheduler.make import World, node, pod


def world_with(*nodes, **options):
    world = World(**options)
    for each in nodes:
        at_once(handlers.add_node(world.scheduler, each, world.now))
    return world


def submit(world, each):
    world.pods.put(each)
    world.now += 1
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    return each


def test_a_pod_goes_to_the_emptier_node_and_is_bound_with_its_uid():
    world = world_with(node("full", cpu="4"), node("empty", cpu="4"))
    at_once(handlers.add_pod(world.scheduler, pod("b", cpu="3", node="full"), world.now))
    submit(world, pod("p", uid="U1"))
    attempt = world.attempt()
    assert attempt.result == cycle.ScheduleResult("empty", 2, 2)
    write = world.bind(attempt)
    assert (write.resource, write.subresource, write.name) == ("pods", "binding", "p")
    assert write.body["metadata"]["uid"] == "U1"
    assert write.body["target"] == {"kind": "Node", "name": "empty"}
    assert binding.bound(attempt).note == "Successfully assigned default/p to empty"
    assert world.queue.in_flight_uids() == []


def test_without_nodes_there_is_a_message_of_its_own():
    world = World()
    submit(world, pod("p"))
    attempt = world.attempt()
    assert attempt.failure.message == "no nodes available to schedule pods"
    assert attempt.failure.no_nodes


def test_the_message_counts_reasons_and_says_what_preemption_found():
    world = world_with(node("a", cpu="1"), node("b", spec={"unschedulable": True}))
    submit(world, pod("p", cpu="2"))
    failure = world.attempt().failure
    assert failure.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
        "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    plugins = list(failure.fit_error.diagnosis.unschedulable_plugins)
    assert plugins == ["NodeResourcesFit", "NodeUnschedulable"]


def test_what_an_attempt_leaves_holds_nothing_of_the_calls_that_made_it():
    world = world_with(node("a", cpu="1"))
    submit(world, pod("p", cpu="2"))
    assert world.attempt().failure.fit_error.__traceback__ is None


def test_deleted_and_assumed_pods_are_skipped_and_their_flight_ends():
    world = world_with(node("n"))
    submit(world, pod("p", deletionTimestamp="2026-01-01T00:00:00Z"))
    skipped = world.scheduler.begin(world.queue.pop(), world.now)
    assert isinstance(skipped, Skipped)
    assert skipped.event.note == "skip schedule deleting pod: default/p"
    each = submit(world, pod("q"))
    world.bind(world.attempt())
    at_once(world.queue.add(each, world.now))
    assert isinstance(world.scheduler.begin(world.queue.pop(), world.now), Skipped)
    assert world.queue.in_flight_uids() == []


def test_a_nominated_node_is_tried_alone_first():
    world = world_with(node("a", cpu="4"), node("b", cpu="8"))
    submit(world, pod("p", status={"nominatedNodeName": "a"}))
    assert world.attempt().result == cycle.ScheduleResult("a", 1, 1)
    submit(world, pod("q", cpu="5", status={"nominatedNodeName": "a"}))
    assert world.attempt().result.node_name == "b"


def test_room_is_kept_for_nominated_pods_of_no_lower_priority():
    world = world_with(node("a", cpu="2"))
    vip = submit(world, pod("vip", cpu="2", priority=5))
    info = world.queue.pop()
    info.unschedulable_plugins = {"NodeResourcesFit": None}
    at_once(world.queue.add_unschedulable_if_not_present(info, 1, world.now))
    world.queue.add_nominated_pod(vip, NominatingInfo(True, "a"))
    submit(world, pod("equal", cpu="1", priority=5))
    assert "Insufficient cpu" in world.attempt().failure.message
    submit(world, pod("above", cpu="1", priority=6))
    assert world.attempt().result.node_name == "a"


def test_a_pod_that_names_its_node_by_affinity_sees_only_that_one():
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    world = world_with(node("a"), node("b", cpu="1"), node("c"))
    submit(world, pod("p", affinity={"nodeAffinity": required}))
    assert world.attempt().result == cycle.ScheduleResult("b", 1, 1)
    submit(world, pod("q", cpu="3", affinity={"nodeAffinity": required}))
    message = world.attempt().failure.message
    assert message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_a_plugin_that_says_skip_to_binding_leaves_no_binder():
    class NoBinder(fwk.BindPlugin):
        name = "DefaultBinder"

        def bind(self, state, pod, node_name):
            return None

    registry = in_tree_registry()
    registry["DefaultBinder"] = Entry(NoBinder, lambda _args, _handle: NoBinder())
    world = world_with(node("n"), registry=registry)
    submit(world, pod("p"))
    attempt = world.attempt()
    assert world.bind(attempt) is None
    assert attempt.failure.message == "binding rejected: skip"


class Permit(fwk.PermitPlugin, fwk.ReservePlugin):
    name = "Permit"
    said = None

    def __init__(self):
        self.reserved = []

    def reserve(self, state, pod, node_name):
        self.reserved.append(node_name)

    def unreserve(self, state, pod, node_name):
        self.reserved.remove(node_name)

    def permit(self, state, pod, node_name):
        return self.said, 60


def world_with_permit(said):
    plugin = Permit()
    plugin.said = said
    registry = in_tree_registry()
    registry["Permit"] = Entry(Permit, lambda _args, _handle: plugin)
    points = {
        "queueSort": (("PrioritySort", 0),),
        "bind": (("DefaultBinder", 0),),
        "reserve": (("Permit", 0),),
        "permit": (("Permit", 0),),
        "score": (),
    }
    config = SchedulerConfig(profiles=(ProfileConfig(plugins=points),))
    world = world_with(node("n"), registry=registry, config=config)
    submit(world, pod("p"))
    return world, plugin


def test_a_refusal_by_permit_gives_everything_back_and_names_the_node():
    world, plugin = world_with_permit(fwk.unschedulable("not yet"))
    attempt = world.attempt()
    at_once(binding.assume(world.cache, world.queue, attempt))
    at_once(binding.reserve_and_permit(world.cache, attempt))
    assert attempt.failure.message == "0/1 nodes are available: 1 not yet."
    assert list(attempt.failure.fit_error.diagnosis.unschedulable_plugins) == ["Permit"]
    assert plugin.reserved == []
    assert world.cache.pod_count == 0


def test_a_pod_told_to_wait_stays_in_flight_until_the_wait_is_over():
    world, _ = world_with_permit(fwk.Status(fwk.Code.WAIT))
    attempt = world.attempt()
    at_once(binding.assume(world.cache, world.queue, attempt))
    at_once(binding.reserve_and_permit(world.cache, attempt))
    assert attempt.waits == {"Permit": 60}
    patch = binding.pre_bind_pre_flight(attempt)
    assert patch.patch(0).patch == {"status": {"nominatedNodeName": "n"}}
    binding.permit_wait_over(world.queue, attempt, fwk.unschedulable("too late").by("Permit"))
    assert attempt.failure.is_rejected
    assert world.queue.in_flight_uids() == ["p"]
    assert at_once(binding.undo(world.cache, world.queue, attempt, world.now))


def test_a_failed_binding_frees_the_room_and_wakes_others():
    world = world_with(node("n", cpu="1"))
    submit(world, pod("p", cpu="1"))
    submit(world, pod("w", cpu="1"))
    attempt = world.attempt()
    world.bind(attempt)
    waiting = world.attempt()
    waiting.info.unschedulable_plugins = {"NodeResourcesFit": None}
    at_once(world.queue.add_unschedulable_if_not_present(waiting.info, 2, world.now))
    binding.bind_error(attempt, "DefaultBinder", "timed out")
    assert not at_once(binding.undo(world.cache, world.queue, attempt, world.now))
    assert attempt.failure.message == 'running Bind plugin "DefaultBinder": timed out'
    assert len(world.queue.unschedulable) == 0
    assert world.cache.pod_count == 0


def test_an_inconsistent_snapshot_fails_one_cycle_only():
    world = world_with(node("n"))
    world.scheduler.cache.node_tree.add(node("phantom"))
    submit(world, pod("p"))
    assert "snapshot state is not consistent" in world.attempt().failure.message


def test_equal_pods_that_fill_their_node_take_the_next_best_node_without_a_search():
    spread = a.PodTopologySpreadArgs("List", ())
    config = SchedulerConfig(profiles=(ProfileConfig(args={"PodTopologySpread": spread}),))
    world = world_with(*(node(f"n{i}", cpu=str(9 - i)) for i in range(5)), config=config)
    ports = [{"containerPort": 80, "hostPort": 80}]
    containers = [{"name": "c", "ports": ports, "resources": {"requests": {"cpu": "1"}}}]
    for i in range(3):
        submit(world, pod(f"p{i}", containers=containers))
    counts = []
    for _ in range(3):
        attempt = world.attempt()
        counts.append(attempt.result.feasible_nodes)
        world.bind(attempt)
    assert counts == [5, 1, 1]
    assert attempt.framework.batch.used == 2


def test_batching_ends_with_age_and_with_other_pods():
    spread = a.PodTopologySpreadArgs("List", ())
    config = SchedulerConfig(profiles=(ProfileConfig(args={"PodTopologySpread": spread}),))
    ports = [{"containerPort": 80, "hostPort": 80}]
    containers = [{"name": "c", "ports": ports}]
    for later, labels, reason in (
        (600_000_000, {}, "expired"),
        (0, {"app": "other"}, "pod_incompatible"),
    ):
        world = world_with(*(node(f"n{i}") for i in range(4)), config=config)
        submit(world, pod("p0", containers=containers))
        submit(world, pod("p1", containers=containers, labels=labels))
        world.bind(world.attempt())
        world.now += later
        assert world.attempt().result.feasible_nodes == 3
        assert next(iter(world.scheduler.frameworks.values())).batch.flushes == {reason: 1}


@pytest.mark.parametrize(
    ("percentage", "nodes", "wanted"),
    [(0, 50, 50), (0, 100, 100), (0, 1000, 420), (0, 5000, 500), (0, 6000, 300), (30, 1000, 300)],
)
def test_large_clusters_are_searched_in_part(percentage, nodes, wanted):
    assert cycle.num_feasible_nodes_to_find(percentage, nodes) == wanted


def test_without_scores_one_node_is_enough():
    points = {
        "queueSort": (("PrioritySort", 0),),
        "bind": (("DefaultBinder", 0),),
        "filter": (("NodeName", 0),),
    }
    config = SchedulerConfig(profiles=(ProfileConfig(plugins=points),))
    world = world_with(node("a"), node("b"), config=config)
    submit(world, pod("p"))
    attempt = world.attempt()
    assert isinstance(attempt, Attempt)
    assert attempt.result == cycle.ScheduleResult("a", 1, 1)
    assert world.scheduler.search.next_start_node_index == 1
