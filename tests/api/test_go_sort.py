from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.go_sort import sort, sort_slice


@given(st.lists(st.integers(0, 30), max_size=200))
def test_an_order_is_kept(items: list[int]) -> None:
    mine = list(items)
    sort(mine, lambda a, b: a - b)
    assert mine == sorted(items)


@given(st.lists(st.integers(0, 30), max_size=200))
def test_a_comparison_that_is_no_order_loses_nothing(items: list[int]) -> None:
    mine = list(items)
    sort(mine, lambda _a, _b: -1)
    assert sorted(mine) == sorted(items)


def test_up_to_twelve_items_are_inserted_one_by_one() -> None:
    """Who says of himself that he goes first overtakes all before him: last in, first out."""
    mine = list(range(12))
    sort(mine, lambda _a, _b: -1)
    assert mine == list(reversed(range(12)))


def test_long_runs_are_turned_around() -> None:
    mine = list(range(100, 0, -1))
    sort(mine, lambda a, b: a - b)
    assert mine == list(range(1, 101))


def test_a_comparison_that_always_agrees_reverses_a_short_list() -> None:
    letters = list("abcdefghijkl")
    sort_slice(letters, lambda _left, _right: True)
    assert "".join(letters) == "lkjihgfedcba"
