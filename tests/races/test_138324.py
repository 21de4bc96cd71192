"""The first race, both ways: found without the fix by schedules nobody aims, absent with either form of it."""

from __future__ import annotations

import pytest

from actors import EventLog, Replay
from actors.recording import from_bytes
from controlplane import __version__
from controlplane.chaos import campaign as campaigns
from controlplane.chaos.campaign import Campaign
from controlplane.gates import fix_gates
from controlplane.races import catalogue

RACE = catalogue.find("138324")
SCHEDULES = 150


def campaign(without=(), variants=(), **options) -> Campaign:
    gates = fix_gates(without=tuple(without), variants=tuple(variants))
    return Campaign("race 138324", RACE.build, gates, {**RACE.options, **options})


@pytest.fixture(scope="module")
def finding():
    found = campaign(without=["138324"]).explore(SCHEDULES * 4)
    assert found.findings, f"nothing broke in {found.schedules} schedules"
    return found.findings[0]


def test_without_the_fix_random_schedules_find_the_leak(finding):
    assert finding.result.verdict == "violated"
    assert "no longer exists but is in flight for ever" in finding.result.reason


@pytest.mark.parametrize(
    "variants", [(), ("138324=uid-threading",)], ids=["early-return", "uid-threading"]
)
def test_with_either_form_of_the_fix_no_schedule_breaks(variants, finding):
    found = campaign(variants=variants).explore(SCHEDULES)
    assert found.verdicts == {"quiescent": SCHEDULES}
    again = campaign(variants=variants).explore(1, seed=finding.seed)
    assert again.verdicts == {"quiescent": 1}


def test_the_merged_fix_holds_every_invariant_of_the_queue():
    found = campaign(**{"all-invariants": True}).explore(SCHEDULES)
    assert found.verdicts == {"quiescent": SCHEDULES}


def test_the_first_revision_may_requeue_a_pod_that_is_in_flight():
    found = campaign(variants=["138324=uid-threading"], **{"all-invariants": True}).explore(
        SCHEDULES
    )
    assert found.findings
    assert "I5" in found.findings[0].result.reason


def test_without_queueing_hints_there_is_no_ledger_to_leak():
    found = campaign(without=["138324"], **{"queueing-hints": False}).explore(SCHEDULES)
    assert found.verdicts == {"quiescent": SCHEDULES}


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_the_recording_of_the_finding_replays(finding, driver):
    unfixed = campaign(without=["138324"])
    recording = from_bytes(unfixed.recording(finding).to_bytes(), "leak.rec", package=__version__)
    again = campaigns.of_recording(recording, lambda number: catalogue.find(number).build)
    _, result = campaigns.replay(again, recording, driver)
    assert (result.verdict, result.reason) == (finding.result.verdict, finding.result.reason)
    assert result.trace_hash == recording.trace_hash


def test_a_replay_under_another_gate_diverges_or_settles_but_never_leaks(finding):
    fixed = campaign()
    world = fixed.build(
        fixed.gates, Replay(finding.result.choices), EventLog(keep=False), fixed.options
    ).world
    assert world.run("bare").verdict in {"diverged", "quiescent"}
