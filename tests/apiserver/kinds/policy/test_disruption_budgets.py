"""Rules of disruption budgets that no recorded conversation reaches."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.policy.disruption_budgets import validate_budget_status
from tests.apiserver.world import World


def test_conditions_of_a_budget_are_told_before_its_counts() -> None:
    new = {"status": {"expectedPods": -1, "conditions": [{"type": "A", "status": "x"}]}}
    fields = [error.field for error in validate_budget_status(new, {})]
    assert fields[-1] == "status.expectedPods"
    assert fields[0] == "status.conditions[0].status"


def test_the_metadata_of_a_budget_follow_the_rules_of_all_objects_alone() -> None:
    world = World()

    def budget(name: str, least: int = 1, **meta: Any) -> Any:
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, **meta},
            "spec": {"minAvailable": least, "selector": {}},
        }
        return world.create("poddisruptionbudgets", body, group="policy")

    assert budget("a", finalizers=["f"]).code == budget("A_b").code == 201
    told = budget("b", -1, labels={"a": "-"}).tree["details"]["causes"]
    assert [each["field"] for each in told] == ["spec.minAvailable"]
