"""The churn of all systems together: it holds, finds what stands open, and notices what is taken away."""

from __future__ import annotations

import pytest
from attrs import evolve

from controlplane.controllers.workloads.daemon.controller import DaemonSetController
from controlplane.decisions import immediate
from controlplane.descheduler.policy import policy_of
from controlplane.races.power import every_fix
from controlplane.scenarios.churns import system_churn, system_world
from controlplane.scenarios.churns.system_world import BESIDE
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.rest import CALM, pods_settle
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign

CHURN = loading.from_module(loading.NAMED["system-churn"])


def campaign(systems: str, **options) -> Campaign:
    return Campaign(plan_of(CHURN, systems=systems, **options), "portfolio")


@pytest.mark.slow
@pytest.mark.parametrize("systems", BESIDE)
def test_with_every_fix_on_nothing_breaks(systems) -> None:
    seen = campaign(systems, fix=every_fix()).explore(4, seed=20)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.nightly
@pytest.mark.parametrize("systems", BESIDE)
def test_with_every_fix_on_many_schedules_break_nothing(systems) -> None:
    seen = campaign(systems, fix=every_fix()).explore(100, seed=30_000)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.slow
def test_it_finds_a_set_whose_expected_pods_never_come() -> None:
    broken = Campaign(plan_of(CHURN, systems="nothing")).under(37).result
    assert broken.reason.startswith("workloads are complete at rest: DaemonSet default/agent")
    mended = Campaign(plan_of(CHURN, systems="nothing", fix=("72155",))).under(37).result
    assert mended.ok, mended.reason


@pytest.mark.slow
def test_a_controller_that_does_nothing_is_noticed(monkeypatch) -> None:
    monkeypatch.setattr(DaemonSetController, "sync", immediate(lambda *_: None))
    reasons = [
        Campaign(plan_of(CHURN, systems="nothing", fix=every_fix())).under(seed).result.reason
        for seed in range(35, 40)
    ]
    assert any("DaemonSet default/agent" in each for each in reasons), reasons


async def _undone(user) -> None:
    tree = system_churn._replicated("Deployment", "a", 1, "250m")
    await user.create(tree)
    await user.sleep(5)
    user.notes[CALM] = {}
    for _ in range(8):
        for name in [each.name for each in user.run.objects("/registry/pods/")]:
            await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
        await user.sleep(5)


@pytest.mark.slow
@pytest.mark.parametrize(("most", "holds"), [(5, False), (20, True)])
def test_pods_that_are_deleted_again_and_again_are_noticed(most, holds) -> None:
    scenario = evolve(
        CHURN, workload=_undone, invariants=(pods_settle(most),), sometimes=(), origin=None
    )
    result = Campaign(plan_of(scenario, systems="nothing")).under(0).result
    assert result.ok is holds, result.reason


def test_the_policy_of_the_descheduler_is_one_that_upstream_takes() -> None:
    assert policy_of(system_world.sound_policy()).profiles
