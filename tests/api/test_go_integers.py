"""Division and overflow as in Go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.go_integers import divide, int64

NUMBERS = st.integers(-(1 << 70), 1 << 70)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (0, -5, 0)],
)
def test_a_quotient_is_cut_towards_zero(left, right, expected):
    assert divide(left, right) == expected


@given(NUMBERS, NUMBERS.filter(bool))
def test_the_remainder_has_the_sign_of_the_dividend(left, right):
    rest = left - divide(left, right) * right
    assert abs(rest) < abs(right)
    assert rest == 0 or (rest < 0) == (left < 0)


@given(NUMBERS)
def test_a_number_wraps_into_64_bits(value):
    assert -(1 << 63) <= int64(value) < 1 << 63
    assert (int64(value) - value) % (1 << 64) == 0
