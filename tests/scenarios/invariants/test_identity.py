"""The identity invariant finds writes that reach another object of the name, without knowing of any race."""

from __future__ import annotations

import pytest
from attrs import evolve

from controlplane.api.request import Request
from controlplane.races import catalogue
from controlplane.scenarios.invariants.identity import (
    NAME,
    names_its_object,
    writes_keep_to_their_object,
)
from controlplane.scenarios.search.exploring import Campaign


def under_the_law_alone(plan):
    """The plan with this one invariant in place of its own."""
    scenario = evolve(plan.scenario, invariants=(writes_keep_to_their_object(),))
    return evolve(plan, scenario=scenario)


@pytest.mark.slow
def test_it_alone_finds_a_race_of_a_name_that_is_used_again():
    """86320: a kubelet that was cut off writes the status of one pod to the next of that name."""
    race = catalogue.find("86320")
    broken = Campaign(under_the_law_alone(race.unfixed())).explore(race.schedules)
    assert broken.findings
    reason = broken.findings[0].result.reason
    assert reason.startswith(f"{NAME}: node-1/status-manager: patch pods default/web reached uid ")


@pytest.mark.slow
def test_with_the_fix_it_holds():
    race = catalogue.find("86320")
    assert not Campaign(under_the_law_alone(race.repaired())).explore(20).findings


@pytest.mark.parametrize(
    ("request_", "exact"),
    [
        (Request("delete", body={"preconditions": {"uid": "u"}}), True),
        (Request("delete", body={"gracePeriodSeconds": 0}), False),
        (Request("delete"), False),
        (Request("patch", body={"metadata": {"uid": "u"}}), True),
        (Request("patch", body={"status": {}}), False),
        (Request("patch", body=[{"op": "test", "path": "/metadata/uid", "value": "u"}]), True),
        (Request("patch", body=[{"op": "remove", "path": "/spec"}]), False),
        (Request("update", body={"metadata": {"resourceVersion": "5"}}), True),
        (Request("update", body={"metadata": {}}), False),
    ],
)
def test_a_request_that_names_its_object_cannot_reach_another(request_, exact):
    assert names_its_object(request_, evicts=False) is exact


def test_an_eviction_names_its_object_in_the_options_of_the_deletion():
    body = {"deleteOptions": {"preconditions": {"uid": "u"}}}
    assert names_its_object(Request("create", body=body), evicts=True)
    assert not names_its_object(Request("create", body={"metadata": {"uid": "u"}}), evicts=True)
