"""The life of an object, each incarnation apart."""

from __future__ import annotations

import json
import re

import pytest

from controlplane.errors import UsageError
from controlplane.logs.timeline import timeline


def test_incarnations_are_apart_and_hold_all_that_was_said(run_log, run_lines):
    found = timeline(run_log, "po/b")
    wanted: dict[str, list] = {}
    for line in run_lines:
        if line.obj == "Pod/default/b" and line.level != "trace":
            wanted.setdefault(line.uid, []).append(line)
    assert len(wanted) == 2
    assert {each.uid: each.events for each in found.incarnations} == wanted
    first, second = (
        [event["what"] for event in each["events"]] for each in found.to_json()["incarnations"]
    )
    assert first[0].startswith("created by user, version ")
    assert any(re.fullmatch("bound to node-[12] by scheduler", each) for each in first)
    assert first[-1].startswith("deleted by user")
    assert "Running, ready" in second[-1]
    json.dumps(found.to_json())


def test_with_everything_who_read_it_and_was_told_of_it_as_well(run_log, run_lines):
    found = timeline(run_log, "pods/default/b", everything=True)
    names = {line.event for each in found.incarnations for line in each.events}
    assert {"scheduler.popped", "informer.told", "client.read", "apiserver.write"} <= names
    assert "apiserver.audited" not in names
    told_otherwise = ("apiserver.audited", "apiserver.changed", "apiserver.removed")
    count = sum(
        line.obj == "Pod/default/b" and line.event not in told_otherwise for line in run_lines
    )
    assert sum(len(each.events) for each in found.incarnations) == count


def test_a_field_is_traced_to_the_writes_that_changed_it(run_log, run_lines):
    found = timeline(run_log, "pods/default/b", path="status.phase")
    versions = {line.rv for each in found.incarnations for line in each.events}
    changed = {
        line.rv
        for line in run_lines
        if line.event == "apiserver.changed"
        and line.obj == "Pod/default/b"
        and "status.phase" in line.data["fields"]
    }
    assert versions == changed
    assert changed


@pytest.mark.parametrize("name", ["node/node-1", "no/node-1"])
def test_objects_of_the_cluster_have_lives_as_well(run_log, name):
    (life,) = timeline(run_log, name).incarnations
    assert life.events[0].data["verb"] == "create nodes"


def test_names_that_only_begin_alike_are_others(run_log):
    with pytest.raises(UsageError, match=r"pod/default/lat: .*; did you mean Pod/default/late"):
        timeline(run_log, "pod/lat")
