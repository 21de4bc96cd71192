"""The scheduler's fix gates, decision by decision: off shows what was published, on does not."""

from __future__ import annotations

import pytest

from controlplane.decisions import at_once
from controlplane.gates import CATALOGUE, FixGates
from controlplane.scheduler import eventhandlers as handlers
from controlplane.scheduler.cycle import binding, failure
from controlplane.scheduler.cycle.attempt import Attempt, Failure, SchedulingError
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.interface import Code
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.plugins.default_preemption import preemption_plugin
from controlplane.scheduler.queue.failed_attempts import DONE
from controlplane.scheduler.queue.invariants import INVARIANTS
from controlplane.scheduler.scheduler import Skipped
from controlplane.scheduler.state.cache import ASSUMED_TTL, Cache, CacheCorruptedError
from controlplane.scheduler.state.pod_info import PodInfo
from tests.scheduler.make import SECOND, World, node, pod

TERMINATING = "2026-01-01T00:00:00Z"
both = pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "unfixed"])


def gates(number: str, fixed: bool, *without: str) -> FixGates:
    """One gate on or off, and others off."""
    form = CATALOGUE[number].variants[0] if fixed else None
    return FixGates({number: form, **dict.fromkeys(without)})


def world_with(number: str, fixed: bool, *without: str, nodes=None, **options) -> World:
    world = World(fixes=gates(number, fixed, *without), **options)
    world.gates = gates(number, fixed, *without)
    for name, cpu in (nodes or {}).items():
        at_once(handlers.add_node(world.scheduler, node(name, cpu=cpu), world.now))
    return world


def seen(world, name, **kwargs):
    """The informer delivers a pod."""
    each = pod(name, **kwargs)
    world.pods.put(each)
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    return each


def changed(world, old, **kwargs):
    """The informer delivers a change of a pod."""
    new = pod(old.name, uid=old.uid, **kwargs)
    world.pods.put(new)
    at_once(handlers.update_pod(world.scheduler, old, new, world.now))
    return new


def park(world, name, plugin="NodeResourcesFit", **kwargs):
    """A pod that a plugin rejected and that waits in the pool."""
    each = seen(world, name, **kwargs)
    info = world.queue.pop()
    info.unschedulable_plugins = {plugin: None}
    at_once(world.queue.add_unschedulable_if_not_present(info, 1, world.now))
    assert each.key in world.queue.unschedulable
    return each


def fail(world, attempt: Attempt):
    cached = world.pods.get("default", attempt.pod.name)
    return failure.handle(world.queue, attempt, cached, world.gates, world.now)


def queued(world) -> list[str]:
    queue = world.queue
    heaps = (queue.active_q.heap, queue.backoff_q.heap, queue.backoff_q.error_heap)
    return [info.pod.name for heap in (*heaps, queue.unschedulable) for info in heap]


def broken(world, *live: str) -> set[str]:
    found = {name: check(world.queue, live) for name, check in INVARIANTS.items()}
    return {name for name, text in found.items() if text}


# ---------------------------------------------------------------------- in flight


@both
def test_126962_a_pod_that_is_skipped_leaves_the_ledger(fixed):
    world = world_with("126962", fixed)
    at_once(world.queue.add(pod("p", deletionTimestamp=TERMINATING), world.now))
    skipped = world.scheduler.begin(world.queue.pop(), world.now)
    assert isinstance(skipped, Skipped)
    at_once(
        world.queue.move_all_to_active_or_backoff_queue(ev.NODE_ADD, None, node("n"), world.now)
    )
    assert len(world.queue.active_q.ledger) == (0 if fixed else 2)
    assert broken(world) == (set() if fixed else {"I3"})


@both
def test_126962_an_assumed_pod_that_is_skipped_leaves_the_ledger(fixed):
    world = world_with("126962", fixed, nodes={"n": "4"})
    each = seen(world, "p")
    world.bind(world.attempt())
    at_once(world.queue.add(each, world.now))
    assert isinstance(world.scheduler.begin(world.queue.pop(), world.now), Skipped)
    assert world.queue.in_flight_uids() == ([] if fixed else ["p"])


