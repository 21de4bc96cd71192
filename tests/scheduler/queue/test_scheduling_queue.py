import pytest

from controlplane.decisions import at_once
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.interface import unschedulable
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.plugins.priority_sort import PrioritySort
from controlplane.scheduler.plugins.scheduling_gates import SchedulingGates
from controlplane.scheduler.queue.backoff_queue import backoff_duration
from controlplane.scheduler.queue.failed_attempts import DONE, AlreadyQueuedError
from controlplane.scheduler.queue.invariants import INVARIANTS
from controlplane.scheduler.queue.scheduling_queue import (
    PriorityQueue,
    QueueOptions,
    keep_order,
)
from controlplane.scheduler.state.listers import MemoryLister
from tests.scheduler.make import SECOND, T0, node, pod

PROFILE = "default-scheduler"
NODE_ADD = ev.ClusterEvent(ev.NODE, ev.ADD)


class Gate:
    name = "Gate"

    def __init__(self):
        self.closed = True

    def pre_enqueue(self, _pod):
        return unschedulable("closed") if self.closed else None


class Fixture:
    def __init__(
        self, *, hint=None, gates=(), events=(NODE_ADD,), hints=None, order=keep_order, **options
    ):
        self.pods = MemoryLister()
        self.queue = PriorityQueue(
            PrioritySort().less,
            self.pods,
            hint_maps={PROFILE: hints or [(event, [("A", hint)]) for event in events]},
            pre_enqueue={PROFILE: list(gates)},
            options=QueueOptions(**options),
            choose_order=order,
        )
        self.now = T0

    def add(self, name, **kwargs):
        each = pod(name, **kwargs)
        self.pods.put(each)
        at_once(self.queue.add(each, self.now))
        return each

    def fail(self, info, *plugins, pending=()):
        info.unschedulable_plugins = dict.fromkeys(plugins)
        info.pending_plugins = dict.fromkeys(pending)
        at_once(
            self.queue.add_unschedulable_if_not_present(info, self.queue.scheduling_cycle, self.now)
        )

    def where(self, name):
        key = f"default/{name}"
        places = {
            "active": self.queue.active_q.heap,
            "backoff": self.queue.backoff_q.heap,
            "errors": self.queue.backoff_q.error_heap,
            "pool": self.queue.unschedulable,
        }
        return [place for place, content in places.items() if key in content]

    def broken(self, *live):
        found = {name: check(self.queue, live) for name, check in INVARIANTS.items()}
        return {name for name, text in found.items() if text}


def test_higher_priority_goes_first_then_who_waited_longer():
    f = Fixture()
    for i, priority in enumerate((0, 5, 0, 5)):
        f.now = T0 + i
        f.add(f"p{i}", priority=priority)
    assert [f.queue.pop().pod.name for _ in range(4)] == ["p1", "p3", "p0", "p2"]
    assert f.queue.pop() is None


def test_a_rejected_pod_waits_in_the_pool_for_an_event_of_its_plugin():
    f = Fixture()
    f.add("p")
    f.fail(f.queue.pop(), "A")
    assert f.where("p") == ["pool"]
    label = ev.ClusterEvent(ev.NODE, ev.UPDATE_NODE_LABEL)
    assert not at_once(f.queue.move_all_to_active_or_backoff_queue(label, None, node("n"), f.now))
    assert f.where("p") == ["pool"]
    assert at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    assert f.where("p") == ["backoff"]


def test_a_hint_that_skips_leaves_the_pod_and_one_that_fails_wakes_it():
    answers = {"skip": ev.Hint.SKIP}

    def hint(waiting, _old, _new):
        if waiting.name == "fails":
            raise ev.HintError("no idea")
        return answers["skip"]

    f = Fixture(hint=hint)
    for name in ("skips", "fails"):
        f.add(name)
        f.fail(f.queue.pop(), "A")
    at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    assert (f.where("skips"), f.where("fails")) == (["pool"], ["backoff"])


def test_a_pending_plugin_that_says_queue_skips_backoff():
    f = Fixture(hint=lambda *_: ev.Hint.QUEUE)
    f.add("p")
    f.fail(f.queue.pop(), pending=("A",))
    at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    assert f.where("p") == ["active"]


def test_an_idle_scheduler_takes_rejected_pods_out_of_backoff_but_not_failed_ones():
    f = Fixture()
    f.add("rejected")
    f.fail(f.queue.pop(), "A")
    at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    f.add("failed")
    f.fail(f.queue.pop())
    assert f.where("failed") == ["errors"]
    assert f.queue.pop().pod.name == "rejected"
    assert not f.queue.can_pop()
    assert f.queue.metrics.queue_incoming_pods["active", "PopFromBackoffQ"] == 1


def test_backoff_ends_with_the_second_after_it_is_due():
    f = Fixture()
    f.add("p")
    f.fail(f.queue.pop())
    assert f.queue.next_backoff_release() == T0 + 2 * SECOND
    assert not at_once(f.queue.flush_backoff(T0 + 2 * SECOND - 1))
    assert at_once(f.queue.flush_backoff(T0 + 2 * SECOND))
    assert f.where("p") == ["active"]


