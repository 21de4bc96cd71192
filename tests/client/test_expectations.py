from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.client.expectations import TIMEOUT_NS, CountedExpectations, Expectations


def test_nothing_expected_is_satisfied():
    assert Expectations().satisfied("a", 0)


def test_creations_are_waited_for():
    expected = Expectations()
    expected.expect_creations("a", 2, 0)
    expected.creation_observed("a")
    assert not expected.satisfied("a", 0)
    expected.creation_observed("a")
    assert expected.satisfied("a", 0)
    expected.creation_observed("a")
    assert expected.satisfied("a", 0)


def test_a_deletion_seen_twice_counts_once():
    expected = Expectations()
    expected.expect_deletions("a", ["p", "q"], 0)
    expected.deletion_observed("a", "p")
    expected.deletion_observed("a", "p")
    expected.deletion_observed("a", "somebody else's")
    assert not expected.satisfied("a", 0)
    expected.deletion_observed("a", "q")
    assert expected.satisfied("a", 0)


def test_expectations_expire_after_five_minutes():
    expected = Expectations()
    expected.expect_creations("a", 1, 0)
    assert not expected.satisfied("a", TIMEOUT_NS)
    assert expected.satisfied("a", TIMEOUT_NS + 1)


def test_a_new_expectation_replaces_the_old_one():
    expected = Expectations()
    expected.expect_creations("a", 5, 0)
    expected.expect_deletions("a", ["p"], 0)
    expected.deletion_observed("a", "p")
    assert expected.satisfied("a", 0)


def test_keys_are_apart_and_can_be_forgotten():
    expected = Expectations()
    expected.expect_creations("a", 1, 0)
    expected.creation_observed("b")
    assert expected.satisfied("b", 0)
    expected.forget("a")
    assert expected.satisfied("a", 0)


@given(st.integers(0, 20), st.integers(0, 30))
def test_satisfied_exactly_when_all_were_seen(asked, seen):
    expected = Expectations()
    expected.expect_creations("a", asked, 0)
    for _ in range(seen):
        expected.creation_observed("a")
    assert expected.satisfied("a", 0) == (seen >= asked)


def test_a_record_lasts_until_it_is_too_old_to_count() -> None:
    for record in (Expectations(), CountedExpectations()):
        assert record.lasts_ns("a", 5) == 0
        if isinstance(record, Expectations):
            record.expect_creations("a", 1, 10)
        else:
            record.expect("a", 1, 0, 10)
        left = record.lasts_ns("a", 30)
        assert not record.satisfied("a", 30 + left - 1)
        assert record.satisfied("a", 30 + left)
        assert record.lasts_ns("a", 30 + left + 1) == 0
