"""The first race: both forms of the fix, all invariants, hints off. See `test_catalogue` for what all races share."""

from __future__ import annotations

import pytest

from actors import EventLog, Replay
from controlplane.races import catalogue
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign
from tests.races.findings import finding

RACE = catalogue.find("138324")
SCHEDULES = 60


def campaign(**asked) -> Campaign:
    return Campaign(plan_of(RACE.scenario, **asked))


@pytest.mark.slow
def test_the_other_form_of_the_fix_holds_too():
    _, found = finding(RACE.number)
    other = campaign(fix=["138324=uid-threading"])
    assert other.explore(SCHEDULES).verdicts == {"quiescent": SCHEDULES}
    assert other.explore(1, seed=found.seed).verdicts == {"quiescent": 1}


@pytest.mark.slow
def test_the_merged_fix_holds_every_invariant_of_the_queue():
    found = campaign(all_invariants=True).explore(SCHEDULES)
    assert found.verdicts == {"quiescent": SCHEDULES}


def test_the_first_revision_may_requeue_a_pod_that_is_in_flight():
    found = campaign(fix=["138324=uid-threading"], all_invariants=True).explore(SCHEDULES)
    assert found.findings
    assert "I5" in found.findings[0].result.reason


@pytest.mark.slow
def test_without_queueing_hints_there_is_no_ledger_to_leak():
    found = campaign(without_fix=["138324"], queueing_hints=False).explore(SCHEDULES)
    assert found.verdicts == {"quiescent": SCHEDULES}


def test_a_replay_under_another_gate_diverges_or_settles_but_never_leaks():
    _, found = finding(RACE.number)
    run = Execution(RACE.repaired(), Replay(found.result.choices), log=EventLog(keep=False))
    assert run.execute("bare").verdict in {"diverged", "quiescent"}


def test_with_the_whole_control_plane_of_an_older_release_it_leaks_too():
    found = campaign(release="1.33").explore(RACE.schedules)
    assert "in flight for ever" in found.findings[0].result.reason
