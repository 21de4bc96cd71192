from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kueue.amounts import (
    UNLIMITED,
    add,
    amount_text,
    divide,
    greater,
    quantity_text,
    quota_amount,
    requests_of_texts,
    sub,
)

LEAST = -(1 << 63)
AMOUNTS = st.integers(LEAST, UNLIMITED)


def test_cpu_counts_in_thousandths_and_the_rest_in_units() -> None:
    found = requests_of_texts({"cpu": "1500m", "memory": "1Ki", "example.com/gpu": "2"})
    assert found == {"cpu": 1500, "memory": 1024, "example.com/gpu": 2}


def test_quota_too_large_for_a_number_is_unlimited() -> None:
    assert quota_amount("cpu", "9223372036854775807") == UNLIMITED
    assert quota_amount("memory", "8Ei") == UNLIMITED
    assert quota_amount("memory", "7Ei") == 7 << 60


def test_unlimited_absorbs_what_is_added_and_taken() -> None:
    assert add(UNLIMITED, -5) == UNLIMITED
    assert sub(UNLIMITED, 5) == UNLIMITED
    assert sub(UNLIMITED, UNLIMITED) == 0
    assert sub(5, UNLIMITED) == LEAST


@given(AMOUNTS, AMOUNTS)
def test_sums_stay_64_bit_numbers(a: int, b: int) -> None:
    assert LEAST <= add(a, b) <= UNLIMITED
    assert LEAST <= sub(a, b) <= UNLIMITED


@pytest.mark.parametrize(
    ("value", "by", "quotient"), [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (0, 0, 0), (5, 0, 5)]
)
def test_quotients_are_cut_towards_zero(value: int, by: int, quotient: int) -> None:
    assert divide(value, by) == quotient


def test_requests_stand_in_the_order_of_their_hashes() -> None:
    names = ["cpu", "memory", "example.com/gpu", "pods"]
    found = list(requests_of_texts(dict.fromkeys(names, "1")))
    assert found == list(requests_of_texts(dict.fromkeys(reversed(names), "1")))
    assert sorted(found) == sorted(names)


def test_only_shared_resources_are_compared() -> None:
    assert greater({"cpu": 3, "memory": 1, "pods": 9}, {"cpu": 2, "memory": 1}) == ["cpu"]


def test_amounts_are_written_as_objects_write_them() -> None:
    assert quantity_text("cpu", 2500) == "2500m"
    assert quantity_text("memory", 5 << 30) == "5Gi"
    assert quantity_text("example.com/gpu", 4000) == "4k"
    assert amount_text("cpu", UNLIMITED) == "<unlimited>"
