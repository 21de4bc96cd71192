"""Beside the real benchmark: a program that stands in for it, told apart from ours by what it prints."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from controlplane.cli.bench import command
from controlplane.errors import UsageError
from controlplane.perf import beside
from controlplane.perf.workloads import Workload
from tests.perf.test_running import MEASURED, one

CASE = Workload("Case.A", "5Nodes", (), None, {}, {}, ())


def items(*averages, name="Case.A/5Nodes/namespace-1", metric="SchedulingThroughput"):
    labels = {"Metric": metric, "Name": name}
    found = [{"data": {"Average": each}, "unit": "pods/s", "labels": labels} for each in averages]
    return json.dumps({"version": "v1", "dataItems": found})


@pytest.mark.parametrize(
    ("text", "average"),
    [
        (items(300.5), 300.5),
        (items(100, 300), 200),
        (items(7, name="BenchmarkPerfScheduling/Case.A/5Nodes"), 7),
        (
            "goos: linux\nBenchmarkPerfScheduling/Case.A/5Nodes-2  1  0 ns/op  372.1 pods/s\nPASS",
            372.1,
        ),
        ("BenchmarkPerfScheduling/Case.A/5Nodes 1 12 SchedulingThroughput/Average", 12),
        ("BenchmarkPerfScheduling/Case.A/5Nodes/namespace-2-16 1 1.5e+02 pods/s", 150),
    ],
)
def test_what_the_real_one_reached_is_read_from_items_and_from_lines(text, average):
    assert beside.figure(["", "no figure", text], CASE) == average


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"dataItems": 1}',
        items(5, name="Case.A/5NodesMore"),
        items(5, metric="scheduler_scheduling_attempt_duration_seconds"),
        "BenchmarkPerfScheduling/Case.A/50Nodes-2 1 372.1 pods/s",
        "BenchmarkPerfScheduling/Case.A/5Nodes-2 1 372.1 ns/op",
    ],
)
def test_what_tells_nothing_of_the_workload_is_said_so(text):
    with pytest.raises(beside.NothingToldError, match=r"no SchedulingThroughput of Case\.A/5Nodes"):
        beside.figure([text], CASE)


def test_a_rate_that_is_none_is_refused():
    with pytest.raises(beside.NothingToldError, match=r"0\.0 pods/s is no rate"):
        beside.figure([items(0)], CASE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("bench 'x", "quotation"),
        ("bench {workloads}", r"no \{workloads\}; known: \{workload\}, "),
        ("bench {out}", r"has to say \{workload\} or \{pattern\}"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        beside.command_of(text)


def test_the_pattern_names_one_workload_only():
    assert beside.pattern_of(CASE) == r"^BenchmarkPerfScheduling$/^Case\.A$/^5Nodes$"


def test_medians_and_the_spread_of_the_ratio_are_told():
    pairs = tuple(
        beside.Pair(ours, theirs) for ours, theirs in ((800, 100), (900, 300), (1000, 200))
    )
    compared = beside.Compared("T/w", pairs)
    assert compared.row() == ("T/w", 3, "900", "200", "5.00", "3.00", "8.00")
    assert compared.to_json()["times"] == {"median": 5, "least": 3, "most": 8}


STAND_IN = """
import json, pathlib, sys
workload, file, out, calls = sys.argv[1:]
with open(calls, "a") as log:
    log.write(f"{workload} {pathlib.Path(file).name}\\n")
number = len(open(calls).readlines())
if number > int(pathlib.Path(calls).with_suffix(".most").read_text()):
    sys.exit("it broke")
labels = {"Metric": "SchedulingThroughput", "Name": workload + "/namespace-1"}
items = [{"data": {"Average": 10.0 * number}, "unit": "pods/s", "labels": labels}]
pathlib.Path(out, "BenchmarkPerfScheduling_x.json").write_text(json.dumps({"version": "v1", "dataItems": items}))
"""


@pytest.fixture
def benchmark(tmp_path):
    """Calls the command beside the stand-in, which fails after so many runs; answers its result and the calls."""
    one(tmp_path, MEASURED)
    program, calls = tmp_path / "stand_in.py", tmp_path / "calls"
    program.write_text(STAND_IN)

    def call(*more, most=99, program=program):
        calls.with_suffix(".most").write_text(str(most))
        words = f"{sys.executable} {program} {{workload}} {{file}} {{out}} {calls}"
        file = str(tmp_path / "performance-config.yaml")
        result = CliRunner().invoke(
            command, ["scheduler-perf", file, "--beside", words, *more], standalone_mode=False
        )
        return result, calls.read_text().splitlines() if calls.exists() else []

    return call


@pytest.mark.slow
def test_both_are_run_in_turn_and_the_ratio_is_told(benchmark):
    result, calls = benchmark("--pairs", "2", "--format", "json")
    assert result.return_value == 0, result.output
    assert calls == ["T/w performance-config.yaml"] * 2
    (found,) = json.loads(result.output)["workloads"]
    assert [pair["theirs"] for pair in found["pairs"]] == [10.0, 20.0]
    assert all(pair["ours"] > 0 for pair in found["pairs"])
    ratios = [pair["ours"] / pair["theirs"] for pair in found["pairs"]]
    assert found["times"] == {
        "median": pytest.approx(sum(ratios) / 2),
        "least": min(ratios),
        "most": max(ratios),
    }


@pytest.mark.slow
def test_pairs_that_were_measured_stay_when_the_real_one_breaks(benchmark):
    result, _ = benchmark("--pairs", "2", most=1)
    assert result.return_value == 1
    assert "LEAST" in result.output
    assert "T/w: theirs: " in result.output
    assert "ended with 1: it broke" in result.output


@pytest.mark.slow
def test_a_program_that_is_not_there_is_wrong_use(benchmark):
    result, calls = benchmark("--beside", "/nowhere/bench {pattern}")
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "--beside: /nowhere/bench: No such file or directory"
    assert calls == []


def test_what_takes_down_a_trace_is_not_compared(benchmark):
    result, _ = benchmark("--log-level", "info")
    assert isinstance(result.exception, UsageError)
