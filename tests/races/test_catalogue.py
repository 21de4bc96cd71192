"""Every race of the catalogue: found by search without the fix, absent with it, and what was found replays."""

from __future__ import annotations

import pytest

from actors.recording import from_bytes
from controlplane import __version__
from controlplane.errors import UsageError
from controlplane.gates import CATALOGUE
from controlplane.races import catalogue
from controlplane.scenarios.search import loading, replaying
from controlplane.scenarios.search.exploring import Campaign
from tests.races.findings import EACH_RACE, FOUND_AT, QUICK, finding

FEW = 6
MANY = 80
RACES = catalogue.numbers()


@pytest.mark.nightly
@pytest.mark.parametrize("number", FOUND_AT)
def test_no_seed_before_the_known_one_finds_it(number):
    race = catalogue.find(number)
    found = Campaign(race.unfixed()).explore(race.schedules)
    assert found.findings[0].seed == FOUND_AT[number]


@pytest.mark.parametrize("number", EACH_RACE, scope="module")
def test_search_finds_it_without_the_fix(number):
    _, found = finding(number)
    assert found.result.verdict == "violated", found.result.reason


@pytest.mark.slow
@pytest.mark.parametrize("number", RACES, scope="module")
def test_with_the_fix_no_schedule_breaks(number):
    race = catalogue.find(number)
    clean(race, min(race.schedules, FEW))
    _, found = finding(number)
    same = Campaign(race.repaired()).explore(1, seed=found.seed)
    assert list(same.verdicts) == ["quiescent"], same.findings[0].result.reason


@pytest.mark.nightly
@pytest.mark.parametrize("number", [each for each in RACES if catalogue.find(each).schedules > FEW])
def test_with_the_fix_nothing_breaks_in_many_schedules(number):
    """As many as it takes to find it without, up to a bound; `race power` measures without one.

    The test above has run the first of them.
    """
    race = catalogue.find(number)
    clean(race, min(race.schedules, MANY) - FEW, seed=FEW)


def clean(race, schedules, seed=0):
    seen = Campaign(race.repaired()).explore(schedules, seed=seed)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.parametrize("driver", ["bare", "trio"])
@pytest.mark.parametrize("number", EACH_RACE, scope="module")
def test_the_recording_of_a_finding_replays(number, driver, tmp_path):
    campaign, found = finding(number)
    recording = from_bytes(campaign.recording(found).to_bytes(), "found.rec", package=__version__)
    plan = replaying.plan_of_recording(recording, tmp_path / "found.rec")
    assert plan.options.keys() == campaign.plan.options.keys()
    result = replaying.replayed(plan, recording).execute(driver)
    assert (result.verdict, result.reason) == (found.result.verdict, found.result.reason)
    assert result.trace_hash == recording.trace_hash


def test_the_quick_races_are_of_every_component():
    assert set(RACES) >= QUICK
    components = {catalogue.find(number).component for number in RACES}
    assert {catalogue.find(number).component for number in QUICK} == components


def test_every_fix_gate_has_its_entry():
    assert CATALOGUE.keys() <= set(RACES)


@pytest.mark.parametrize("number", RACES)
def test_an_entry_says_all_there_is_to_say(number):
    race = catalogue.find(number)
    assert race.issue or "not reported" in race.releases
    for said in (race.title, race.releases, race.component, race.story, race.invariant):
        assert said
    assert race.number == number
    assert race.scenario.name == f"race {number}"
    assert race.scenario.origin == loading.from_module(f"controlplane.races.r{number}").origin
    if race.broken is None:
        assert race.issue == CATALOGUE[number].issue
        assert race.component == CATALOGUE[number].component


def test_a_race_is_found_by_the_number_of_its_issue():
    by_issue: dict[str, list[str]] = {}
    for race in catalogue.all_races():
        if race.issue:
            by_issue.setdefault(race.issue, []).append(race.number)
    alone = {issue: found for issue, found in by_issue.items() if issue not in catalogue.numbers()}
    assert alone
    for issue, found in alone.items():
        if len(found) == 1:
            assert catalogue.find(issue).number == found[0]
        else:
            with pytest.raises(UsageError, match="has several races"):
                catalogue.find(issue)


def test_an_unknown_race_is_answered_with_the_nearest_numbers():
    known = catalogue.numbers()[0]
    with pytest.raises(UsageError, match=f"did you mean .*{known}"):
        catalogue.find(known + "0")
