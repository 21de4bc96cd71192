"""Plans: a variant of a plan, and one with other options, keep what is in force."""

from __future__ import annotations

import json

import pytest

from controlplane.scenarios.engine.plan import plan_of, plan_of_header
from controlplane.scenarios.search import loading

CHURN = loading.from_module(loading.NAMED["storage-churn"])
ASKED = {"fix": ("here10",), "without_fix": ("261",)}


def in_force(plan) -> tuple[bool, bool]:
    return plan.gates.fixed("here10"), plan.gates.fixed("261")


@pytest.mark.parametrize("recorded", [False, True])
def test_all_variants_have_the_gates_of_their_plan(recorded) -> None:
    """A worker of a search has the plan from a header, which tells of gates and not of --fix: they were lost."""
    plan = plan_of(CHURN, **ASKED)
    if recorded:
        plan = plan_of_header(CHURN, json.loads(json.dumps(plan.header())))
    assert in_force(plan) == (True, False)
    variants = plan.variants()
    assert len(variants) > 1
    assert {in_force(plan.under(each)) for each in variants} == {(True, False)}


def test_other_gates_replace_those_of_the_plan() -> None:
    plan = plan_of(CHURN, **ASKED)
    assert in_force(plan.with_options(fix=(), without_fix=())) == (False, True)
    assert in_force(plan.with_options(part="group")) == (True, False)
