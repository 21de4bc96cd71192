import pytest

from controlplane.api.storage import StorageClass
from controlplane.decisions import at_once
from controlplane.scheduler import eventhandlers as handlers
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.state.cache import CacheCorruptedError
from tests.scheduler.make import World, node, pod


def parked(world, name, plugin="NodeResourcesFit", **kwargs):
    """A pod of ours that was rejected by a plugin and waits in the pool."""
    each = pod(name, **kwargs)
    world.pods.put(each)
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    info = world.queue.pop()
    info.unschedulable_plugins = {plugin: None}
    at_once(world.queue.add_unschedulable_if_not_present(info, 1, world.now))
    assert each.key in world.queue.unschedulable
    return each


def woken(world, each):
    return each.key not in world.queue.unschedulable


def test_pods_of_other_schedulers_are_not_queued_but_counted_once_bound():
    world = World()
    at_once(handlers.add_node(world.scheduler, node("n"), world.now))
    at_once(handlers.add_pod(world.scheduler, pod("p", schedulerName="other"), world.now))
    assert not world.queue.can_pop()
    old, new = pod("p", schedulerName="other"), pod("p", schedulerName="other", node="n")
    at_once(handlers.update_pod(world.scheduler, old, new, world.now))
    assert world.cache.pod_count == 1


def test_a_binding_that_is_seen_takes_the_pod_out_of_the_queue():
    world = World()
    at_once(handlers.add_node(world.scheduler, node("n"), world.now))
    old = pod("p")
    at_once(handlers.add_pod(world.scheduler, old, world.now))
    at_once(handlers.update_pod(world.scheduler, old, pod("p", node="n"), world.now))
    assert not world.queue.can_pop()
    assert world.cache.pod_count == 1


def test_deleting_a_bound_pod_wakes_pods_that_need_room():
    world = World()
    at_once(handlers.add_node(world.scheduler, node("n"), world.now))
    bound = pod("b", node="n")
    at_once(handlers.add_pod(world.scheduler, bound, world.now))
    waiting = parked(world, "w")
    at_once(handlers.delete_pod(world.scheduler, bound, world.now))
    assert woken(world, waiting)
    assert world.cache.pod_count == 0


def test_a_node_wakes_only_pods_that_fit_it_when_empty():
    world = World()
    big, small = parked(world, "big", cpu="9"), parked(world, "small", cpu="1")
    at_once(handlers.add_node(world.scheduler, node("n", cpu="2"), world.now))
    assert (woken(world, big), woken(world, small)) == (False, True)
    at_once(
        handlers.update_node(world.scheduler, node("n", cpu="2"), node("n", cpu="16"), world.now)
    )
    assert woken(world, big)


def test_a_deleted_node_is_announced_before_it_leaves_the_cache():
    world = World()
    at_once(handlers.add_node(world.scheduler, node("n"), world.now))
    at_once(handlers.delete_node(world.scheduler, node("n"), world.now))
    assert world.cache.node_count == 0
    at_once(handlers.delete_node(world.scheduler, node("n"), world.now))
    assert world.log == ["node n is not found"]


def test_the_same_object_again_is_ignored():
    world = World()
    each = parked(world, "p", resourceVersion="7")
    again = pod("p", resourceVersion="7", labels={"x": "y"})
    at_once(handlers.update_pod(world.scheduler, each, again, world.now))
    (info,) = world.queue.unschedulable
    assert info.pod is each


def test_updates_of_an_assumed_pod_do_not_reach_the_queue():
    world = World()
    at_once(handlers.add_node(world.scheduler, node("n"), world.now))
    each = pod("p", resourceVersion="1")
    world.pods.put(each)
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    attempt = world.attempt()
    world.bind(attempt)
    newer = pod("p", resourceVersion="2", labels={"x": "y"})
    at_once(handlers.update_pod(world.scheduler, each, newer, world.now))
    assert not world.queue.can_pop()
    assert world.cache.is_assumed_pod(each)


def test_deleting_an_assumed_pod_frees_its_room_at_once():
    world = World()
    at_once(handlers.add_node(world.scheduler, node("n", cpu="1"), world.now))
    each = pod("p", cpu="1")
    world.pods.put(each)
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    world.bind(world.attempt())
    waiting = parked(world, "w", cpu="1")
    at_once(handlers.delete_pod(world.scheduler, each, world.now))
    assert world.cache.pod_count == 0
    assert woken(world, waiting)


def test_an_assumed_pod_that_waits_is_rejected_instead():
    world = World()
    at_once(handlers.add_node(world.scheduler, node("n"), world.now))
    each = pod("p")
    world.pods.put(each)
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    world.bind(world.attempt())
    messages = []
    world.scheduler.set_waiting("p", lambda text: not messages.append(text))
    terminating = pod("p", deletionTimestamp="2026-01-01T00:00:00Z")
    at_once(handlers.update_pod(world.scheduler, each, terminating, world.now))
    assert messages == ["removed"]
    assert world.cache.is_assumed_pod(each)


def test_a_dropped_nomination_wakes_pods_of_no_higher_priority():
    world = World()
    nominated = pod("n", priority=5, status={"nominatedNodeName": "x"})
    world.pods.put(nominated)
    at_once(handlers.add_pod(world.scheduler, nominated, world.now))
    world.queue.active_q.heap.remove(nominated.key)
    low, high = parked(world, "low", priority=5), parked(world, "high", priority=6)
    at_once(handlers.delete_pod(world.scheduler, nominated, world.now))
    assert (woken(world, low), woken(world, high)) == (True, False)


def test_a_tombstone_cleans_cache_and_queue():
    world = World()
    at_once(handlers.add_node(world.scheduler, node("n"), world.now))
    at_once(handlers.add_pod(world.scheduler, pod("p", node="n"), world.now))
    at_once(handlers.add_pod(world.scheduler, pod("q"), world.now))
    for name in ("p", "q"):
        at_once(
            handlers.delete_pod(world.scheduler, pod(name), world.now, final_state_unknown=True)
        )
    assert world.cache.pod_count == 0
    assert not world.queue.can_pop()


def test_a_recreated_pod_delivered_as_an_update_on_another_node_is_fatal():
    world = World()
    for name in ("a", "b"):
        at_once(handlers.add_node(world.scheduler, node(name), world.now))
    old = pod("p", uid="AAAA", node="a")
    at_once(handlers.add_pod(world.scheduler, old, world.now))
    with pytest.raises(CacheCorruptedError):
        at_once(
            handlers.update_pod(world.scheduler, old, pod("p", uid="BBBB", node="b"), world.now)
        )


def test_objects_of_other_kinds_wake_the_plugins_that_registered_them():
    world = World()
    each = parked(world, "p", "VolumeBinding")
    new = StorageClass.from_tree({"metadata": {"name": "s"}, "provisioner": "x"})
    at_once(handlers.other_added(world.scheduler, ev.STORAGE_CLASS, new, world.now))
    assert woken(world, each)


def test_without_hints_only_pods_that_could_run_on_the_node_are_woken():
    world = World(features={"SchedulerQueueingHints": False})
    tolerant = parked(world, "t", tolerations=[{"operator": "Exists"}])
    strict = parked(world, "s")
    tainted = node("n", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    at_once(handlers.add_node(world.scheduler, tainted, world.now))
    assert (woken(world, tolerant), woken(world, strict)) == (True, False)
