import pytest

from controlplane.decisions import at_once
from controlplane.scheduler import eventhandlers as handlers
from controlplane.scheduler.cycle.attempt import Attempt
from controlplane.scheduler.cycle.scheduling import Search
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import interface as fwk
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import Code, Status, StatusError
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.framework.runtime import Framework, PluginSet
from controlplane.scheduler.state.node_info import NodeInfo
from tests.scheduler.make import World, node, pod


class Narrow(fwk.PreFilterPlugin):
    def __init__(self, name, result=None, status=None):
        self.name = name
        self.said = (fwk.PreFilterResult(result) if result is not None else None, status)

    def pre_filter(self, state, pod, nodes):
        return self.said


class Score(fwk.ScorePlugin):
    name = "S"

    def __init__(self, value):
        self.value = value

    def score(self, state, pod, node):
        if isinstance(self.value, Status):
            raise StatusError(self.value)
        return self.value


def framework(**points):
    return Framework("default-scheduler", Handle(), PluginSet(**points))


def names(*each):
    return dict.fromkeys(each)


def test_a_plain_rejection_lets_the_other_prefilters_run():
    ran = []

    class Last(Narrow):
        def pre_filter(self, state, pod, nodes):
            ran.append(self.name)
            return None, fwk.SKIP

    f = framework(pre_filter=[Narrow("A", status=fwk.unschedulable("no")), Last("B")])
    state = CycleState()
    outcome = at_once(f.run_pre_filter(state, pod("p")))
    assert (outcome.status.plugin, outcome.status.reasons) == ("A", ("no",))
    assert ran == ["B"]
    assert state.skip_filter == {"B"}


def test_an_unresolvable_rejection_ends_the_prefilters():
    f = framework(pre_filter=[Narrow("A", status=fwk.unresolvable("never")), Narrow("B")])
    assert at_once(f.run_pre_filter(CycleState(), pod("p"))).status.plugin == "A"


def test_other_statuses_of_a_prefilter_are_errors():
    f = framework(pre_filter=[Narrow("A", status=fwk.error("boom"))])
    status = at_once(f.run_pre_filter(CycleState(), pod("p"))).status
    assert (status.code, status.message) == (Code.ERROR, 'running PreFilter plugin "A": boom')


def test_node_sets_are_intersected_and_an_empty_one_names_its_plugins():
    f = framework(pre_filter=[Narrow("A", names("x", "y")), Narrow("B", names("y", "z"))])
    outcome = at_once(f.run_pre_filter(CycleState(), pod("p")))
    assert (list(outcome.node_names), outcome.status) == (["y"], None)
    f = framework(pre_filter=[Narrow("B", names("x")), Narrow("A", names("y"))])
    outcome = at_once(f.run_pre_filter(CycleState(), pod("p")))
    assert outcome.status.message == "node(s) didn't satisfy plugin(s) [A B] simultaneously"
    f = framework(pre_filter=[Narrow("A", names())])
    assert at_once(f.run_pre_filter(CycleState(), pod("p"))).status.message == (
        "node(s) didn't satisfy plugin A"
    )


def test_a_filter_that_neither_passes_nor_refuses_is_an_error():
    class Odd(fwk.FilterPlugin):
        name = "Odd"

        def filter(self, state, pod, node):
            return Status(Code.WAIT, ("hm",))

    status = framework(filter=[Odd()]).run_filter(CycleState(), pod("p"), NodeInfo())
    assert (status.code, status.message) == (Code.ERROR, 'running "Odd" filter plugin: hm')


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (101, 'plugin "S" returns an invalid score 101, it should in the range of [0, 100]'),
        (fwk.error("boom"), 'plugin "S" failed with: boom'),
    ],
)
@pytest.mark.parametrize("nodes", [2, 40])
def test_bad_scores_end_the_cycle(value, message, nodes):
    search = Search(Handle().columns)
    for i in range(nodes):
        search.snapshot.node_info_map[f"n{i}"] = NodeInfo()
        search.snapshot.node_info_map[f"n{i}"].set_node(node(f"n{i}"))
    search.snapshot.rebuild_list(list(search.snapshot.node_info_map))
    search.columns.sync()
    each = QueuedPodInfo.for_pod(pod("p"), 0)
    attempt = Attempt(each, framework(score=[Score(value)]), CycleState(), 0, "p")
    with pytest.raises(StatusError) as caught:
        search.rate(attempt, search.snapshot.node_info_list)
    assert message in caught.value.status.message