def test_without_popping_from_backoff_times_are_exact():
    f = Fixture(pop_from_backoff=False)
    f.add("p")
    f.fail(f.queue.pop(), "A")
    at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    assert not f.queue.can_pop()
    assert f.queue.next_backoff_release() == T0 + SECOND + 1
    assert not at_once(f.queue.flush_backoff(T0 + SECOND))
    assert at_once(f.queue.flush_backoff(T0 + SECOND + 1))


def test_errors_and_rejections_count_separately():
    f = Fixture()
    f.add("p")
    info = f.queue.pop()
    f.fail(info)
    at_once(f.queue.flush_backoff(T0 + 5 * SECOND))
    info = f.queue.pop()
    f.fail(info, "A")
    assert (info.unschedulable_count, info.consecutive_errors_count) == (1, 0)
    at_once(f.queue.activate([info.pod], f.now))
    f.fail(f.queue.pop())
    assert (info.unschedulable_count, info.consecutive_errors_count) == (1, 1)


@pytest.mark.parametrize(
    ("count", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (60, 10)]
)
def test_backoff_doubles_up_to_the_maximum(count, seconds):
    assert backoff_duration(count, SECOND, 10 * SECOND) == seconds * SECOND


def test_an_event_during_the_cycle_sends_the_pod_to_backoff_instead_of_the_pool():
    f = Fixture()
    f.add("p")
    info = f.queue.pop()
    at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    f.fail(info, "A")
    assert f.where("p") == ["backoff"]
    assert f.broken("p") == set()


def test_events_are_kept_only_as_long_as_a_pod_in_flight_precedes_them():
    f = Fixture()
    for name in ("a", "b"):
        f.add(name)
    first, second = f.queue.pop(), f.queue.pop()
    at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    f.queue.done(second.uid)
    assert len(f.queue.active_q.ledger) == 2
    f.queue.done(first.uid)
    f.queue.done(first.uid)
    assert len(f.queue.active_q.ledger) == 0
    assert f.queue.metrics.inflight_events == {"PodPopped": 0, "NodeAdd": 0}


def test_the_same_pod_is_never_in_flight_twice():
    f = Fixture()
    each = f.add("p")
    f.queue.pop()
    at_once(f.queue.add(each, f.now))
    assert f.queue.pop() is None
    assert f.queue.active_q.discarded == ["default/p"]
    assert f.broken("p") == set()


def test_an_update_of_a_pod_in_flight_only_becomes_an_event():
    f = Fixture()
    old = f.add("p")
    f.queue.pop()
    at_once(f.queue.update(old, pod("p", labels={"a": "b"}), f.now))
    assert f.where("p") == []
    labels = [e.event.label for e in f.queue.active_q.ledger if e.event]
    assert labels == ["UnschedulablePodUpdatePodLabel"]


def test_without_hints_an_update_in_flight_queues_a_second_copy():
    f = Fixture(hints_enabled=False)
    old = f.add("p")
    f.queue.pop()
    at_once(f.queue.update(old, pod("p", labels={"a": "b"}), f.now))
    assert f.where("p") == ["active"]
    assert len(f.queue.active_q.ledger) == 0


def test_without_hints_a_move_during_the_cycle_is_noticed_by_its_number():
    f = Fixture(hints_enabled=False)
    f.add("p")
    info = f.queue.pop()
    at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    f.fail(info, "A")
    assert f.where("p") == ["backoff"]
    at_once(f.queue.flush_backoff(T0 + 9 * SECOND))
    f.fail(f.queue.pop(), "A")
    assert f.where("p") == ["pool"]


def test_a_gated_pod_waits_and_is_looked_at_only_for_its_plugins_events():
    gate = Gate()
    opens = ev.ClusterEvent(ev.POD, ev.DELETE)
    f = Fixture(gates=[gate], hints=[(NODE_ADD, [("A", None)]), (opens, [("Gate", None)])])
    f.add("p")
    assert f.where("p") == ["pool"]
    assert f.queue.pending_pods()["gated"] == 1
    gate.closed = False
    at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    assert f.where("p") == ["pool"]
    # Registering A for the event would not help: the gate's own events decide.
    at_once(f.queue.activate([pod("p")], f.now))
    assert f.where("p") == ["active"]


def test_the_flush_retries_what_waited_too_long_except_gated_pods():
    f = Fixture(gates=[SchedulingGates()])
    f.add("gated", schedulingGates=[{"name": "g"}])
    f.add("p")
    f.fail(f.queue.pop(), "A")
    assert f.queue.next_unschedulable_timeout() == T0 + 300 * SECOND + 1
    at_once(f.queue.flush_unschedulable(T0 + 300 * SECOND))
    assert f.where("p") == ["pool"]
    at_once(f.queue.flush_unschedulable(T0 + 300 * SECOND + 1))
    assert (f.where("p"), f.where("gated")) == (["active"], ["pool"])
    assert f.queue.pop().was_flushed_from_unschedulable


