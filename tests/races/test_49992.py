"""A watch from before the server's list, both ways: an event is missed without the fix, never with it."""

from __future__ import annotations

import pytest

from actors.recording import from_bytes
from controlplane import __version__
from controlplane.chaos import campaign as campaigns
from controlplane.chaos.campaign import Campaign
from controlplane.gates import fix_gates
from controlplane.races import catalogue

RACE = catalogue.find("49992")
SCHEDULES = 150


def campaign(*without: str, **options: bool) -> Campaign:
    return Campaign(
        "race 49992", RACE.build, fix_gates(without=without), {**RACE.options, **options}
    )


@pytest.fixture(scope="module")
def finding():
    found = campaign("49992").explore(SCHEDULES)
    assert found.findings, f"nothing broke in {found.schedules} schedules"
    return found.findings[0]


def test_without_the_fix_a_cache_stays_wrong(finding):
    assert finding.result.verdict == "violated"
    assert "the cache " in finding.result.reason


def test_with_the_fix_no_schedule_breaks(finding):
    assert campaign().explore(SCHEDULES).verdicts == {"quiescent": SCHEDULES}
    assert campaign().explore(1, seed=finding.seed).verdicts == {"quiescent": 1}


def test_a_client_that_begins_with_a_stream_misses_events_all_the_same():
    """The gap is where the watch is opened again, not where the state comes from."""
    assert campaign("49992", **{"watch-list": True}).explore(SCHEDULES).findings


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_the_recording_of_the_finding_replays(finding, driver):
    data = campaign("49992").recording(finding).to_bytes()
    recording = from_bytes(data, "miss.rec", package=__version__)
    again = campaigns.of_recording(recording, lambda number: catalogue.find(number).build)
    _, result = campaigns.replay(again, recording, driver)
    assert (result.verdict, result.reason) == (finding.result.verdict, finding.result.reason)
    assert result.trace_hash == recording.trace_hash
