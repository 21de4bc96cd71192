from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.times import SECOND
from controlplane.controllers.lifecycle.node_zones import (
    FULL,
    INTERVAL_NS,
    NORMAL,
    PARTIAL,
    SLOW_INTERVAL_NS,
    Limiter,
    TaintQueue,
    Verdict,
    Zones,
    zone_state,
)


@pytest.mark.parametrize(
    ("ready", "missing", "expected"),
    [
        (0, 1, FULL),
        (5, 2, NORMAL),
        (9, 11, PARTIAL),
        (10, 11, NORMAL),
        (2, 3, PARTIAL),
        (0, 0, NORMAL),
    ],
)
def test_zone_states(ready, missing, expected):
    assert zone_state([True] * ready + [False] * missing) == expected


@given(st.lists(st.integers(0, 30 * SECOND), max_size=30))
def test_a_limiter_never_gives_more_than_its_rate(gaps):
    limiter = Limiter(INTERVAL_NS)
    now = 0
    taken = []
    for gap in gaps:
        now += gap
        if limiter.take(now):
            taken.append(now)
    assert all(later - earlier >= INTERVAL_NS for earlier, later in pairwise(taken))


def test_a_queue_hands_out_nodes_in_order_at_its_rate():
    queue = TaintQueue()
    assert queue.add("a", 0) and queue.add("b", 0)
    assert not queue.add("a", 0)
    assert queue.take(0) == "a"
    queue.done("a")
    assert not queue.add("a", 1)
    assert queue.take(INTERVAL_NS - 1) is None
    assert queue.next_at() == INTERVAL_NS
    assert queue.take(INTERVAL_NS) == "b"
    queue.again("b", INTERVAL_NS, 5)
    assert queue.next_at() == 2 * INTERVAL_NS
    assert queue.remove("b") and not queue.remove("b")
    assert queue.next_at() is None


def test_a_stopped_queue_waits_for_ever():
    queue = TaintQueue()
    queue.swap(None, 0)
    queue.add("a", 0)
    assert queue.next_at() is None
    assert queue.take(10**18) is None
    queue.swap(INTERVAL_NS, 0)
    assert queue.take(0) is None
    assert queue.take(INTERVAL_NS) == "a"


def test_when_no_node_is_ready_taints_are_taken_away_and_none_is_set():
    zones = Zones()
    zones.update({"a": [True, False], "b": [True]}, 0)
    assert zones.update({"a": [False, False], "b": [False]}, 0) == Verdict(untaint_all=True)
    zones.queue("a").add("n", 0)
    assert zones.queue("a").next_at() is None
    assert zones.update({"a": [False, False], "b": [False]}, 0) == Verdict()
    assert zones.update({"a": [True, False], "b": [False]}, 0) == Verdict(restart_clocks=True)
    assert zones.queue("a").next_at() is not None


def test_a_partly_disrupted_zone_slows_down_or_stops():
    zones = Zones()
    small, large = [True] + [False] * 9, [True] * 20 + [False] * 40
    zones.update({"small": [True] * 10, "large": [True] * 60}, 0)
    zones.update({"small": small, "large": large}, 0)
    zones.queue("small").add("n", 0)
    zones.queue("large").add("m", 0)
    assert zones.queue("small").next_at() is None
    assert zones.queue("large").take(0) == "m"
    assert zones.queue("large").limiter.next_at == SLOW_INTERVAL_NS
