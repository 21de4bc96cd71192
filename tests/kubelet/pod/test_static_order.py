"""Static pods of one full name start one after the other."""

from __future__ import annotations

from controlplane.kubelet.pod.static_order import StaticOrder


def test_the_next_one_starts_when_nothing_of_the_one_before_is_left() -> None:
    order = StaticOrder()
    order.queue("ns/a", "1")
    assert order.may_start("ns/a", "1", lambda uid: False)
    order.queue("ns/a", "2")
    assert not order.may_start("ns/a", "2", lambda uid: uid == "1")
    order.ended("ns/a", "1")
    assert order.started("ns/a") is None
    assert order.may_start("ns/a", "2", lambda uid: uid == "1")
    assert order.started("ns/a") == "2"


def test_they_start_in_the_order_in_which_they_came_but_for_those_that_are_to_end() -> None:
    order = StaticOrder()
    for uid in ("1", "2", "3"):
        order.queue("ns/a", uid)
    assert not order.may_start("ns/a", "3", lambda uid: uid == "1")
    assert order.may_start("ns/a", "2", lambda uid: uid == "1")
    assert not order.may_start("ns/a", "3", lambda uid: uid == "1")


def test_other_names_do_not_wait() -> None:
    order = StaticOrder()
    order.queue("ns/a", "1")
    order.queue("ns/b", "2")
    assert order.may_start("ns/b", "2", lambda uid: False)
    order.ended("ns/b", "1")
    assert order.started("ns/b") == "2"
