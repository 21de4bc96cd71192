"""Which call about a pod is made, and what becomes of the others."""

from __future__ import annotations

from controlplane.scheduler.framework.api_calls import (
    BindingCall,
    CallQueue,
    Outcome,
    StatusPatchCall,
)
from controlplane.scheduler.framework.interface import ApiWrite
from controlplane.scheduler.framework.nominating import CLEAR_NOMINATION, NominatingInfo
from tests.scheduler.make import pod

NO = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
NEVER = {**NO, "message": "never"}
TO_NODE = NominatingInfo(override=True, nominated_node_name="n")


def patch(each, condition=NO, nominating=None):
    return StatusPatchCall(each, condition, nominating)


def binding(each):
    return BindingCall(each, ApiWrite("create", "pods", "default", each.name, {}, "binding"))


def queue_of(*calls):
    calls_queue = CallQueue()
    for call in calls:
        calls_queue.add(call)
    return calls_queue


def test_calls_about_different_pods_are_made_in_order():
    first, second = patch(pod("a")), patch(pod("b"))
    queue = queue_of(first, second)
    assert [queue.pop(), queue.pop(), queue.pop()] == [first, second, None]


def test_a_binding_overtakes_a_patch_that_waits_and_takes_its_place():
    each, told = pod("a"), []
    old, other, new = patch(each), patch(pod("b")), binding(each)
    old.when_over(lambda: told.append(old.outcome))
    queue = queue_of(old, other, new)
    assert told == [Outcome.OVERWRITTEN]
    assert [queue.pop(), queue.pop(), queue.pop()] == [new, other, None]


def test_a_patch_after_a_binding_is_skipped():
    each = pod("a")
    queue = queue_of(binding(each))
    assert isinstance(queue.pop(), BindingCall)
    late = patch(each)
    queue.add(late)
    assert (late.outcome, queue.pop()) == (Outcome.SKIPPED, None)


def test_a_binding_waits_for_a_patch_under_way():
    each = pod("a")
    old, new = patch(each), binding(each)
    queue = queue_of(old)
    assert queue.pop() is old
    queue.add(new)
    assert queue.pop() is None
    queue.finished(old)
    assert (old.outcome, queue.pop()) == (Outcome.EXECUTED, new)
    queue.finished(new, "boom")
    assert (new.outcome, new.error, len(queue)) == (Outcome.FAILED, "boom", 0)


def test_patches_are_merged_and_the_newer_counts():
    each = pod("a")
    queue = queue_of(patch(each, NO, TO_NODE), patch(each, NEVER), patch(each, None))
    status = queue.pop().patch(0).patch["status"]
    assert status["nominatedNodeName"] == "n"
    assert status["conditions"][0]["message"] == "never"
    assert queue.pop() is None


def test_a_patch_merges_with_one_under_way():
    each = pod("a")
    queue = queue_of(patch(each, NO, TO_NODE))
    first = queue.pop()
    queue.add(patch(each, NEVER))
    queue.finished(first)
    assert queue.pop().patch(0).patch["status"]["nominatedNodeName"] == "n"


def test_what_changes_nothing_is_not_sent_and_takes_what_waits_with_it():
    each = pod("a", status={"conditions": [NO]})
    void = patch(each, NO)
    assert (queue_of(void).pop(), void.outcome) == (None, Outcome.EXECUTED)
    nominated = patch(pod("a"), None, TO_NODE)
    queue = queue_of(nominated, patch(pod("a"), None, CLEAR_NOMINATION))
    assert (queue.pop(), nominated.outcome) == (None, Outcome.OVERWRITTEN)


def test_news_of_the_pod_reach_a_call_that_waits():
    queue = queue_of(patch(pod("a"), NO, TO_NODE))
    queue.sync(pod("a", status={"nominatedNodeName": "n"}))
    queue.sync(pod("b"))
    assert "nominatedNodeName" not in queue.pop().patch(0).patch["status"]
    told = patch(pod("a"))
    queue = queue_of(told)
    queue.sync(pod("a", status={"conditions": [NO]}))
    assert (queue.pop(), told.outcome) == (None, Outcome.EXECUTED)
