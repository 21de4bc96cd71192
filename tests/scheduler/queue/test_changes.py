"""The queue's change counter: whoever looks only when it moved misses nothing."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controlplane.decisions import at_once
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.plugins.priority_sort import PrioritySort
from controlplane.scheduler.queue.failed_attempts import AlreadyQueuedError
from controlplane.scheduler.queue.scheduling_queue import (
    PriorityQueue,
    QueueOptions,
)
from controlplane.scheduler.state.listers import MemoryLister
from tests.scheduler.make import SECOND, T0, pod

PROFILE = "default-scheduler"
NAMES = ("a", "b")
EVENT = ev.ClusterEvent(ev.NODE, ev.ADD)

operations = st.lists(
    st.tuples(
        st.sampled_from(
            ("add", "recreated", "same", "update", "delete", "pop", "reject", "fail", "done", "event",
             "flush", "timeout", "activate", "wait")
        ),
        st.integers(0, len(NAMES) - 1),
    ),
    max_size=60,
)  # fmt: skip


def content(queue):
    """Everything that the invariants look at."""
    active, backoff = queue.active_q, queue.backoff_q
    places = (active.heap, backoff.heap, backoff.error_heap, queue.unschedulable)
    return (
        [[(info.key, info.uid, id(info.pod)) for info in place] for place in places],
        [id(entry) for entry in active.ledger],
        list(active.in_flight.items()),
        queue.landing,
        dict(queue.metrics.inflight_events),
    )


def perform(queue, name, which, popped, now):
    old = pod(NAMES[which], uid=NAMES[which])
    if name == "add":
        at_once(queue.add(old, now))
    elif name in ("same", "update", "recreated"):
        uid = NAMES[which] + ("-2" if name == "recreated" else "")
        labels = {"x": "1"} if name == "update" else None
        at_once(queue.update(old, pod(NAMES[which], uid=uid, labels=labels), now))
    elif name == "delete":
        at_once(queue.delete(old))
    elif name == "pop":
        info = queue.pop()
        if info is not None:
            popped.append(info)
    elif name in ("reject", "fail") and popped:
        info = popped.pop()
        info.unschedulable_plugins = {"A": None} if name == "reject" else {}
        steps = queue.add_unschedulable_if_not_present(info, queue.scheduling_cycle, now)
        try:
            yield from steps
        except AlreadyQueuedError:
            return
    elif name == "done" and popped:
        queue.done(popped.pop().uid)
    elif name == "event":
        at_once(queue.move_all_to_active_or_backoff_queue(EVENT, None, None, now))
    elif name == "flush":
        at_once(queue.flush_backoff(now))
    elif name == "timeout":
        at_once(queue.flush_unschedulable(now + 301 * SECOND))
    elif name == "activate":
        at_once(queue.activate([old], now))
    yield name


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(operations, st.booleans())
@example([("add", 0), ("pop", 0), ("reject", 0), ("same", 0)], False)
def test_nothing_changes_in_the_queue_without_the_counter(todo, hints):
    queue = PriorityQueue(
        PrioritySort().less,
        MemoryLister(),
        hint_maps={PROFILE: [(EVENT, [("A", None)])]},
        options=QueueOptions(hints_enabled=hints),
    )
    popped, now = [], T0
    before, counted = content(queue), queue.changes
    for name, which in todo:
        now += SECOND if name == "wait" else 0
        for _ in perform(queue, name, which, popped, now):
            after = content(queue)
            assert queue.changes >= counted
            assert after == before or queue.changes != counted, name
            before, counted = after, queue.changes


def test_a_look_changes_nothing():
    queue = PriorityQueue(PrioritySort().less, MemoryLister())
    at_once(queue.add(pod("a"), T0))
    counted = queue.changes
    queue.pending_pods()
    queue.can_pop()
    queue.next_backoff_release()
    queue.active_q.heap.sorted()
    assert queue.changes == counted
