"""Go's unstable sort."""

from __future__ import annotations

from controlplane.descheduler.sorting import go_sort


def test_numbers_are_sorted_whatever_their_order_was() -> None:
    for count in range(120):
        for step in (1, 7, 31, -1):
            numbers = [each * step % 101 for each in range(count)]
            wanted = sorted(numbers)
            go_sort(numbers, lambda left, right: left < right)
            assert numbers == wanted


def test_a_comparison_that_always_agrees_reverses_a_short_list() -> None:
    letters = list("abcdefghijkl")
    go_sort(letters, lambda _left, _right: True)
    assert "".join(letters) == "lkjihgfedcba"
