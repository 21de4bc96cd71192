"""Laws that look at something in particular say what they would say if they were asked after every step."""

from __future__ import annotations

import pytest
from attrs import evolve

from controlplane.races import catalogue
from controlplane.races.power import every_fix
from controlplane.scenarios.churns.scheduler_churn import SCENARIO
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign
from tests.scenarios.invariants.test_scheduling_laws import BREAKS_AT, INVARIANTS, UPHELD_BY

LOOKING = [name for name, laws in INVARIANTS.items() if name in BREAKS_AT and laws[0].looks_at]


def outcomes(scenario, options, seeds):
    invariants = scenario.invariants
    asked_always = tuple(evolve(each, looks_at=None) for each in invariants)
    assert asked_always != tuple(invariants)
    found = []
    for each in (scenario, evolve(scenario, invariants=asked_always)):
        campaign = Campaign(plan_of(each, **options))
        found.append([])
        for seed in seeds:
            result = campaign.explore(1, seed=seed)
            findings = [(each.result.reason, each.result.steps) for each in result.findings]
            found[-1].append((result.verdicts, findings, result.classes, result.steps))
    return found


@pytest.mark.slow
def test_the_churn_ends_the_same():
    looking, plain = outcomes(SCENARIO, {"fix": every_fix()}, range(12))
    assert looking == plain


@pytest.mark.parametrize("name", LOOKING)
def test_a_law_breaks_in_the_same_steps(name):
    race = catalogue.find(UPHELD_BY[name])
    scenario = evolve(race.scenario, invariants=INVARIANTS[name])
    seeds = (0, 1, BREAKS_AT[name], BREAKS_AT[name] + 1)
    looking, plain = outcomes(scenario, race.unfixed_options, seeds)
    assert looking == plain
    assert any(findings for _, findings, *_ in looking)
