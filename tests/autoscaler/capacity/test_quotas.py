"""CapacityQuotas: which hold, and what nodes use of them."""

from __future__ import annotations

from typing import Any

from controlplane.api.node import Node
from controlplane.api.times import parse_time
from controlplane.autoscaler.capacity.quotas import quota_of, reconciled

NOW = parse_time("2026-01-01T00:01:00Z")
LATER = parse_time("2026-01-01T00:02:00Z")


def node(name: str, team: str = "red", **labels: str) -> Node:
    meta = {"name": name, "labels": {"team": team, **labels}}
    capacity = {"cpu": "4", "memory": "16Gi"}
    return Node.from_tree({"metadata": meta, "status": {"capacity": capacity}})


def quota(selector: Any = None, **limits: Any) -> dict[str, Any]:
    spec = {"limits": {"resources": limits or {"nodes": 2}}}
    if selector is not None:
        spec["selector"] = selector
    return {"metadata": {"name": "q", "generation": 3}, "spec": spec}


def conditions(status: Any) -> dict[str, tuple[str, str]]:
    return {
        each["type"].rpartition("/")[2]: (each["status"], each["reason"])
        for each in status["conditions"]
    }


RED = {"matchLabels": {"team": "red"}}


def test_the_status_tells_what_the_selected_nodes_have_together():
    nodes = [node("a"), node("b"), node("c", "blue"), node("d", type="virtual-kubelet")]
    status = reconciled(quota(RED, nodes=9, memory="1Ti", gpu=4), nodes, NOW)
    assert status["used"] == {"resources": {"nodes": "2", "memory": "32Gi", "gpu": "0"}}
    assert conditions(status) == {
        "valid": ("True", "ValidationSucceeded"),
        "Reconciled": ("True", "ReconciliationSucceeded"),
    }
    assert status["observedGeneration"] == 3
    everywhere = reconciled(quota(cpu=1), nodes, NOW)
    assert everywhere["used"] == {"resources": {"cpu": "12"}}


def test_a_condition_keeps_its_time_until_its_status_changes():
    first = quota(RED)
    first["status"] = reconciled(first, [], NOW)
    again = reconciled(first, [node("a")], LATER)
    assert {each["lastTransitionTime"] for each in again["conditions"]} == {"2026-01-01T00:01:00Z"}
    wrong = quota({"matchExpressions": [{"key": "a", "operator": "Near"}]})
    wrong["status"] = first["status"]
    status = reconciled(wrong, [], LATER)
    assert {each["lastTransitionTime"] for each in status["conditions"]} == {"2026-01-01T00:02:00Z"}
    assert conditions(status)["valid"] == ("False", "ValidationFailed")


def test_only_a_quota_that_was_found_valid_holds():
    tree = quota(RED, memory="1Gi", nodes=2)
    assert quota_of(tree) is None
    tree["status"] = reconciled(tree, [], NOW)
    found = quota_of(tree)
    assert found is not None
    assert (found.id, found.limits) == ("CapacityQuota/q", {"memory": 1 << 30, "nodes": 2})
    assert found.selector.matches({"team": "red"})
    assert not found.selector.matches({"team": "blue"})