@both
def test_127016_a_pod_popped_twice_has_one_entry_in_the_ledger(fixed):
    world = world_with("127016", fixed)
    at_once(world.queue.add(pod("p"), world.now))
    world.queue.pop()
    at_once(world.queue.add(pod("p"), world.now))
    assert (world.queue.pop() is None) is fixed
    assert broken(world, "p") == (set() if fixed else {"I1"})
    world.queue.done("p")
    assert len(world.queue.active_q.ledger) == (0 if fixed else 1)


@both
def test_125578_an_update_does_not_queue_a_pod_in_flight(fixed):
    world = world_with("125578", fixed)
    old = seen(world, "p", resourceVersion="1")
    world.queue.pop()
    changed(world, old, resourceVersion="2", labels={"a": "b"})
    assert queued(world) == ([] if fixed else ["p"])
    assert broken(world, "p") == (set() if fixed else {"I5"})


@both
def test_125578_a_pod_scheduled_twice_is_reported_as_an_error(fixed):
    world = world_with("125578", fixed, "127016", nodes={"n": "4"})
    old = seen(world, "p", resourceVersion="1")
    attempt = world.attempt()
    changed(world, old, resourceVersion="2", labels={"a": "b"})
    again = None if fixed else world.attempt()
    assert world.queue.pop() is None
    at_once(binding.assume(world.cache, world.queue, attempt))
    assert attempt.failure is None
    if again is not None:
        at_once(binding.assume(world.cache, world.queue, again))
        assert "is in the cache, so can't be assumed" in again.failure.message


@both
def test_139450_a_pod_popped_before_done_is_not_thrown_away(fixed):
    world = world_with("139450", fixed)
    seen(world, "p")
    info = world.queue.pop()
    at_once(
        world.queue.move_all_to_active_or_backoff_queue(ev.NODE_ADD, None, node("n"), world.now)
    )
    info.unschedulable_plugins = {"NodeResourcesFit": None}
    steps = world.queue.add_unschedulable_if_not_present(info, 1, world.now)
    assert next(steps) is DONE
    popped = world.queue.pop()
    at_once(steps)
    assert (popped is info) is fixed
    assert queued(world) == []
    assert world.queue.active_q.discarded == ([] if fixed else ["default/p"])


@both
def test_139450_the_events_of_its_flight_still_decide_where_the_pod_goes(fixed):
    world = world_with("139450", fixed)
    for name, event in (("woken", True), ("parked", False)):
        seen(world, name)
        info = world.queue.pop()
        if event:
            at_once(
                world.queue.move_all_to_active_or_backoff_queue(
                    ev.NODE_ADD, None, node("n"), world.now
                )
            )
        info.unschedulable_plugins = {"NodeResourcesFit": None}
        at_once(world.queue.add_unschedulable_if_not_present(info, 1, world.now))
    assert [info.pod.name for info in world.queue.backoff_q.heap] == ["woken"]
    assert [info.pod.name for info in world.queue.unschedulable] == ["parked"]
    assert broken(world, "woken", "parked") == set()


@both
def test_141645_an_update_between_read_and_requeue_is_not_lost(fixed):
    world = world_with("141645", fixed)
    old = seen(world, "p", resourceVersion="1")
    attempt = world.scheduler.begin(world.queue.pop(), world.now)
    attempt.failure = Failure(Code.UNSCHEDULABLE, SchedulingError("no"))
    failure.record(attempt.info, attempt.failure)
    verdict = failure.judge(attempt.info, old, world.gates)
    new = changed(world, old, resourceVersion="2", priority=7)
    at_once(failure.requeue(world.queue, attempt.info, verdict, world.now))
    (info,) = world.queue.backoff_q.error_heap
    assert info.pod is (new if fixed else old)
    assert broken(world, "p") == set()


