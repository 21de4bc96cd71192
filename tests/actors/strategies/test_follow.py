"""Following recorded choices by their names, over other options than then."""

from __future__ import annotations

from attrs import frozen

from actors.choices import Choice, ChoiceList
from actors.strategies.follow import Follow


@frozen
class Named:
    label: str


def options(*names):
    return [Named(name) for name in names]


def following(*labels):
    return Follow(ChoiceList.of(Choice("task", 2, 1, label) for label in labels))


def test_the_recorded_option_is_found_where_it_stands_now():
    follow = following("b", "a")
    assert follow.choose("task", options("a", "c", "b"), 1) == 2
    assert follow.choose("task", options("a", "c"), 2) == 0
    assert follow.departed == ""


def test_from_a_missing_option_on_the_default_is_taken_and_the_place_is_named():
    follow = following("b", "a")
    assert follow.choose("task", options("x", "a"), 7) == 0
    assert follow.departed == "step 7: recorded task 'b', now task among x, a"
    assert follow.choose("task", options("x", "a"), 8) == 0
    follow.begin()
    assert follow.departed == ""


def test_another_kind_of_question_ends_it():
    follow = following("b")
    assert follow.choose("draw", options("a", "b"), 3) == 0
    assert "recorded task 'b', now draw among a, b" in follow.departed


def test_after_the_last_recorded_choice_the_default_goes_on():
    follow = following()
    assert follow.choose("task", options("a", "b"), 1) == 0
    assert follow.departed == ""


def test_of_options_with_one_name_the_recorded_number_is_taken():
    follow = Follow(ChoiceList.of([Choice("draw", 3, 2, "how many?")]))
    assert follow.choose("draw", options("how many?", "how many?", "how many?"), 1) == 2
