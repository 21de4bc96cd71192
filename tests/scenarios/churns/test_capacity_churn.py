"""The churn under ElasticQuotas: it holds, reaches what it is about, and its invariant notices what is taken away."""

from __future__ import annotations

import pytest

from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scheduler.community.capacity_scheduling import CapacityScheduling

CHURN = loading.from_module(loading.NAMED["capacity-churn"])


@pytest.mark.slow
def test_nothing_breaks_and_namespaces_borrow():
    campaign = Campaign(plan_of(CHURN, operations=20, crashes=True, fix=("here3",)))
    reached: dict[str, None] = {}
    for seed in range(15):
        run = campaign.under(seed)
        assert run.result.ok, run.result.reason
        reached.update(dict.fromkeys(s.name for s in CHURN.sometimes if s.reached(run)))
    assert set(reached) == {each.name for each in CHURN.sometimes}


def test_a_plugin_that_does_not_count_what_it_reserves_is_noticed(monkeypatch):
    monkeypatch.setattr(CapacityScheduling, "reserve", lambda *_args: None)
    campaign = Campaign(plan_of(CHURN, operations=20))
    told = (str(campaign.under(seed).result.reason) for seed in range(60))
    assert any("no namespace uses more than its ElasticQuota allows" in each for each in told)
