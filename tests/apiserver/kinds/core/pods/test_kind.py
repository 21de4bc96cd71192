"""Pods: what a binding writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controlplane.api.times import SECOND
from controlplane.apiserver.kinds.core.pods.kind import bound

NEW: dict[str, Any] = {"phase": "Pending", "qosClass": "BestEffort"}
CONDITION = {
    "type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": "1970-01-01T00:00:02Z",
}  # fmt: skip


def bind(status: dict[str, Any], now: int) -> dict[str, Any]:
    context: Any = SimpleNamespace(now=now)
    tree = {"metadata": {"name": "p"}, "spec": {}, "status": status}
    made = bound(context, tree, "node", {}, {})
    assert made["spec"] == {"nodeName": "node"}
    found: dict[str, Any] = made["status"]
    return found


def test_new_pods_that_are_bound_in_one_second_have_one_status():
    status = bind(NEW, 2 * SECOND)
    assert status == {**NEW, "conditions": [CONDITION]}
    assert bind(NEW, 2 * SECOND + 1) is status
    later = bind(NEW, 3 * SECOND)
    assert later["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:00:03Z"
    assert status["conditions"] == [CONDITION]


def test_a_binding_takes_the_nomination_and_keeps_other_conditions():
    gate = {"type": "example.com/gate", "status": "True"}
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    before = {**NEW, "nominatedNodeName": "other", "conditions": [unscheduled, gate]}
    assert bind(before, 2 * SECOND) == {**NEW, "conditions": [gate, CONDITION]}
    assert before["nominatedNodeName"] == "other"
