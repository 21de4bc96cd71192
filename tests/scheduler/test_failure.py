import pytest

from controlplane.decisions import at_once
from controlplane.gates import FixGates
from controlplane.scheduler.cycle import failure
from controlplane.scheduler.cycle.attempt import Failure, SchedulingError
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.fit_error import Diagnosis, FitError, NoNodesAvailableError
from controlplane.scheduler.framework.interface import Code, NodeToStatus, unschedulable
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.queue.invariants import INVARIANTS
from tests.scheduler.make import SECOND, World, node, pod

FIXED = FixGates()
UNFIXED = FixGates({"138324": None})
THREADED = FixGates({"138324": "uid-threading"})


def unfit(each, plugin="NodeResourcesFit"):
    statuses = NodeToStatus({"n0": unschedulable("Insufficient cpu").by(plugin)})
    error = FitError(each, 1, Diagnosis(statuses, {plugin: None}))
    return Failure(Code.UNSCHEDULABLE, error, None)


def in_flight(world, name="web-0", uid="AAAA"):
    each = pod(name, uid=uid)
    world.pods.put(each)
    at_once(world.queue.add(each, world.now))
    attempt = world.scheduler.begin(world.queue.pop(), world.now)
    attempt.failure = unfit(each)
    return attempt


def recreate(world, attempt, gates):
    world.pods.put(pod("web-0", uid="BBBB"))
    cached = world.pods.get("default", "web-0")
    return failure.handle(world.queue, attempt, cached, gates, world.now)


def test_a_recreated_pod_is_left_alone_and_the_old_flight_ends():
    world = World()
    verdict, report = recreate(world, in_flight(world), FIXED)
    assert verdict.outcome is failure.Outcome.RECREATED
    assert report is None
    assert world.queue.in_flight_uids() == []
    assert sum(world.queue.pending_pods().values()) == 0


def test_unfixed_a_recreated_pod_leaves_its_predecessor_in_flight_for_ever():
    world = World()
    recreate(world, in_flight(world), UNFIXED)
    assert world.queue.in_flight_uids() == ["AAAA"]
    live = {"BBBB"}
    assert INVARIANTS["I1"](world.queue, live) is None
    assert "AAAA" in INVARIANTS["I3"](world.queue, live)
    at_once(
        world.queue.move_all_to_active_or_backoff_queue(ev.NODE_ADD, None, node("n"), world.now)
    )
    assert "1 events kept" in INVARIANTS["I3"](world.queue, live)


def test_with_the_uid_threaded_the_new_pod_is_queued_and_the_old_flight_ends():
    world = World()
    attempt = in_flight(world)
    at_once(
        world.queue.move_all_to_active_or_backoff_queue(ev.NODE_ADD, None, node("n"), world.now)
    )
    verdict, report = recreate(world, attempt, THREADED)
    assert verdict.outcome is failure.Outcome.REQUEUE
    assert report is not None
    assert world.queue.in_flight_uids() == []
    # The old flight's event decided: the node might fit, so it is backoff and not the pool.
    assert [info.uid for info in world.queue.backoff_q.heap] == ["BBBB"]


@pytest.mark.parametrize("gates", [FIXED, UNFIXED, THREADED])
def test_a_pod_that_is_gone_or_bound_is_only_reported(gates):
    world = World()
    attempt = in_flight(world)
    verdict, report = failure.handle(world.queue, attempt, None, gates, world.now)
    assert verdict.log == failure.DELETED_LOG
    assert report.event.note == "0/1 nodes are available: 1 Insufficient cpu."
    attempt = in_flight(world, "web-1", "CCCC")
    bound = pod("web-1", uid="CCCC", node="n")
    verdict, report = failure.handle(world.queue, attempt, bound, gates, world.now)
    assert verdict.log == failure.ASSIGNED_LOG
    assert world.queue.in_flight_uids() == []


def test_the_object_that_the_informer_has_now_is_queued():
    world = World()
    attempt = in_flight(world)
    newer = pod("web-0", uid="AAAA", labels={"new": "yes"})
    failure.handle(world.queue, attempt, newer, FIXED, world.now)
    (info,) = world.queue.unschedulable
    assert info.pod is newer
    assert info.unschedulable_plugins == {"NodeResourcesFit": None}


def test_an_internal_error_takes_the_error_path():
    world = World()
    attempt = in_flight(world)
    attempt.failure = Failure(Code.ERROR, SchedulingError("boom"))
    _, report = failure.handle(world.queue, attempt, attempt.pod, FIXED, world.now)
    condition = report.patch.patch["status"]["conditions"][0]
    assert (condition["reason"], condition["message"]) == ("SchedulerError", "boom")
    assert len(world.queue.backoff_q.error_heap) == 1


def test_without_nodes_the_reason_is_unschedulable_but_the_pod_is_retried():
    world = World()
    attempt = in_flight(world)
    attempt.failure = Failure(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NoNodesAvailableError())
    _, report = failure.handle(world.queue, attempt, attempt.pod, FIXED, world.now)
    assert report.patch.patch["status"]["conditions"][0]["reason"] == "Unschedulable"
    assert len(world.queue.backoff_q.error_heap) == 1


def test_nothing_is_patched_when_nothing_changes():
    message = "0/1 nodes are available: 1 Insufficient cpu."
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    each = pod("p", status={"conditions": [condition]})
    report = failure.report(each, unfit(each), "Unschedulable", 0)
    assert report.patch is None
    other = failure.report(each, unfit(each), "SchedulerError", 0)
    assert other.patch.patch["status"] == {
        "$setElementOrder/conditions": [{"type": "PodScheduled"}],
        "conditions": [{"type": "PodScheduled", "reason": "SchedulerError"}],
    }


def test_a_new_condition_beside_others_names_their_order():
    each = pod("p", status={"conditions": [{"type": "Ready", "status": "False"}]})
    patch = failure.status_call(each, "Unschedulable", "no", None).patch(60 * SECOND)
    assert patch.patch["status"] == {
        "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "PodScheduled"}],
        "conditions": [
            {
                "lastProbeTime": None,
                "lastTransitionTime": "1970-01-01T00:01:00Z",
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no",
            }
        ],
    }


def test_a_nomination_is_patched_only_when_it_differs():
    each = pod("p", status={"nominatedNodeName": "n1"})

    def patched(info):
        found = failure.status_call(each, "Unschedulable", "m", info).patch(0)
        return found.patch["status"].get("nominatedNodeName", "untouched")

    assert patched(None) == "untouched"
    assert patched(NominatingInfo(True, "n1")) == "untouched"
    assert patched(NominatingInfo(True, "n2")) == "n2"
    assert patched(NominatingInfo(True, "")) is None


def test_a_long_message_is_cut_for_the_event_but_not_for_the_condition():
    note = failure.truncate_note("ä" * 600)
    assert len(note.encode()) <= 1024
    assert note.endswith(" ...")
    assert failure.truncate_note("short") == "short"