@both
def test_141645_an_update_after_a_failed_binding_does_not_go_round_the_backoff(fixed):
    world = world_with("141645", fixed, nodes={"n": "4"})
    old = seen(world, "p", resourceVersion="1")
    attempt = world.attempt()
    world.bind(attempt)
    binding.bind_error(attempt, "DefaultBinder", "no")
    at_once(binding.undo(world.cache, world.queue, attempt, world.now))
    new = changed(world, old, resourceVersion="2", labels={"a": "b"})
    assert queued(world) == ([] if fixed else ["p"])
    failure.record(attempt.info, attempt.failure)
    verdict = failure.judge(attempt.info, new, world.gates)
    problem = at_once(failure.requeue(world.queue, attempt.info, verdict, world.now))
    assert problem == ("" if fixed else "Pod default/p is already present in the active queue")
    errors = list(world.queue.backoff_q.error_heap)
    assert [info.pod for info in errors] == ([new] if fixed else [])
    assert world.queue.active_q.binding == {}
    assert broken(world, "p") == set()


def test_141645_a_pod_that_is_bound_ends_its_flight():
    world = world_with("141645", True, nodes={"n": "4"})
    seen(world, "p")
    attempt = world.attempt()
    world.bind(attempt)
    assert list(world.queue.active_q.binding) == ["p"]
    binding.finished(world.cache, world.queue, attempt, world.now)
    assert world.queue.active_q.binding == {}


# ---------------------------------------------------------------------- gated pods and flushes


@both
def test_139162_the_flush_reaches_gated_pods(fixed):
    world = world_with("139162", fixed)
    plugin = preemption_plugin(world.scheduler.frameworks["default-scheduler"].all_plugins)
    plugin.preempting["p"] = None
    seen(world, "p")
    assert world.queue.pending_pods()["gated"] == 1
    limit = 300 * SECOND
    assert world.queue.next_unschedulable_timeout() == world.now + limit + 1
    world.now += limit + 1
    assert not at_once(world.queue.flush_unschedulable(world.now))
    # Still gated. Whoever was flushed counts his time from then on.
    expected = world.now + limit + 1 if fixed else world.now
    assert world.queue.next_unschedulable_timeout() == expected
    (info,) = world.queue.unschedulable
    assert info.was_flushed_from_unschedulable is not fixed
    del plugin.preempting["p"]
    world.now += limit + 1
    assert at_once(world.queue.flush_unschedulable(world.now)) is fixed
    assert world.queue.can_pop() is fixed


# ---------------------------------------------------------------------- assumed pods


@both
@pytest.mark.parametrize("how", ["deleted", "terminating"])
def test_134157_a_deleted_pod_frees_its_room_at_once(fixed, how):
    world = world_with("134157", fixed, nodes={"n": "1"})
    each = seen(world, "p", cpu="1", resourceVersion="1")
    world.bind(world.attempt())
    waiting = park(world, "w", cpu="1")
    if how == "deleted":
        at_once(handlers.delete_pod(world.scheduler, each, world.now))
    else:
        changed(world, each, cpu="1", resourceVersion="2", deletionTimestamp=TERMINATING)
    assert world.cache.pod_count == (0 if fixed else 1)
    assert (waiting.key in world.queue.unschedulable) is not fixed


@both
def test_84578_a_deleted_pod_waits_in_permit_no_longer(fixed):
    world = world_with("84578", fixed, nodes={"n": "1"})
    each = seen(world, "p", cpu="1")
    world.bind(world.attempt())
    told: list[str] = []
    world.scheduler.set_waiting("p", lambda message: not told.append(message))
    at_once(handlers.delete_pod(world.scheduler, each, world.now))
    assert told == (["removed"] if fixed else [])
    assert world.cache.pod_count == 1, "its binding cycle gives the room back"


@both
def test_84578_before_134157_only_pods_that_waited_were_looked_at(fixed):
    world = world_with("84578", fixed, "134157", nodes={"n": "2"})
    told: list[str] = []
    for name in ("waits", "binds"):
        each = seen(world, name, cpu="1")
        world.bind(world.attempt())
        if name == "waits":
            world.scheduler.set_waiting(name, lambda message: not told.append(message))
        at_once(handlers.delete_pod(world.scheduler, each, world.now))
    assert told == (["removed"] if fixed else [])
    assert world.cache.pod_count == 2


