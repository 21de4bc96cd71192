"""The churn of Jobs under Kueue: it holds, reaches what it is about, and notices what is taken away."""

from __future__ import annotations

import pytest

from controlplane.gates import CATALOGUE
from controlplane.kueue.jobs.reconciler import JobController
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
