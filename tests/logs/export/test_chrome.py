"""The rules of Perfetto's importer of Chrome traces."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

from controlplane.logs.export import chrome
from controlplane.logs.exporting import pieces
from tests.logs.made import Made, event, logs, step

NEEDED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "i": {"name", "pid", "tid", "ts", "s"},
    "M": {"name", "pid", "args"},
    "s": {"name", "cat", "pid", "tid", "ts", "id"},
    "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
}
NAMED = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_sort_index": ("sort_index", int),
}


def events_of(log: Any) -> list[dict[str, Any]]:
    whole = json.loads("".join(chrome.lines(log)))
    assert set(whole) == {"displayTimeUnit", "traceEvents"}
    assert whole["displayTimeUnit"] in ("ns", "ms")
    return whole["traceEvents"]


def check(events: list[dict[str, Any]]) -> None:
    slices = defaultdict(list)
    for each in events:
        assert NEEDED[each["ph"]] <= set(each), each
        assert each.get("s") in (None, "g", "p", "t")
        if each["ph"] == "M":
            key, kind = NAMED[each["name"]]
            assert isinstance(each["args"][key], kind)
            continue
        assert each["ts"] >= 0
        if each["ph"] == "X":
            assert each["dur"] > 0
            slices[each["pid"], each["tid"]].append((each["ts"], each["ts"] + each["dur"]))
    for spans in slices.values():
        spans.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
    named = {(e["name"], e["pid"], e["tid"]) for e in events if e["ph"] == "M"}
    assert len(named) == sum(e["ph"] == "M" for e in events)
    for pid, tid in slices:
        assert ("process_name", pid, 0) in named
        assert ("thread_name", pid, tid) in named
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert len(starts) + len(ends) == sum(e["ph"] in "sf" for e in events)
    assert set(starts) == set(ends)
    for number, start in starts.items():
        end = ends[number]
        assert (start["cat"], start["name"]) == (end["cat"], end["name"])
        assert end["bp"] == "e"
        assert start["ts"] < end["ts"]
        for each in (start, end):
            spans = slices[each["pid"], each["tid"]]
            assert sum(first <= each["ts"] <= last for first, last in spans) == 1


def test_a_real_run_keeps_the_rules(run_log, run_lines):
    events = events_of(run_log)
    check(events)
    slices = [e for e in events if e["ph"] == "X"]
    assert [e["ts"] for e in slices] == [line.step for line in run_lines if line.is_step]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert [(processes[e["pid"]], threads[e["tid"]]) for e in slices] == [
        (line.actor, line.task) for line in run_lines if line.is_step
    ]
    said = {e["name"] for e in events if e["ph"] == "i"}
    assert "fault: crash node-1" in said
    assert any(each.startswith("bound Pod/default/b to node-") for each in said)


def test_every_message_has_an_arrow_from_the_step_that_sent_it(run_log, run_lines):
    events = events_of(run_log)
    starts = {e["id"]: int(e["ts"]) for e in events if e["ph"] == "s"}
    arrows = {(starts[e["id"]], e["ts"], e["name"]) for e in events if e["ph"] == "f"}
    messages = {
        (line.cause[0], line.step, line.data["message"])
        for line in run_lines
        if line.event == "message"
    }
    assert messages
    assert messages <= arrows


@pytest.mark.slow
@settings(max_examples=50)
@given(logs())
def test_any_log_keeps_the_rules(log):
    check(events_of(log))


def test_one_actors_part_keeps_the_rules(run_log):
    events = json.loads("".join(pieces(run_log, "perfetto", actor="node-*")))["traceEvents"]
    check(events)
    processes = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes == {"node-1", "node-2"}


def test_of_a_log_without_steps_the_events_are_shown():
    log = Made((event(7, "node.error", message="no"),))
    events = events_of(log)
    check(events)
    assert [e["name"] for e in events if e["ph"] == "i"] == ["node.error: no"]


def test_an_empty_log_is_an_empty_trace():
    assert events_of(Made(())) == []
    assert [e["ph"] for e in events_of(Made((step(1),)))].count("X") == 1
