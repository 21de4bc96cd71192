"""The churn of Kueue's workloads: it holds, reaches what it is about, and notices what is taken away."""

from __future__ import annotations

import pytest

from controlplane.gates import CATALOGUE
from controlplane.kueue.cache.quota import Node
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.process.wiring import Wiring
from controlplane.kueue.queues.cluster_queue import ClusterQueue
from controlplane.kueue.queues.manager import QueueManager
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign

OPEN = tuple(
    gate.number for gate in CATALOGUE.values() if gate.component == "kueue" and not gate.fixed_in
)
"""Races that stand open upstream: the churn finds them."""
CHURN = loading.from_module(loading.NAMED["kueue-churn"])


def broken(seeds: int, wanted: str, **options: int) -> bool:
    """Return whether one of these runs broke for this reason."""
    campaign = Campaign(plan_of(CHURN, fix=OPEN, **options))
    for seed in range(seeds):
        result = campaign.under(seed).result
        if not result.ok and wanted in str(result.reason):
            return True
    return False


def reached(seeds: int, *, fair: bool, **options: int) -> set[str]:
    """Return what was reached in runs none of which may break."""
    options["fair_sharing"] = fair
    campaign = Campaign(plan_of(CHURN, operations=24, users=3, fix=OPEN, **options))
    found: dict[str, None] = {}
    for seed in range(seeds):
        run = campaign.under(seed)
        assert run.result.ok, run.result.reason
        found.update(dict.fromkeys(s.name for s in CHURN.sometimes if s.reached(run)))
    return set(found)


@pytest.mark.slow
@pytest.mark.parametrize("fair", [False, True])
def test_nothing_breaks(fair: bool) -> None:
    assert {"a workload is admitted", "a workload waits"} <= reached(4, fair=fair)


@pytest.mark.slow
def test_nothing_breaks_when_kueue_crashes() -> None:
    assert "a workload is admitted" in reached(4, fair=False, crashes=True)


@pytest.mark.slow
def test_nothing_breaks_when_another_replica_leads() -> None:
    assert "a workload is admitted" in reached(4, fair=False, crashes=True, replicas=2)


@pytest.mark.slow
def test_nothing_breaks_in_nested_cohorts_with_limits() -> None:
    assert "a workload is admitted" in reached(4, fair=False, limits=True)


@pytest.mark.slow
@pytest.mark.parametrize("fair", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_nothing_breaks_and_workloads_are_preempted(fair: bool) -> None:
    assert reached(24, fair=fair) == {each.name for each in CHURN.sometimes}


def test_quota_that_is_not_looked_at_is_given_twice(monkeypatch) -> None:
    monkeypatch.setattr(ClusterQueueSnapshot, "available", lambda *_: 1 << 40)
    monkeypatch.setattr(ClusterQueueSnapshot, "potential", lambda *_: 1 << 40)
    assert broken(3, "uses more quota than it has", operations=24)


@pytest.mark.slow
def test_a_release_that_asks_for_no_flush_leaves_workloads_parked(monkeypatch) -> None:
    monkeypatch.setattr(QueueManager, "notify", lambda *_: None)
    assert broken(40, "no workload that fits is parked", operations=24)


def test_a_workload_that_is_not_taken_back_is_lost(monkeypatch) -> None:
    monkeypatch.setattr(ClusterQueue, "requeue", lambda *_: False)
    assert broken(4, "Kueue knows which workloads wait", operations=24)


@pytest.mark.slow
def test_counters_that_are_not_brought_up_to_date_are_noticed(monkeypatch) -> None:
    monkeypatch.setattr(Wiring, "count_again", lambda *_: None)
    assert broken(6, "the counts of a ClusterQueue are right", operations=24)


def test_a_limit_of_borrowing_that_is_not_looked_at_is_noticed(monkeypatch) -> None:
    monkeypatch.setattr(Node, "available_in_tree", lambda *_: 1 << 40)
    assert broken(6, "no queue and no cohort uses more quota", operations=24, limits=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "law"),
    [
        ("kq3612", "a workload does not wait for a stop that is over"),
        ("kq10518", "Kueue knows which workloads wait"),
        ("here12", "an admitted workload is not held back"),
    ],
)
def test_what_goes_wrong_when_another_replica_leads_is_found(gate: str, law: str) -> None:
    others = tuple(number for number in OPEN if number != gate)
    off = (gate,) if CATALOGUE[gate].fixed_in else ()
    campaign = Campaign(
        plan_of(CHURN, fix=others, without_fix=off, crashes=True, replicas=2, operations=24)
    )
    assert any(law in str(campaign.under(seed).result.reason) for seed in range(60))
