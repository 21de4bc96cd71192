"""The rest of the scheduling task after cycles that came to nothing."""

from __future__ import annotations

from controlplane.scheduler.loops.rest import FIRST_PAUSE, LONGEST_PAUSE, MANY_TRIES, Rest


def test_it_grows_up_to_a_bound_and_becomes_hopeless():
    rest = Rest()
    pauses = []
    for _ in range(14):
        rest.failed("a")
        pauses.append(rest.pause)
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    assert rest.hopeless


def test_free_tries_are_not_followed_by_one():
    rest = Rest()
    for _ in range(4):
        rest.failed("a", free=4)
    assert rest.pause == 0
    rest.failed("a", free=4)
    assert rest.pause == FIRST_PAUSE
    assert not rest.hopeless


def test_it_begins_anew_after_a_success_and_counts_each_key_alone():
    rest = Rest()
    for _ in range(MANY_TRIES + 1):
        rest.failed("a")
    rest.failed("b")
    assert (rest.pause, rest.hopeless) == (FIRST_PAUSE, False)
    rest.succeeded("a")
    assert rest.pause == 0
    rest.failed("a")
    assert (rest.pause, rest.hopeless) == (FIRST_PAUSE, False)
