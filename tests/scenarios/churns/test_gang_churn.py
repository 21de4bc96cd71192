"""The churn of gangs: it holds, reaches what it is about, and its invariants notice what is taken away."""

from __future__ import annotations

import pytest

from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scheduler.plugins.gang_scheduling import GangScheduling
from controlplane.scheduler.state.pod_groups import PodGroupStates

CHURN = loading.from_module(loading.NAMED["gang-churn"])


def broken(seeds: int, wanted: str, **options: int) -> bool:
    """Return whether one of these runs broke for this reason."""
    campaign = Campaign(plan_of(CHURN, **options))
    for seed in range(seeds):
        result = campaign.under(seed).result
        if not result.ok and wanted in str(result.reason):
            return True
    return False


@pytest.mark.slow
def test_nothing_breaks_and_gangs_run_and_wait():
    campaign = Campaign(plan_of(CHURN, operations=16))
    reached: dict[str, None] = {}
    for seed in range(12):
        run = campaign.under(seed)
        assert run.result.ok, run.result.reason
        reached.update(dict.fromkeys(s.name for s in CHURN.sometimes if s.reached(run)))
    assert set(reached) == {each.name for each in CHURN.sometimes}


def test_without_permit_gangs_run_in_halves(monkeypatch):
    monkeypatch.setattr(GangScheduling, "permit", lambda *_args: (None, 0))
    assert broken(40, "a gang is bound wholly or not at all", operations=16)


def test_a_scheduler_that_does_not_hear_of_members_that_go_is_noticed(monkeypatch):
    monkeypatch.setattr(PodGroupStates, "remove", lambda *_args: None)
    assert broken(20, "the scheduler knows the pods of each group", operations=16)
