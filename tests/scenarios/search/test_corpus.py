"""A search that is kept in a folder goes on where it ended, and has every different failure once."""

from __future__ import annotations

import json

import pytest

from controlplane.errors import UsageError
from controlplane.races import catalogue
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import parallel, replaying
from controlplane.scenarios.search.corpus import Corpus

WALK = "random-walk"


def broken(**options):
    return plan_of(catalogue.find("138324").scenario, without_fix=("138324",), **options)


def go_on(folder, plan, schedules, **how):
    corpus = Corpus(folder, plan, WALK, 0)
    limits = parallel.Limits(schedules, **how)
    earlier = parallel.Earlier(corpus.pieces, corpus.tally)
    parallel.explore(plan, WALK, limits, jobs=1, earlier=earlier, heard=corpus.note)
    return corpus


@pytest.mark.slow
def test_two_halves_are_one_whole(tmp_path) -> None:
    go_on(tmp_path / "halves", broken(), 96, failures=None)
    go_on(tmp_path / "halves", broken(), 48, failures=None)
    go_on(tmp_path / "whole", broken(), 144, failures=None)
    halves, whole = (
        json.loads((tmp_path / name / "campaign.json").read_text()) for name in ("halves", "whole")
    )
    assert halves == whole
    assert whole["schedules"] == 144
    assert (tmp_path / "halves/classes.txt").read_text() == (
        tmp_path / "whole/classes.txt"
    ).read_text()


@pytest.mark.slow
def test_a_failure_has_one_place_and_a_recording_that_fails_the_same_way(tmp_path) -> None:
    corpus = go_on(tmp_path, broken(), 240, failures=None)
    failing = corpus.tally.failing
    assert failing
    assert sum(each.times for each in failing) == corpus.tally.verdicts["violated"]
    for each in failing:
        recording = replaying.load(corpus.place(each))
        again = replaying.replayed(replaying.plan_of_recording(recording, tmp_path), recording)
        result = again.execute("bare")
        assert result.trace_hash == recording.trace_hash
        assert result.reason.partition(":")[0] == each.reason.partition(":")[0]


@pytest.mark.slow
def test_only_a_new_failure_ends_the_search(tmp_path) -> None:
    first = go_on(tmp_path, broken(), 960, failures=1)
    assert first.known == 1
    again = go_on(tmp_path, broken(), 96, failures=1)
    assert again.tally.schedules == first.tally.schedules + 96 or again.known > 1


@pytest.mark.slow
def test_what_was_half_written_when_the_search_was_killed_does_not_count(tmp_path) -> None:
    corpus = go_on(tmp_path, broken(), 48, failures=None)
    with (tmp_path / "classes.txt").open("a") as file:
        file.write("0123")
    again = Corpus(tmp_path, broken(), WALK, 0)
    assert again.tally.classes == corpus.tally.classes
    assert (tmp_path / "classes.txt").read_text().split() == list(corpus.tally.classes)


@pytest.mark.slow
def test_the_folder_of_another_search_is_refused(tmp_path) -> None:
    go_on(tmp_path, broken(), 48, failures=None)
    others = {
        "strategy": (broken(), "pos"),
        "gates": (plan_of(catalogue.find("138324").scenario), WALK),
        "options": (broken(nodes=3), WALK),
    }
    for named, (plan, strategy) in others.items():
        with pytest.raises(UsageError, match=f"another search: its {named} is"):
            Corpus(tmp_path, plan, strategy, 0)
    (tmp_path / "campaign.json").write_text("{}")
    with pytest.raises(UsageError, match="no campaign that can go on"):
        Corpus(tmp_path, broken(), WALK, 0)


def test_all_files_of_a_corpus_are_for_their_owner_alone(tmp_path) -> None:
    go_on(tmp_path / "kept", broken(), 8)
    go_on(tmp_path / "kept", broken(), 8)
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert {"classes.txt", "campaign.json"} <= {path.name for path in files}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
