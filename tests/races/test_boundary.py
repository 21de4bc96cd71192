"""Races at the boundary of a component: with emulated ones the plan breaks the invariant; without it nothing breaks."""

from __future__ import annotations

import pytest

from actors import Fifo
from controlplane.errors import UsageError
from controlplane.races.boundary import FORMS, form
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of

REPAIRS = {
    "140177": "140177",
    "140177-successor": "140177",
    "96582": "96582=asked-again",
    "141255": "141255",
    "138036": "138036",
    "141568": "141568",
    "141568-podgc": "141568",
    "26120": "26120",
}
"""The repairs that cure a form; deletions of a preemption's victim have none that is proposed."""


def executed(name: str, **options) -> Execution:
    run = Execution(plan_of(form(name).scenario, **options), Fifo())
    run.execute("bare")
    return run


@pytest.mark.parametrize("name", FORMS)
def test_the_plan_is_carried_out_and_breaks_the_invariant(name) -> None:
    run = executed(name)
    assert run.result.verdict == "violated"
    assert run.control is not None
    assert run.control.reached, [str(each) for each in run.control.outcomes()]


@pytest.mark.parametrize("name", FORMS)
def test_without_the_plan_nothing_breaks(name) -> None:
    run = executed(name, plan=())
    assert run.result.ok, run.result.reason


@pytest.mark.parametrize(("name", "repair"), REPAIRS.items())
def test_with_the_repair_nothing_breaks(name, repair) -> None:
    run = executed(name, fix=(repair,))
    assert run.result.ok, run.result.reason


def test_only_the_component_in_question_is_held() -> None:
    assert all(
        each.component in line for each in FORMS.values() for line in each.scenario.defaults["plan"]
    )


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="140177"):
        form("14017")
