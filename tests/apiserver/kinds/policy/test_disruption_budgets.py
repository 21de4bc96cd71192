"""Rules of disruption budgets that no recorded conversation reaches."""

from __future__ import annotations

from controlplane.apiserver.kinds.policy.disruption_budgets import validate_budget_status


def test_conditions_of_a_budget_are_told_before_its_counts() -> None:
    new = {"status": {"expectedPods": -1, "conditions": [{"type": "A", "status": "x"}]}}
    fields = [error.field for error in validate_budget_status(new, {})]
    assert fields[-1] == "status.expectedPods"
    assert fields[0] == "status.conditions[0].status"
