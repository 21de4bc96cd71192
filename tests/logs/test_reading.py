"""Logs are read back whole, by step and by text, packed or not, and as far as they can be read."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from controlplane.errors import UsageError
from controlplane.logs.reading import RunLog, find, follow


def text_of(steps, *, header=True):
    first = {"event": "log", "step": 0, "level": "debug", "data": {"format": 2, "vocabulary": 2}}
    lines = [first] if header else []
    lines += [
        {"event": f"e{at}", "step": step, "obj": f"Pod/d/p{step}"} for at, step in enumerate(steps)
    ]
    rest = {"run": "r", "t": 0.5, "actor": "a", "task": "main"}
    return "".join(json.dumps({**rest, **line}) + "\n" for line in lines).encode()


def log_of(tmp_path, data, name="log.jsonl"):
    path = tmp_path / name
    path.write_bytes(data)
    return RunLog(path)


@given(
    st.lists(st.integers(1, 30), max_size=40).map(sorted), st.integers(0, 31), st.integers(0, 31)
)
def test_steps_are_found_without_reading_the_rest(tmp_path_factory, steps, first, last):
    log = log_of(tmp_path_factory.mktemp("log"), text_of(steps))
    found = [line.step for line in log.between(max(first, 1), last)]
    assert found == [step for step in steps if max(first, 1) <= step <= last]


def test_what_mentions_a_text_is_found(tmp_path):
    log = log_of(tmp_path, text_of([1, 2, 2, 12]))
    assert [line.event for line in log.mentioning("Pod/d/p2")] == ["e1", "e2"]
    assert [line.event for line in log.mentioning("nothing")] == []


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packed_logs_read_like_others(tmp_path, pack):
    data = text_of(range(1, 50))
    assert list(log_of(tmp_path, pack(data), "x")) == list(log_of(tmp_path, data))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_of_a_packed_log_that_ends_early_the_beginning_is_read(tmp_path, pack):
    data = text_of(range(1, 20_000))
    packed = pack(data)
    log = log_of(tmp_path, packed[: len(packed) // 2], "x")
    assert 0 < len(list(log)) < 20_000
    assert log.damage


def test_a_log_that_ends_in_the_middle_of_a_line_says_so(tmp_path):
    log = log_of(tmp_path, text_of([1, 2, 3])[:-20])
    assert [line.step for line in log] == [0, 1, 2]
    assert log.damage == [f"{log.name}: it ends in the middle of line 4; the rest was read"]
    assert log.last().step == 2


def test_damaged_lines_are_left_out_and_counted(tmp_path):
    lines = text_of([1, 2, 3, 4]).splitlines(keepends=True)
    lines[2] = b"\x00\xff" + lines[2][5:]
    lines[3] = b"[" * 10_000 + b"\n"
    log = log_of(tmp_path, b"".join(lines))
    assert [line.step for line in log] == [0, 1, 4]
    assert log.damage == [f"{log.name}: 2 lines are no event, first line 3; the rest was read"]
    assert [line.step for line in log.between(4, 4)] == [4]


def test_logs_of_before_levels_get_those_of_the_vocabulary(tmp_path):
    old = text_of([1], header=False).replace(b'"e0"', b'"scheduler.popped"')
    assert [line.level for line in log_of(tmp_path, old)] == ["trace"]


def test_a_log_of_a_newer_version_is_read_with_a_warning(tmp_path):
    newer = text_of([1]).replace(b'"vocabulary": 2', b'"vocabulary": 99')
    log = log_of(tmp_path, newer)
    assert [line.step for line in log] == [0, 1]
    assert "newer version" in log.damage[0]


def test_of_a_short_packed_log_that_ends_early_the_beginning_is_read(tmp_path):
    packed = gzip.compress(text_of(range(1, 500)))
    log = log_of(tmp_path, packed[: len(packed) // 2], "x")
    assert 0 < len(list(log)) < 500
    assert "its compression ends early" in log.damage[0]


def test_the_verdict_is_last_though_what_its_step_read_stands_behind_it(tmp_path):
    verdict = b'"verdict", "data": {"verdict": "until", "reason": "enough"}'
    lines = text_of([1, 2, 2, 2]).replace(b'"e1"', verdict)
    assert log_of(tmp_path, lines).last().event == "verdict"
    assert log_of(tmp_path, lines + text_of([3], header=False)).last().step == 3


def test_an_empty_log_has_no_events(tmp_path):
    log = log_of(tmp_path, b"")
    assert (list(log), log.last(), list(log.between(0, 9))) == ([], None, [])


def test_what_is_no_log_is_refused(tmp_path):
    with pytest.raises(UsageError, match="line 1: expected an event"):
        log_of(tmp_path, b"objects: []\n")
    with pytest.raises(UsageError, match="no such log"):
        find(tmp_path / "none")


def test_a_log_is_followed_as_it_grows(tmp_path):
    path = tmp_path / "log.jsonl"
    data = text_of([1, 2, 3])
    path.write_bytes(data[:-20])
    waits = []

    def wait():
        waits.append(1)
        if len(waits) == 1:
            path.write_bytes(data)
        return len(waits) < 2

    assert [line.step for line in follow(path, wait)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b'"actor": "\xff"', id="no-utf-8"),
        pytest.param(b'"actor": "\\ud800"', id="lone-surrogate"),
        pytest.param(b'"step": -1', id="negative-step"),
        pytest.param(b'"step": 1' + b"0" * 30, id="huge-step"),
        pytest.param(b'"t": 1e300', id="huge-time"),
        pytest.param(b'"cause": [-1]', id="negative-cause"),
        pytest.param(b'"level": "loud"', id="unknown-level"),
        pytest.param(b'"event": "verdict", "data": {"verdict": 1, "reason": ""}', id="data-type"),
        pytest.param(b'"event": "verdict", "data": {"verdict": ""}', id="data-missing"),
        pytest.param(
            b'"event": "apiserver.write", "data": {"verb": "create pods", "code": "201"}',
            id="count-as-text",
        ),
        pytest.param(
            b'"event": "scheduler.failed", "data": {"reason": "", "message": "", "outcome": "",'
            b' "attempt": 1, "refused": [{"plugin": "p", "message": "", "count": 1, "nodes": 1}]}',
            id="nested-type",
        ),
    ],
)
def test_a_line_that_no_run_writes_is_left_out_and_counted(tmp_path, damaged):
    whole = text_of([1, 2, 3])
    lines = whole.splitlines(keepends=True)
    lines.insert(2, lines[1][:-2] + b", " + damaged + b"}\n")
    log = log_of(tmp_path, b"".join(lines))
    assert [line.step for line in log] == [0, 1, 2, 3]
    assert log.damage == [f"{log.name}: 1 line is no event, first line 3; the rest was read"]
    assert [line.step for line in log.between(1, 3)] == [1, 2, 3]
    assert [line.step for line in log.mentioning("Pod/d/p")] == [1, 2, 3]
    assert [line.step for line in follow(log.path, lambda: False)] == [0, 1, 2, 3]


def test_data_that_the_vocabulary_does_not_know_are_allowed(tmp_path):
    verdict = b'"verdict", "data": {"verdict": "until", "reason": "", "mood": [1]}'
    (line,) = log_of(tmp_path, text_of([1], header=False).replace(b'"e0"', verdict))
    assert line.data["mood"] == [1]
