"""Text in klog's form, with upstream's messages and keys."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pytest

from controlplane.logs.export import klog
from tests.logs.made import Made, event

HEADER = re.compile(
    r"([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6}) +(\d+) ([a-z_]+\.go):(\d+)\] (.*)\n", re.DOTALL
)
SCHEDULER = {
    "About to try and schedule pod": ["pod"],
    "Attempting to schedule pod": ["pod"],
    "Unable to schedule pod; no fit; waiting": ["pod", "err"],
    "Successfully bound pod to node": ["pod", "node", "evaluatedNodes", "feasibleNodes"],
}


class Parsed(NamedTuple):
    severity: str
    stamp: str
    file: str
    step: int
    text: str
    values: dict[str, Any]


def parsed(line: str) -> Parsed:
    """A line taken apart: Lmmdd hh:mm:ss.uuuuuu threadid file:line] "message" key=value..."""
    match = HEADER.fullmatch(line)
    assert match, line
    severity, stamp, _, file, number, rest = match.groups()
    assert "\n" not in rest
    decoder = json.JSONDecoder()
    text, at = decoder.raw_decode(rest)
    values = {}
    while at < len(rest):
        assert rest[at] == " "
        key, _, rest = rest[at + 1 :].partition("=")
        assert re.fullmatch(r"[A-Za-z-]+", key)
        values[key], at = decoder.raw_decode(rest)
    return Parsed(severity, stamp, file, int(number), text, values)


def all_of(log, verbosity=klog.VERBOSITY) -> list[Parsed]:
    return [parsed(line) for line in klog.lines(log, verbosity)]


def test_every_line_of_a_real_run_is_klogs(run_log):
    found = all_of(run_log)
    assert [each.step for each in found] == sorted(each.step for each in found)
    assert {each.text for each in found} >= {*SCHEDULER, "Caches populated", "HTTP"}
    for each in found:
        if each.text in SCHEDULER:
            assert list(each.values) == SCHEDULER[each.text]
            assert each.file == "schedule_one.go"


def test_the_schedulers_messages_are_those_of_its_attempts(run_log, run_lines):
    texts = [each.text for each in all_of(run_log)]
    for text, name in (
        ("Attempting to schedule pod", "scheduler.popped"),
        ("Unable to schedule pod; no fit; waiting", "scheduler.failed"),
        ("HTTP", "apiserver.audited"),
    ):
        assert texts.count(text) == sum(line.event == name for line in run_lines) > 0
    bound = [each for each in all_of(run_log) if each.text == "Successfully bound pod to node"]
    chosen = {
        (line.obj.partition("/")[2], line.data["node"], line.data["evaluated"])
        for line in run_lines
        if line.event == "scheduler.assumed"
    }
    assert {
        (each.values["pod"], each.values["node"], each.values["evaluatedNodes"]) for each in bound
    } == chosen


VERBOSITY = {
    "About to try and schedule pod": 4,
    "Attempting to schedule pod": 3,
    "HTTP": 3,
    "Successfully bound pod to node": 2,
    "Caches populated": 2,
}


@pytest.mark.parametrize("verbosity", range(6))
def test_verbosity_leaves_out_what_is_said_above_it(run_log, verbosity):
    some = all_of(run_log, verbosity)
    assert some == [each for each in all_of(run_log) if VERBOSITY.get(each.text, 2) <= verbosity]


def test_times_are_the_clusters_and_durations_gos():
    asked = event(
        7, "apiserver.audited", t=86_401.25, verb="list", uri="/api/v1/pods", agent="a", code=200,
        began_ns=86_399_750_000_000,
    )  # fmt: skip
    (found,) = all_of(Made((asked,)))
    assert (found.stamp, found.step) == ("0102 00:00:01.250000", 7)
    assert found.values == {
        "verb": "LIST", "URI": "/api/v1/pods", "latency": "1.5s", "userAgent": "a", "resp": 200,
    }  # fmt: skip


def test_errors_say_first_what_was_wrong():
    retry = event(1, "controller.retry", controller="job", key="d/j", error='no "quoted"\ntext')
    (line,) = klog.lines(Made((retry,)))
    found = parsed(line)
    assert (found.severity, found.file, found.text) == ("E", "controller.go", "Error syncing")
    assert list(found.values) == ["err", "controller", "key"]
    assert found.values["err"] == 'no "quoted"\ntext'


def test_without_nodes_the_scheduler_says_so():
    message = "no nodes available to schedule pods"
    failed = event(1, "scheduler.failed", "Pod/d/p", message=message, reason="Unschedulable")
    (found,) = all_of(Made((failed,)))
    assert found.text == "Unable to schedule pod; no nodes are registered to the cluster; waiting"