@pytest.mark.parametrize("form", [*CATALOGUE["106412"].variants, None], ids=str)
def test_106412_an_assumption_ends_so_long_after_the_bind_call(form):
    cache = Cache(FixGates({"106412": form}))
    cache.add_node(node("n"))
    for name in ("seen", "unseen", "binding"):
        cache.assume_pod(PodInfo(pod(name, node="n")))
    for name in ("seen", "unseen"):
        cache.finish_binding(pod(name, node="n"), 0)
    cache.add_pod(pod("seen", node="n"))
    ttl = ASSUMED_TTL[form]
    assert cache.expires is (ttl is not None)
    assert cache.next_expiry() == ttl
    assert cache.expire_assumed(ttl or 10**18) == []
    gone = [each.name for each in cache.expire_assumed((ttl or 10**18) + 1)]
    assert gone == ([] if form == "never" else ["unseen"])
    assert cache.pod_count == (3 if form == "never" else 2)
    assert cache.next_expiry() is None


def test_106412_time_runs_only_for_the_binding_that_ended():
    cache = Cache(FixGates({"106412": None}))
    cache.add_node(node("n"))
    each = pod("p", node="n")
    cache.assume_pod(PodInfo(each))
    cache.finish_binding(each, 0)
    cache.forget_pod(each)
    cache.assume_pod(PodInfo(each))
    assert cache.next_expiry() is None
    assert cache.expire_assumed(3600 * SECOND) == []


@both
def test_28886_a_pod_whose_binding_failed_can_be_assumed_again(fixed):
    world = world_with("28886", fixed, nodes={"n": "1"})
    seen(world, "p", cpu="1")
    attempt = world.attempt()
    world.bind(attempt)
    binding.bind_error(attempt, "DefaultBinder", "no")
    at_once(binding.undo(world.cache, world.queue, attempt, world.now))
    fail(world, attempt)
    assert world.cache.pod_count == (0 if fixed else 1)
    world.now += 3 * SECOND
    at_once(world.queue.flush_backoff(world.now))
    again = world.scheduler.begin(world.queue.pop(), world.now)
    assert isinstance(again, Attempt) is fixed


@both
def test_96582_a_bound_pod_is_not_tried_again(fixed):
    world = world_with("96582", fixed, nodes={"n": "4"})
    each = seen(world, "p")
    attempt = world.attempt()
    world.bind(attempt)
    bound = changed(world, each, node="n")  # The informer is faster than the broken answer.
    binding.bind_error(attempt, "DefaultBinder", "transport is closing")
    at_once(binding.undo(world.cache, world.queue, attempt, world.now))
    verdict, _ = fail(world, attempt)
    assert (verdict.outcome is failure.Outcome.ASSIGNED) is fixed
    assert queued(world) == ([] if fixed else ["p"])
    for _ in range(0 if fixed else 3):
        world.now += 20 * SECOND
        at_once(world.queue.flush_backoff(world.now))
        again = world.attempt()
        at_once(binding.assume(world.cache, world.queue, again))
        assert "is in the cache, so can't be assumed" in again.failure.message
        fail(world, again)
    assert world.cache.get_pod("p") is bound


# ---------------------------------------------------------------------- nominations


@both
def test_102498_a_preemptor_that_is_gone_is_not_nominated(fixed):
    world = world_with("102498", fixed, nodes={"a": "1"})
    seen(world, "low", cpu="1", node="a")
    seen(world, "vip", cpu="1", priority=9)
    attempt = world.attempt()
    gone = world.pods.remove("default", "vip")
    at_once(handlers.delete_pod(world.scheduler, gone, world.now))
    fail(world, attempt)
    assert world.queue.nominated_nodes() == ([] if fixed else ["a"])
    assert broken(world) == (set() if fixed else {"I6"})


