"""Histograms, snapshots of them, and what they tell."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from controlplane.metrics.family import NANOSECONDS, Series, merged
from controlplane.metrics.histogram import Histogram, exponential

WAITS = Series(
    "waits_seconds", "histogram", "Waits.", ("queue",), exponential(1_000_000, 10, 3), NANOSECONDS
)
PODS = Series("pods", "gauge", "Pods.", ("queue", "profile"))


def test_bounds_grow_by_a_factor():
    assert exponential(10, 2, 4) == (10, 20, 40, 80)


def test_an_amount_equal_to_a_bound_lies_below_it():
    found = Histogram((10, 20))
    for amount in (10, 11, 20, 21):
        found.observe(amount)
    assert (found.buckets, found.count, found.sum) == ([1, 2, 1], 4, 62)


def test_durations_are_kept_in_nanoseconds_and_shown_in_seconds():
    kept = WAITS.histogram()
    for ns in (0, 5_000_000, 2_000_000_000):
        kept.observe(ns)
    (sample,) = WAITS.family({("active",): kept}).samples
    assert sample.labels == (("queue", "active"),)
    assert sample.value.bounds == (0.001, 0.01, 0.1)
    assert sample.value.at_most == (1, 2, 2)
    assert (sample.value.count, sample.value.sum, sample.value.most) == (3, 2.005, 2.0)


def test_a_snapshot_does_not_change_when_counting_goes_on():
    kept = WAITS.histogram()
    kept.observe(1)
    taken = WAITS.family({("active",): kept})
    kept.observe(1)
    assert taken.samples[0].value.count == 1
    assert WAITS.family({("active",): kept}) != taken


@given(st.lists(st.integers(0, 10_000_000_000), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_in_the_bucket_of_the_amount_of_that_rank(amounts, share):
    kept = WAITS.histogram()
    for amount in amounts:
        kept.observe(amount)
    shown = WAITS.family({("q",): kept}).samples[0].value
    found = shown.quantile(share)
    assert min(amounts) / 1e9 <= found <= max(amounts) / 1e9
    rank = share * len(amounts)
    at_or_below = next(
        (place for place, count in enumerate(shown.at_most) if count >= rank), len(shown.bounds)
    )
    if rank > 0 and at_or_below < len(shown.bounds):
        assert found <= shown.bounds[at_or_below]
        assert bisect_left(shown.bounds, found) <= at_or_below


def test_quantiles_of_nothing_and_of_zeros():
    kept = WAITS.histogram()
    assert WAITS.family({("q",): kept}).samples[0].value.quantile(0.5) is None
    kept.observe(0)
    assert WAITS.family({("q",): kept}).samples[0].value.quantile(0.99) == 0


def test_labels_are_sorted_and_so_are_samples_and_families():
    ones = PODS.family({("b", "x"): 1, ("a", "z"): 2})
    other = PODS.family({("a", "y"): 3}).labelled("instance", "2")
    first = Series("a_first", "counter", "First.").single(0)
    families = merged((ones, other, first))
    assert [family.name for family in families] == ["a_first", "pods"]
    assert [(dict(each.labels), each.value) for each in families[1].samples] == [
        ({"instance": "2", "profile": "y", "queue": "a"}, 3),
        ({"profile": "x", "queue": "b"}, 1),
        ({"profile": "z", "queue": "a"}, 2),
    ]