def test_removing_the_last_gate_lets_the_pod_in():
    hint = SchedulingGates().events_to_register()[0]
    hints = [(hint.event, [("SchedulingGates", hint.hint)])]
    f = Fixture(gates=[SchedulingGates()], hints=hints)
    old = f.add("p", schedulingGates=[{"name": "g"}])
    at_once(f.queue.update(old, pod("p"), f.now))
    assert f.where("p") == ["active"]


def test_an_update_reorders_the_active_queue():
    f = Fixture()
    f.add("a", priority=1)
    old = f.add("b", priority=0)
    at_once(f.queue.update(old, pod("b", priority=9), f.now))
    assert f.queue.pop().pod.name == "b"


def test_a_failed_pod_that_was_added_again_meanwhile_is_refused_and_its_flight_ends():
    f = Fixture()
    each = f.add("p")
    info = f.queue.pop()
    at_once(f.queue.add(each, f.now))
    with pytest.raises(AlreadyQueuedError, match="already present in the active queue"):
        f.fail(info, "A")
    assert f.queue.in_flight_uids() == []


def test_between_requeue_and_done_a_pop_loses_the_pod():
    f = Fixture()
    f.add("p")
    info = f.queue.pop()
    at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    info.unschedulable_plugins = {"A": None}
    steps = f.queue.add_unschedulable_if_not_present(info, 1, f.now)
    assert next(steps) is DONE
    assert f.where("p") == ["backoff"]
    assert f.queue.pop() is None
    at_once(steps)
    assert f.where("p") == []


def test_deleting_takes_the_pod_out_wherever_it_waits():
    f = Fixture()
    for name, plugins in (("pool", ("A",)), ("errors", ()), ("active", None)):
        each = f.add(name)
        if plugins is not None:
            f.fail(f.queue.pop(), *plugins)
        assert f.where(name) == [name]
        at_once(f.queue.delete(each))
        assert f.where(name) == []
    assert sum(f.queue.pending_pods().values()) == 0
    assert f.queue.metrics.unschedulable_pods["A", PROFILE] == 0


def test_a_nomination_follows_the_pod_until_it_is_deleted():
    f = Fixture()
    each = f.add("p", status={"nominatedNodeName": "n1"})
    assert [info.pod.name for info in f.queue.nominated_pods_for_node("n1")] == ["p"]
    f.queue.add_nominated_pod(each, NominatingInfo(True, "n2"))
    assert f.queue.nominated_nodes() == ["n2"]
    at_once(f.queue.update(each, pod("p", labels={"x": "y"}), f.now))
    assert f.queue.nominated_nodes() == []
    f.queue.add_nominated_pod(each, NominatingInfo(True, "n3"))
    at_once(f.queue.update(pod("p"), pod("p", labels={"x": "z"}), f.now))
    assert f.queue.nominated_nodes() == ["n3"]
    at_once(f.queue.delete(each))
    assert f.queue.nominated_nodes() == []


def test_a_nominated_pod_in_flight_is_a_stub_without_requests():
    f = Fixture()
    f.add("p", status={"nominatedNodeName": "n1"}, priority=7)
    f.queue.pop()
    (stub,) = f.queue.nominated_pods_for_node("n1")
    assert (stub.pod.uid, stub.pod.spec.priority, stub.resource.resource.milli_cpu) == (
        "p",
        None,
        0,
    )


def test_pods_that_are_bound_or_gone_are_not_nominated():
    f = Fixture()
    gone = pod("gone")
    f.queue.add_nominated_pod(gone, NominatingInfo(True, "n"))
    bound = pod("bound", node="n")
    f.pods.put(bound)
    f.queue.add_nominated_pod(pod("bound"), NominatingInfo(True, "n"))
    assert f.queue.nominated_nodes() == []


def test_without_hints_a_bound_pod_wakes_those_that_want_to_be_near_it():
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    event = ev.ClusterEvent(ev.POD, ev.ADD)
    f = Fixture(hints_enabled=False, events=(event,))
    f.add("near", affinity=near)
    f.fail(f.queue.pop(), "A")
    f.add("other")
    f.fail(f.queue.pop(), "A")
    at_once(f.queue.assigned_pod_added(pod("db", labels={"app": "db"}, node="n"), dict, f.now))
    assert (f.where("near"), f.where("other")) == (["backoff"], ["pool"])


def test_the_order_of_a_move_can_be_chosen():
    f = Fixture(
        hint=lambda *_: ev.Hint.QUEUE, order=lambda _kind, infos: infos[::-1], max_backoff=0
    )
    for name in ("a", "b"):
        f.add(name)
        f.fail(f.queue.pop(), "A")
    at_once(f.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"), f.now))
    assert [info.pod.name for info in f.queue.active_q.heap] == ["b", "a"]


def test_closing_ends_all_flights():
    f = Fixture()
    f.add("p")
    f.queue.pop()
    f.queue.close()
    assert f.queue.in_flight_uids() == []
