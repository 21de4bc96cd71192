"""Tables fit where they are shown, and break names only where nothing else helps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.cli.columns import GAP, SHORTEST, widths, wrapped

WORDS = st.lists(st.text("ab/-.", min_size=1, max_size=30), max_size=8).map(" ".join)


@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=5), st.integers(60, 200)
)
def test_columns_fit_side_by_side(columns, width):
    made = widths(columns, width)
    assert sum(made) <= max(width - GAP * len(columns), SHORTEST * len(columns))


@given(WORDS, st.integers(10, 80))
def test_no_line_is_wider_and_no_letter_is_lost(text, width):
    lines = wrapped(text, width).split("\n")
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(WORDS)
def test_a_word_that_has_room_is_not_broken(text):
    longest = max((len(word) for word in text.split()), default=0)
    assert wrapped(text, max(longest, 10)).split() == text.split()


def test_a_name_that_has_no_room_breaks_behind_a_separator():
    assert wrapped("default/web-689f5fc6f7-x4q44", 20) == "default/web-\n689f5fc6f7-x4q44"


def test_details_stay_indented():
    assert wrapped("  one two three", 9) == "  one two\n  three"
