"""What two checkpoints of a manager differ in."""

from __future__ import annotations

import json

import pytest

from controlplane.kubelet.cm.assignments import Assignment, assignments


def cpus(**pods) -> str:
    entries = {uid: {"main": owned} for uid, owned in pods.items()}
    return json.dumps({"policyName": "static", "defaultCpuSet": "0", "entries": entries})


def memory(**pods) -> str:
    entries = {
        uid: {"main": [{"numaAffinity": nodes, "type": "memory", "size": size}]}
        for uid, (nodes, size) in pods.items()
    }
    return json.dumps({"policyName": "Static", "entries": entries})


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (None, cpus(a="1-2"), [Assignment("a", "main", "1-2", "")]),
        (cpus(a="1"), cpus(a="1"), []),
        (cpus(a="1"), cpus(b="1"), [Assignment("a", "main", "", "1"), Assignment("b", "main", "1", "")]),
        (cpus(a="1"), cpus(a="1-2"), [Assignment("a", "main", "1-2", "1")]),
        (cpus(a="1"), cpus(), [Assignment("a", "main", "", "1")]),
        (memory(), memory(a=([0, 1], 64)), [Assignment("a", "main", "64 of memory from 0,1", "")]),
        ("damaged", cpus(a="1"), [Assignment("a", "main", "1", "")]),
    ],
)  # fmt: skip
def test_who_got_what_and_who_lost_it(before, after, found):
    assert list(assignments(before, after)) == found


def test_a_pod_as_a_whole_has_no_container():
    text = json.dumps({"podEntries": {"a": {"cpuSet": "3-4"}}})
    assert list(assignments(None, text)) == [Assignment("a", "*", "3-4", "")]
