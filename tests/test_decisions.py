"""Decisions are run at once, and their effects are carried out by the caller."""

import pytest

from controlplane.decisions import Locked, Point, Write, at_once, immediate, writes_to


class Text:
    def __init__(self, text):
        self.text = text


def decision():
    first = yield Point("a")
    second = yield Point("b")
    return first, second


def test_a_decision_is_sent_the_outcome_of_each_effect():
    assert at_once(decision(), lambda effect: effect.name.upper()) == ("A", "B")


def test_effects_without_an_outcome_are_passed_over():
    assert at_once(decision()) == (None, None)


def test_a_lock_that_stays_held_is_an_error():
    def waiting():
        yield Locked("queue.lock")

    with pytest.raises(AssertionError, match="left half done"):
        at_once(waiting())


def test_files_are_written_in_order():
    def saving():
        yield Write("a", Text("1"))
        yield Point("between")
        yield Write("a", Text("2"))
        yield Write("b", Text("3"))

    files = {}
    at_once(saving(), writes_to(files))
    assert files == {"a": "2", "b": "3"}


def test_a_call_as_a_decision_is_made_when_it_is_run():
    made = []
    later = immediate(made.append)("x")
    assert not made
    assert at_once(later) is None
    assert made == ["x"]


def test_an_error_of_a_decision_reaches_the_caller():
    def failing():
        yield Point("a")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        at_once(failing())