def test_post_filters_stop_at_the_first_that_helped():
    class Post(fwk.PostFilterPlugin):
        def __init__(self, name, status):
            self.name = name
            self.status = status

        def post_filter(self, state, pod, statuses, filters):
            return fwk.PostFilterResult(None), self.status

    refuse = [Post("A", fwk.unschedulable("a")), Post("B", fwk.unschedulable("b"))]
    _, status = at_once(framework(post_filter=refuse).run_post_filter(CycleState(), pod("p"), None))
    assert (status.plugin, status.message) == ("A", "a, b")
    helped = [*refuse, Post("C", None)]
    assert (
        at_once(framework(post_filter=helped).run_post_filter(CycleState(), pod("p"), None))[1]
        is None
    )
    ended = [Post("A", fwk.unresolvable("x")), Post("B", None)]
    _, status = at_once(framework(post_filter=ended).run_post_filter(CycleState(), pod("p"), None))
    assert status.message == "x"


def test_a_plugin_with_node_add_is_also_woken_by_taints_and_one_without_events_by_all():
    class Quiet(fwk.FilterPlugin):
        name = "Quiet"

    class Adds(fwk.EnqueueExtensions):
        name = "Adds"

        def events_to_register(self):
            return [ev.ClusterEventWithHint(ev.NODE_ADD, lambda *_: ev.Hint.SKIP)]

    f = Framework("p", Handle(), PluginSet(), all_plugins=[Adds(), Quiet()])
    hints = {event.label: [plugin for plugin, _ in found] for event, found in f.queueing_hints()}
    assert hints["NodeUpdateNodeTaint"] == ["Adds"]
    assert hints["PodAll"] == ["Quiet"]


@pytest.mark.parametrize(
    ("pattern", "incoming", "matches"),
    [
        ((ev.POD, ev.ADD), (ev.ASSIGNED_POD, ev.ADD), True),
        ((ev.ASSIGNED_POD, ev.ADD), (ev.POD, ev.ADD), False),
        ((ev.NODE, ev.UPDATE_NODE_LABEL), (ev.NODE, ev.UPDATE), False),
        ((ev.NODE, ev.ALL), (ev.NODE, ev.UPDATE), True),
        ((ev.NODE, ev.ALL), (ev.WILDCARD, ev.ALL), False),
        ((ev.WILDCARD, ev.ALL), (ev.STORAGE_CLASS, ev.ADD), True),
    ],
)
def test_which_patterns_cover_which_events(pattern, incoming, matches):
    assert ev.ClusterEvent(*pattern).matches(ev.ClusterEvent(*incoming)) is matches


def test_masks_print_their_bits():
    assert (
        ev.ClusterEvent(ev.NODE, ev.ADD | ev.UPDATE_NODE_TAINT).label == "NodeAdd|UpdateNodeTaint"
    )
    assert ev.UNSCHEDULABLE_TIMEOUT.label == "UnschedulableTimeout"


def test_amounts_beyond_64_bit_arithmetic_are_left_to_exact_integers():
    world = World()
    for i in range(70):
        at_once(handlers.add_node(world.scheduler, node(f"n{i}", memory="1Ei"), world.now))
    each = pod("p")
    world.pods.put(each)
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    attempt = world.attempt()
    assert attempt.result.node_name == "n0"
    assert world.scheduler.handle.columns.exact is False


def test_a_pod_whose_claim_is_not_there_is_held_back():
    world = World()
    at_once(handlers.add_node(world.scheduler, node("n"), world.now))
    each = pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
    world.pods.put(each)
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    (held,) = world.queue.unschedulable
    assert held.gating_plugin == "DynamicResources"
