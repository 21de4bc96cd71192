"""The text format, by its rules and as Prometheus' own client reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.metrics import listing
from controlplane.metrics.exposition import number, text_of
from controlplane.metrics.family import NANOSECONDS, Series

TOLD = Series("told_total", "counter", "A \\ and\na new line.", ("by",))
WAITS = Series("waits_seconds", "histogram", "Waits.", (), (5_000_000, 1_000_000_000), NANOSECONDS)


def waits():
    kept = WAITS.histogram()
    for ns in (1, 1_000_000_000, 90_000_000_000):
        kept.observe(ns)
    return WAITS.single(kept)


def test_counters_and_their_escapes():
    assert text_of([TOLD.family({('a"b\\c\nd',): 3, ("",): 1.5})]) == (
        "# HELP told_total A \\\\ and\\na new line.\n"
        "# TYPE told_total counter\n"
        'told_total{by=""} 1.5\n'
        'told_total{by="a\\"b\\\\c\\nd"} 3\n'
    )


def test_histograms_have_buckets_that_add_up():
    assert text_of([waits()]) == (
        "# HELP waits_seconds Waits.\n"
        "# TYPE waits_seconds histogram\n"
        'waits_seconds_bucket{le="0.005"} 1\n'
        'waits_seconds_bucket{le="1"} 2\n'
        'waits_seconds_bucket{le="+Inf"} 3\n'
        "waits_seconds_sum 91.000000001\n"
        "waits_seconds_count 3\n"
    )


@pytest.mark.parametrize(("value", "told"), [(0, "0"), (2.0, "2"), (0.1, "0.1"), (1e-05, "1e-05")])
def test_numbers_are_told_as_short_as_can_be(value, told):
    assert number(value) == told


def test_rows_and_trees_tell_the_same():
    families = [TOLD.family({("me",): 2}), waits()]
    assert [*listing.rows(families)] == [
        ("told_total", "by=me", "2"),
        ("waits_seconds", "", "count 3, sum 91, p50 0.5025, p99 90"),
    ]
    counter, histogram = listing.tree(families)
    assert counter == {"name": "told_total", "type": "counter", "labels": {"by": "me"}, "value": 2}
    assert histogram["buckets"] == {"0.005": 1, "1": 2}
    assert (histogram["count"], histogram["sum"]) == (3, 91.000000001)


@given(st.dictionaries(st.tuples(st.text()), st.integers(0) | st.floats(0, 1e9), max_size=5))
def test_the_official_client_reads_what_was_written(values):
    parser = pytest.importorskip("prometheus_client.parser")
    text = text_of([TOLD.family(values), waits()])
    counter, histogram = parser.text_string_to_metric_families(text)
    assert (counter.name, counter.type) == ("told", "counter")
    assert {sample.labels["by"]: float(sample.value) for sample in counter.samples} == {
        by: float(value) for (by,), value in values.items()
    }
    assert (histogram.name, histogram.type) == ("waits_seconds", "histogram")
    assert [sample.value for sample in histogram.samples] == [1, 2, 3, 91.000000001, 3]
