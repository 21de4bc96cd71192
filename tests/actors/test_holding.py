"""Which points a wait for somebody who stands there means."""

from __future__ import annotations

from fnmatch import fnmatchcase
from types import SimpleNamespace

import pytest

from actors.holding import Hold
from actors.process import NEW, READY

POINTS = ("queue.pop", "queue.done", "bind", "queue.*", "queue.?op", "queue.pop|bind", "")
ASKED = ("queue.pop", "queue.*", "queue.?op", "queue.*|bind", "bind|", "*")


def plain(asked: str, point: str) -> bool:
    """As told: the point itself, or what `*` and `|` stand for."""
    if "*" not in asked and "|" not in asked:
        return point == asked
    return point == asked or any(fnmatchcase(point, each) for each in asked.split("|"))


def task(point: str, actor: str = "one", state: int = READY, cause: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        point=point, actor=SimpleNamespace(name=actor), state=state, cause=cause, no=1
    )


@pytest.mark.parametrize("asked", ASKED)
def test_it_takes_who_comes_to_a_point_that_is_meant_however_often_points_were_seen(asked):
    standing = Hold("one", asked, 1, waiter=None, wait_no=0)  # type: ignore[arg-type]
    for _ in range(2):
        for point in POINTS:
            assert standing.takes(task(point)) is plain(asked, point), point  # type: ignore[arg-type]


def test_it_takes_no_task_of_another_actor_and_none_that_has_not_begun():
    standing = Hold("one", "bind", 1, waiter=None, wait_no=0)  # type: ignore[arg-type]
    assert not standing.takes(task("bind", actor="two"))  # type: ignore[arg-type]
    assert not standing.takes(task("bind", state=NEW))  # type: ignore[arg-type]
    assert standing.takes(task("bind"))  # type: ignore[arg-type]


def test_the_nth_time_counts_each_arrival_once():
    standing = Hold("one", "bind", 2, waiter=None, wait_no=0)  # type: ignore[arg-type]
    assert not standing.takes(task("bind", cause=1))  # type: ignore[arg-type]
    assert not standing.takes(task("bind", cause=1))  # type: ignore[arg-type]
    assert standing.takes(task("bind", cause=5))  # type: ignore[arg-type]
