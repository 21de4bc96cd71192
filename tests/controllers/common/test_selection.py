"""Which controllers run."""

from __future__ import annotations

import pytest

from controlplane.controllers.common.selection import STANDARD, UnknownController, selected
from controlplane.controllers.loops.manager import names

NAMES = ("a-controller", "b-controller", "c-controller")


def test_a_star_stands_for_all_and_a_minus_wins():
    assert selected(["*", "-b"], NAMES) == ("a-controller", "c-controller")
    assert selected(["-b-controller", "b"], NAMES) == ()


def test_the_order_is_that_of_the_table():
    assert selected(["c", "a"], NAMES) == ("a-controller", "c-controller")


def test_an_unknown_name_is_refused_with_those_that_there_are():
    with pytest.raises(UnknownController, match=r"no controller 'd'; known: .*a-controller, "):
        selected(["-d"], NAMES)


def test_what_scenarios_have_by_themselves_is_in_the_table():
    assert selected(STANDARD, names()) and set(STANDARD) <= set(names())
