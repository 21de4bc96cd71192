"""Histograms and throughput from known times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.perf.measuring import Collection, Histogram, buckets


def test_a_histogram_interpolates_within_its_buckets():
    histogram = Histogram((1.0, 2.0, 4.0))
    for value in (1.5, 1.5, 3.0, 3.0):
        histogram.observe(value)
    assert histogram.average == 2.25
    assert histogram.percentile(50) == 2.0
    assert histogram.percentile(75) == 3.0
    assert histogram.percentile(100) == 4.0
    assert histogram.to_json()["Perc50"] == 2000


@given(st.lists(st.floats(0, 20), min_size=1))
def test_percentiles_grow_with_the_percentage(values):
    histogram = Histogram(buckets(0.001, 2, 15))
    for value in values:
        histogram.observe(value)
    found = [histogram.percentile(percent) for percent in range(0, 101, 10)]
    assert found == sorted(found)


def test_throughput_is_pods_over_time_and_samples_leave_out_silence():
    collection = Collection("x", ["default"], None)
    start = collection.started
    collection.bound_at = [start + at for at in (0.5, 0.6, 1.5, 3.5, 3.6, 3.7, 6.0)]
    found = collection.throughput()
    assert found.pods == 7
    assert abs(found.average - 7 / 6) < 1e-6
    assert found.sample_s == 1.0
    assert found.percentiles == {50: 2.0, 90: 3.0, 95: 3.0, 99: 3.0}


def test_nothing_measured_is_zero():
    assert Collection("x", [], None).throughput().average == 0