@both
def test_109245_a_pod_that_is_bound_is_not_nominated(fixed):
    world = world_with("109245", fixed, nodes={"a": "1", "b": "1"})
    each = seen(world, "vip")
    world.queue.pop()
    world.queue.done("vip")
    changed(world, each, node="a")
    nominating = NominatingInfo(override=True, nominated_node_name="b")
    world.queue.add_nominated_pod(each, nominating)
    assert world.queue.nominated_nodes() == ([] if fixed else ["b"])
    assert broken(world) == (set() if fixed else {"I6"})


@both
def test_72259_room_that_is_being_made_is_reserved_from_the_decision_on(fixed):
    world = world_with("72259", fixed, nodes={"a": "1"})
    low = seen(world, "low", cpu="1", node="a")
    seen(world, "vip", cpu="1", priority=9)
    attempt = world.attempt()
    _, report = fail(world, attempt)
    assert report.patch.patch["status"]["nominatedNodeName"] == "a"
    world.pods.remove("default", "low")
    at_once(handlers.delete_pod(world.scheduler, low, world.now))
    seen(world, "thief", cpu="1")
    attempt = world.attempt()
    assert attempt.pod.name == "thief", "the preemptor is held back or serves its backoff"
    assert (attempt.failure is not None) is fixed


@both
def test_72259_a_nomination_that_the_api_server_has_told_of_counts_in_any_case(fixed):
    world = world_with("72259", fixed, nodes={"a": "1"})
    seen(world, "low", cpu="1", node="a")
    vip = seen(world, "vip", cpu="1", priority=9, resourceVersion="1")
    fail(world, world.attempt())
    status = {"nominatedNodeName": "a"}
    changed(world, vip, cpu="1", priority=9, resourceVersion="2", status=status)
    assert world.queue.nominated_nodes() == ["a"]


# ---------------------------------------------------------------------- preemption


@both
def test_134730_a_preemption_is_under_way_until_its_last_victim_terminates(fixed):
    world = world_with("134730", fixed, nodes={"a": "1"})
    low = seen(world, "low", cpu="1", node="a")
    seen(world, "vip", cpu="1", priority=9)
    fail(world, world.attempt())
    (task,) = world.scheduler.take_preemptions()
    plugin = world.scheduler.preemption_plugin(task)
    plugin.evict_last(task)
    # Something wakes the preemptor while the victim's deletion is being asked for.
    at_once(world.queue.activate([task.preemptor], world.now))
    assert world.queue.can_pop() is not fixed
    if not fixed:
        fail(world, world.attempt())
        assert [again.victims for again in world.scheduler.take_preemptions()] == [(low,)]
    plugin.finish(task)
    terminating = pod("low", cpu="1", node="a", deletionTimestamp=TERMINATING)
    world.pods.put(terminating)
    at_once(world.queue.activate([task.preemptor], world.now))
    assert world.queue.can_pop()


@both
def test_106816_a_nomination_is_taken_back_when_preemption_cannot_help(fixed):
    world = world_with("106816", fixed, nodes={"a": "1"})
    seen(world, "rival", cpu="1", priority=9, node="a")
    status = {"nominatedNodeName": "a"}
    vip = seen(world, "vip", cpu="1", priority=9, status=status)
    assert world.queue.nominated_nodes() == ["a"]
    _, report = fail(world, world.attempt())
    assert ("nominatedNodeName" in report.patch.patch["status"]) is fixed
    assert world.queue.nominated_pods_for_node("a") == [] or not fixed
    assert [info.pod for info in world.queue.nominated_pods_for_node("a")] == [vip][fixed:]


@both
@pytest.mark.parametrize("priority", [9, 0])
def test_111773_a_preemption_leaves_no_context_behind(fixed, priority):
    world = world_with("111773", fixed, nodes={"a": "1", "b": "1"})
    seen(world, "low", cpu="1", priority=0, node="a")
    seen(world, "rival", cpu="1", priority=9, node="b")
    seen(world, "middle", cpu="1", priority=priority)
    fail(world, world.attempt())
    assert len(world.scheduler.handle.context) == (not fixed)


