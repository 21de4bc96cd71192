"""Where two runs part."""

from __future__ import annotations

import json
import shutil

import pytest

from controlplane.logs.difference import DECISIONS, compare
from controlplane.logs.reading import RunLog


@pytest.fixture
def changed(plain_lines, tmp_path):
    """Makes of the real log one with its lines changed."""

    def change(edit) -> RunLog:
        lines = [json.loads(json.dumps(line)) for line in plain_lines]
        edited = edit(lines)
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in edited or lines))
        return RunLog(path, "changed")

    return change


def test_a_run_does_not_differ_from_itself(run_log, log_file, tmp_path):
    assert compare(run_log, run_log) is None
    assert compare(run_log, RunLog(shutil.copy(log_file, tmp_path / "copy"))) is None


def test_names_of_runs_make_no_difference(run_log, changed):
    def renamed(lines):
        for line in lines:
            line["run"] = "other"

    assert compare(run_log, changed(renamed)) is None


@pytest.mark.parametrize("field", ["t", "actor", "task", "event", "obj", "uid", "rv", "cause"])
def test_the_first_event_that_differs_is_found(run_log, run_lines, changed, field):
    other = {"t": 99.5, "rv": 12345, "cause": [1]}.get(field, "other")
    log = changed(lambda lines: lines[700].update({field: other}))
    found = compare(run_log, log)
    assert found.same_events == 699  # but for the first line, which tells what was run
    assert found.steps[0] == run_lines[700]
    assert getattr(found.steps[1], field) == (tuple(other) if field == "cause" else other)


def test_the_first_decision_that_differs_is_told_with_what_both_did_before(
    run_log, run_lines, changed
):
    at, chosen = [
        (number, line) for number, line in enumerate(run_lines) if line.event == "scheduler.assumed"
    ][1]

    def elsewhere(lines):
        lines[at]["data"]["node"] = "node-9"

    found = compare(run_log, changed(elsewhere))
    assert found.same_events == at - 1
    assert [side.event.data["node"] for side in found.sides] == [chosen.data["node"], "node-9"]
    shared = [line for line in run_lines[:at] if line.event in DECISIONS]
    assert found.before == shared[-5:]
    following = [
        line for line in run_lines[at + 1 :] if line.event in DECISIONS and line.event != "choice"
    ]
    assert [side.after for side in found.sides] == [following[:5]] * 2
    assert {side.verdict for side in found.sides} == {"quiescent: only periodic work is left"}
    told = json.loads(json.dumps(found.to_json()))
    assert [each["run"] for each in told["decisions"]] == ["run", "changed"]


def test_a_run_that_ends_earlier_differs_where_it_ends(run_log, run_lines, changed):
    found = compare(run_log, changed(lambda lines: lines[:900]))
    assert found.same_events == 899
    assert found.steps == (run_lines[900], None)
    later = [x for x in run_lines[900:] if x.event in DECISIONS and x.event != "choice"]
    assert [side.event for side in found.sides] == [later[0], None]
    assert found.sides[1].verdict == ""


def test_two_schedules_of_one_workload_part(run_log, other_log_file):
    found = compare(run_log, RunLog(other_log_file))
    assert found.same_events > 0  # the births of the first tasks
    one, other = (side.event for side in found.sides)
    assert (one.event, one.obj, one.actor) != (other.event, other.obj, other.actor)
