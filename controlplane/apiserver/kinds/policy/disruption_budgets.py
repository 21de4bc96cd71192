"""PodDisruptionBudgets. Upstream: pkg/registry/policy/poddisruptionbudget, pkg/apis/policy."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import (
    at_most_full,
    int_or_percent,
    non_negative_field,
    optional_one_of,
)
from controlplane.apiserver.kinds.conditions import validate_conditions
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import validate_label_selector
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import FieldError, invalid

__all__ = ["KIND"]

_EVICTION = ("AlwaysAllow", "IfHealthyBudget")


def validate_budget(tree: Tree) -> list[FieldError]:
    """Return the errors of a pod disruption budget."""
    spec = tree.get("spec") or {}
    errors: list[FieldError] = []
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        shown = {
            "MinAvailable": low,
            "Selector": spec.get("selector"),
            "MaxUnavailable": high,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for key, value in (("minAvailable", low), ("maxUnavailable", high)):
        if value is not None:
            errors += int_or_percent(value, f"spec.{key}")
            errors += at_most_full(value, f"spec.{key}")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    return errors + optional_one_of(policy, "spec.unhealthyPodEvictionPolicy", _EVICTION)


def validate_budget_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Return the errors of a budget's counts and conditions."""
    status = new.get("status") or {}
    errors = validate_conditions(status.get("conditions"), "status.conditions")
    for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        errors += non_negative_field(status, key, "status")
    return errors


def _row(tree: Tree, now: int) -> list[Any]:
    spec = part_of(tree, "spec")

    def shown(key: str) -> str:
        return "N/A" if spec.get(key) is None else str(spec[key])

    allowed = part_of(tree, "status").get("disruptionsAllowed", 0)
    return [
        name_of(tree),
        shown("minAvailable"),
        shown("maxUnavailable"),
        allowed,
        age_of(tree, now),
    ]


KIND = Kind(
    strategy=Strategy(
        rule=validate_budget,
        status_rule=validate_budget_status,
        name_rule=names.path_segment,
        generation=True,
        unconditional_update=False,
        empty_status={
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "disruptionsAllowed": 0,
            "expectedPods": 0,
        },
        meta_steps="",
        meta_apart=True,
        standard_finalizers=False,
    ),
    row=_row,
)
