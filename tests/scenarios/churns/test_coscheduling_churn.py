"""The churn of gangs of PodGroups: it holds, reaches what it is about, and its invariants notice what is taken away."""

from __future__ import annotations

import pytest

from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scheduler.community.coscheduling import Coscheduling

CHURN = loading.from_module(loading.NAMED["coscheduling-churn"])


@pytest.mark.slow
def test_nothing_breaks_and_gangs_run_and_wait():
    campaign = Campaign(plan_of(CHURN, operations=16, fix=("sp930",)))
    reached: dict[str, None] = {}
    for seed in range(10):
        run = campaign.under(seed)
        assert run.result.ok, run.result.reason
        reached.update(dict.fromkeys(s.name for s in CHURN.sometimes if s.reached(run)))
    assert set(reached) == {each.name for each in CHURN.sometimes}


def test_without_permit_gangs_run_in_halves(monkeypatch):
    monkeypatch.setattr(Coscheduling, "permit", lambda *_args: (None, 0))
    campaign = Campaign(plan_of(CHURN, operations=16))
    told = (str(campaign.under(seed).result.reason) for seed in range(40))
    assert any("a gang of a PodGroup is bound wholly or not at all" in each for each in told)
