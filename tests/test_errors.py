"""The suggestion of near names that all messages about unknown names share."""

from __future__ import annotations

import pytest

from controlplane.errors import nearest, unknown_name

COLOURS = ("red", "green", "blue", "light-green")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gren", ["green"]),
        ("GREEN", ["green", "light-green"]),
        ("light", ["light-green"]),
        ("qqqq", []),
        ("", []),
    ],
)
def test_the_nearest_names_come_first_and_case_does_not_matter(name, near):
    assert nearest(name, COLOURS) == near


def test_a_name_is_suggested_once_though_it_is_known_twice():
    assert nearest("rad", ("red", "red")) == ["red"]


def test_without_a_near_name_a_short_list_is_shown_and_a_long_one_is_not():
    assert unknown_name("colour", "qqqq", COLOURS) == (
        "no colour 'qqqq'; known: red, green, blue, light-green"
    )
    assert unknown_name("colour", "qqqq", [f"colour-{n}" for n in range(100)]) == "no colour 'qqqq'"


def test_the_command_that_lists_all_names_is_told():
    assert unknown_name("colour", "rad", COLOURS, "colours lists all") == (
        "no colour 'rad'; did you mean red? (colours lists all)"
    )
    assert unknown_name("colour", "qqq", COLOURS, "colours lists all") == (
        "no colour 'qqq'; colours lists all"
    )


def test_an_overlong_name_is_cut_in_one_line():
    assert len(unknown_name("colour", "x\n" * 5000, COLOURS)) < 200
