"""How long things took: percentiles by nearest rank, over the right spans."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from controlplane.logs.stats import PERCENTILES, Stats, measure, percentile
from tests.logs.made import event


@given(st.lists(st.floats(0, 1e9, allow_nan=False), min_size=1, max_size=40), st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values, p):
    wanted = Fraction(p, 100) * len(values)
    assert percentile(values, p) == min(
        value for value in values if sum(other <= value for other in values) >= wanted
    )


def test_percentiles_of_few_values_are_known():
    assert [percentile([3, 1, 2], p) for p in (1, 33, 34, 50, 66, 67, 99, 100)] == [
        1,
        1,
        2,
        2,
        2,
        3,
        3,
        3,
    ]
    assert percentile([7], 50) == 7


@given(st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1))
def test_rows_rise_from_the_median_to_the_greatest(values):
    ((name, count, row),) = Stats(latencies={"x": values, "none": []}).rows()
    assert (name, count, len(row)) == ("x", len(values), len(PERCENTILES) + 1)
    assert row == sorted(row)
    assert row[-1] == max(values)


def test_a_real_runs_spans_are_those_of_its_pods(run_log, plain_lines):
    told = measure(run_log).to_json()
    writes = [line for line in plain_lines if line["event"] == "apiserver.write"]
    created, bound, ready = {}, {}, {}
    for line in writes:
        data = line["data"]
        if data["code"] >= 300 or not line.get("obj", "").startswith("Pod/"):
            continue
        if data["verb"] == "create pods":
            created[line["uid"]] = line["t"]
        elif data["verb"] == "create pods/binding":
            bound[line["uid"]] = line["t"]
        elif data.get("ready"):
            ready.setdefault(line["uid"], line["t"])
    for name, start, end in (
        ("pod: create to bound", created, bound),
        ("pod: bound to ready", bound, ready),
        ("pod: create to ready", created, ready),
    ):
        spans = sorted(end[uid] - start[uid] for uid in end)
        assert told["latencies"][name] == {
            "count": len(spans),
            **{f"p{p}": spans[math.ceil(len(spans) * p / 100) - 1] for p in PERCENTILES},
            "max": spans[-1],
        }
    audited = [line["data"]["verb"] for line in plain_lines if line["event"] == "apiserver.audited"]
    for verb in set(audited):
        assert told["latencies"][f"request: {verb}"]["count"] == audited.count(verb)
    failed = [line["data"] for line in plain_lines if line["event"] == "scheduler.failed"]
    assert sum(told["refused_nodes_by_plugin"].values()) == sum(
        each["count"] for data in failed for each in data["refused"]
    )
    assert sum(told["attempts"].values()) == len(created)
    assert told["latencies"]["pod: deletion to gone"]["count"] == 1


def test_a_request_takes_from_its_coming_to_its_answer():
    asked = {"verb": "get", "began_ns": 1_500_000_000}
    found = measure([event(1, "apiserver.audited", level="trace", t=2.25, **asked)])
    assert found.latencies["request: get"] == [0.75]
