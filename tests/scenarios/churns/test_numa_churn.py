"""The churn on nodes with NUMA zones holds with the cache of the plugin, and reaches what it is about."""

from __future__ import annotations

from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign

CHURN = loading.from_module(loading.NAMED["numa-churn"])


def test_with_the_cache_nothing_is_placed_that_a_kubelet_refuses():
    campaign = Campaign(plan_of(CHURN))
    reached: dict[str, None] = {}
    for seed in range(12):
        run = campaign.under(seed)
        assert run.result.ok, run.result.reason
        reached.update(dict.fromkeys(s.name for s in CHURN.sometimes if s.reached(run)))
    assert set(reached) == {each.name for each in CHURN.sometimes}