@both
def test_111773_enough_candidates_end_the_context_either_way(fixed):
    world = world_with("111773", fixed, nodes={"a": "1"})
    seen(world, "low", cpu="1", priority=0, node="a")
    seen(world, "high", cpu="1", priority=9)
    fail(world, world.attempt())
    assert len(world.scheduler.handle.context) == 0


# ---------------------------------------------------------------------- backoff


@both
def test_128748_errors_do_not_lengthen_the_backoff_of_a_rejection(fixed):
    world = world_with("128748", fixed)
    seen(world, "p")
    for rejector in ({}, {}, {}, {"NodeResourcesFit": None}):
        info = world.queue.pop()
        info.unschedulable_plugins = dict(rejector)
        at_once(world.queue.add_unschedulable_if_not_present(info, 1, world.now))
        if not rejector:
            world.now += 20 * SECOND
            at_once(world.queue.flush_backoff(world.now))
    waits = world.queue.backoff_q.expiration(info) - world.now
    assert waits == (1 if fixed else 8) * SECOND


@both
def test_98829_an_update_makes_a_pod_ready_whose_backoff_is_over(fixed):
    world = world_with("98829", fixed, features={"SchedulerQueueingHints": False})
    old = park(world, "p", resourceVersion="1")
    world.now += 20 * SECOND
    changed(world, old, resourceVersion="2", priority=7)
    assert len(world.queue.active_q.heap) == (1 if fixed else 0)
    assert len(world.queue.backoff_q.heap) == (0 if fixed else 1)


# ---------------------------------------------------------------------- what informers deliver


@both
def test_96071_a_resync_does_not_queue_a_pod_that_is_being_scheduled(fixed):
    world = world_with("96071", fixed, "125578")
    each = seen(world, "p", resourceVersion="7")
    world.queue.pop()
    at_once(handlers.update_pod(world.scheduler, each, each, world.now))
    assert queued(world) == ([] if fixed else ["p"])


@both
def test_106102_a_tombstone_cleans_the_cache_although_its_object_has_no_node(fixed):
    # The binding and the deletion happened while the watch was down; the assumption is all there is.
    world = world_with("106102", fixed, "134157", nodes={"n": "1"})
    each = seen(world, "p", cpu="1")
    world.bind(world.attempt())
    at_once(handlers.delete_pod(world.scheduler, each, world.now, final_state_unknown=True))
    assert world.cache.pod_count == (0 if fixed else 1)


@both
def test_141255_a_recreated_pod_on_another_node_is_a_deletion_and_an_addition(fixed):
    world = world_with("141255", fixed, nodes={"a": "1", "b": "1"})
    old = seen(world, "p", uid="AAAA", cpu="1", node="a")
    waiting = park(world, "w", cpu="1")
    new = pod("p", uid="BBBB", cpu="1", node="b")
    if not fixed:
        with pytest.raises(CacheCorruptedError):
            at_once(handlers.update_pod(world.scheduler, old, new, world.now))
        return
    at_once(handlers.update_pod(world.scheduler, old, new, world.now))
    assert world.cache.uids() == ["BBBB"]
    assert waiting.key not in world.queue.unschedulable


@both
def test_141255_a_recreated_pod_starts_anew(fixed):
    world = world_with("141255", fixed)
    old = park(world, "p", uid="AAAA", resourceVersion="1")
    new = pod("p", uid="BBBB", resourceVersion="2")
    at_once(handlers.update_pod(world.scheduler, old, new, world.now))
    info = world.queue.active_q.heap.get("default/p") or world.queue.unschedulable.get("default/p")
    assert info.uid == "BBBB"
    assert info.attempts == (0 if fixed else 1)
    assert world.queue.can_pop() is fixed


@both
def test_122292_a_node_whose_taint_goes_wakes_pods_that_its_addition_did_not(fixed):
    world = world_with("122292", fixed, features={"SchedulerQueueingHints": False})
    each = park(world, "p")
    tainted = node("n", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    at_once(handlers.add_node(world.scheduler, tainted, world.now))
    assert each.key in world.queue.unschedulable
    at_once(handlers.update_node(world.scheduler, tainted, node("n"), world.now))
    assert (each.key in world.queue.unschedulable) is not fixed
