"""The churn of Jobs under Kueue: it holds, reaches what it is about, and notices what is taken away."""

from __future__ import annotations

import pytest

from controlplane.gates import CATALOGUE
from controlplane.kueue.jobs.reconciler import JobController
from controlplane.kueue.placement.elastic_ungater import ElasticUngater
from controlplane.kueue.placement.pods import pods_of
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign

OPEN = tuple(
    gate.number for gate in CATALOGUE.values() if gate.component == "kueue" and not gate.fixed_in
)
CHURN = loading.from_module(loading.NAMED["kueue-jobs-churn"])


def untouched(*_args: object) -> object:
    """A step that does nothing."""
    return None
    yield


@pytest.mark.slow
def test_nothing_breaks_and_jobs_run_and_wait() -> None:
    campaign = Campaign(plan_of(CHURN, fix=OPEN))
    found: dict[str, None] = {}
    for seed in range(5):
        run = campaign.under(seed)
        assert run.result.ok, run.result.reason
        found.update(dict.fromkeys(s.name for s in CHURN.sometimes if s.reached(run)))
    assert set(found) == {each.name for each in CHURN.sometimes}


@pytest.mark.slow
def test_a_lost_workload_that_stops_no_job_is_noticed(monkeypatch) -> None:
    monkeypatch.setattr(JobController, "_stop", untouched)
    campaign = Campaign(plan_of(CHURN, fix=OPEN, operations=16))
    told = [str(campaign.under(seed).result.reason) for seed in range(12)]
    assert any("no job runs without admission" in each for each in told), told


@pytest.mark.parametrize(
    ("method", "law"),
    [
        ("_start", "a job whose workload is admitted runs"),
        ("_without_workload", "a job has one workload"),
    ],
)
def test_a_step_of_the_reconciler_that_does_nothing_is_noticed(monkeypatch, method, law) -> None:
    monkeypatch.setattr(JobController, method, untouched)
    campaign = Campaign(plan_of(CHURN, fix=OPEN))
    told = [str(campaign.under(seed).result.reason) for seed in range(3)]
    assert any(law in each for each in told), told


def elastic_reasons(seeds: int, **options) -> list[str]:
    """Return the reasons of the failed runs with elastic Jobs."""
    given = {"fix": OPEN, "operations": 20, **options}
    campaign = Campaign(plan_of(CHURN, elastic=True, **given))
    results = (campaign.under(seed).result for seed in range(seeds))
    return [str(each.reason) for each in results if not each.ok]


@pytest.mark.slow
def test_nothing_breaks_where_jobs_grow_and_shrink() -> None:
    assert elastic_reasons(5, crashes=True) == []


@pytest.mark.slow
def test_pods_that_are_let_go_uncounted_are_noticed(monkeypatch) -> None:
    def all_held(self, active):
        return [pod for pod in pods_of(self.reader, active) if pod["spec"].get("schedulingGates")]

    monkeypatch.setattr(ElasticUngater, "_pods", all_held)
    told = elastic_reasons(20)
    assert any("no more pods of an elastic job are let go" in each for each in told), told


@pytest.mark.slow
def test_quota_of_a_job_that_grows_is_given_away_once_more_without_the_repair() -> None:
    told = elastic_reasons(32, crashes=True, fix=tuple(each for each in OPEN if each != "here13"))
    assert any("uses more quota than it has" in each for each in told), told
