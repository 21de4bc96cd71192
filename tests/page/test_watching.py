"""A run that is watched: what is seen of it is what was there, and watching changes nothing."""

from __future__ import annotations

import json

import pytest

from controlplane.errors import UsageError
from controlplane.page.model import Model
from controlplane.page.recorded import recorded
from controlplane.page.watching import Watching
from controlplane.scenarios.search import replaying
from tests.page.made import whole
from tests.races.findings import finding


@pytest.fixture(scope="module")
def watched(runs):
    path = runs[0] / "run.rec"
    recording = replaying.load(path)
    run = replaying.replayed(replaying.plan_of_recording(recording, path), recording)
    model = Model()
    watching = Watching(run, model)
    watching.begin()
    result = run.execute("bare")
    watching.end()
    return recording, run, result, model


def test_a_watched_run_has_the_trace_of_one_that_is_not(watched) -> None:
    recording, _, result, _ = watched
    assert result.trace_hash == recording.trace_hash


def test_objects_at_the_last_step_are_those_of_the_store(watched) -> None:
    _, run, result, model = watched
    store = run.cluster.store
    there = {
        f"{prefix}{key}": obj.tree
        for prefix in store.prefixes()
        for key, obj in store.keyspace(prefix).items()
    }
    assert whole(model).objects(result.steps) == there


def test_an_object_is_there_from_the_step_of_its_write_on(broken) -> None:
    read = whole(broken.model)
    for line in broken.log:
        if line.event == "apiserver.write" and line.data["verb"] == "create pods":
            key = f"/registry/pods/{line.obj.partition('/')[2]}"
            assert read.objects(line.step)[key]["metadata"]["uid"] == line.uid
            before = read.objects(line.step - 1).get(key)
            assert before is None or before["metadata"]["uid"] != line.uid


def test_every_choice_that_is_not_dull_stands_at_its_step(watched) -> None:
    recording, _, _, model = watched
    rows = model.choices
    assert len(rows) == recording.choices.deviations()
    told = zip(rows.lists["index"], rows.lists["value"], strict=True)
    assert all(recording.choices[index].value == value for index, value in told)


def test_a_chosen_task_runs_at_the_step_of_its_choice(broken) -> None:
    model = broken.model
    ran = {line.step: f"{line.actor}/{line.task}" for line in broken.log if line.is_step}
    rows = model.choices
    tasks = 0
    for at, step in enumerate(rows.step):
        if model.text(rows.lists["kind"][at]) == "task":
            tasks += 1
            assert ran[step] == model.text(rows.lists["label"][at])
    assert tasks > 10


def test_the_pod_that_the_race_leaves_behind_is_still_in_flight(broken) -> None:
    read = whole(broken.model)
    rows = read.rows["queues"]
    held = {}
    for at in range(len(rows["step"])):
        held[rows["place"][at], rows["uid"][at]] = rows["there"][at]
    flying = {
        read.texts[uid]
        for (place, uid), on in held.items()
        if on and read.texts[place] == "in flight"
    }
    reason = broken.model.run["reason"]
    assert any(uid in reason for uid in flying), (reason, flying)


def test_a_pod_in_flight_is_named_with_the_number_of_its_attempt(broken) -> None:
    read = whole(broken.model)
    rows = read.rows["queues"]
    flights = {
        (read.texts[rows["uid"][at]], rows["attempts"][at]): read.texts[rows["obj"][at]]
        for at, place in enumerate(rows["place"])
        if rows["there"][at] and read.texts[place] == "in flight"
    }
    popped: dict[str, int] = {}
    for line in broken.log:
        if line.event == "scheduler.popped":
            popped[line.uid] = popped.get(line.uid, 0) + 1
            assert flights[line.uid, popped[line.uid]] == line.obj
    assert popped


def test_a_cache_that_lags_says_how_many_writes_it_has_not_seen(broken) -> None:
    read = whole(broken.model)
    rows = read.rows["caches"]
    assert {read.texts[each] for each in rows["server"]} == {"apiserver"}
    pods = [at for at, each in enumerate(rows["resource"]) if read.texts[each] == "/registry/pods/"]
    assert max(rows["behind"][at] for at in pods) >= 1
    assert rows["behind"][pods[-1]] == 0


def test_tables_say_what_the_scheduler_itself_said(broken) -> None:
    """The scores that the log has of an attempt are those of its table."""
    read = whole(broken.model)
    rows = read.rows["attempts"]
    compared = 0
    for line in broken.log:
        if line.event != "scheduler.assumed" or "scores" not in line.data:
            continue
        mine = [
            at
            for at, uid in enumerate(rows["uid"])
            if read.texts[uid] == line.uid and rows["step"][at] <= line.step
        ]
        table = rows["body"][mine[-1]]["final"]
        plugins = [read.texts[each] for each in table["plugins"]]
        nodes = [read.texts[each] for each in table["nodes"]]
        told = {
            node: dict(zip(plugins, table["cells"][at * len(plugins) :], strict=False))
            for at, node in enumerate(nodes)
        }
        assert told == line.data["scores"]
        compared += 1
    assert compared


def test_a_log_alone_says_what_it_lacks(runs) -> None:
    found = recorded(runs[0] / "log.jsonl")
    assert len(found.model) == sum(1 for _ in found.log)
    assert len(found.model.versions) == 0
    assert "no recording (run.rec)" in found.model.lacks[0]


def test_a_recording_alone_is_enough(runs, broken) -> None:
    found = recorded(runs[0] / "run.rec")
    assert found.model.since()["events"] == broken.model.since()["events"]
    assert found.model.lacks == []


def test_a_recording_that_does_not_fit_is_said_and_the_log_shown(runs, tmp_path) -> None:
    (tmp_path / "log.jsonl").write_bytes((runs[0] / "log.jsonl").read_bytes())
    (tmp_path / "run.rec").write_bytes(b"\x93runno recording")
    found = recorded(tmp_path)
    assert "cannot be repeated" in found.model.lacks[0]
    assert len(found.model) > 100


def test_a_recording_of_another_run_is_not_mixed_with_the_log(runs, tmp_path) -> None:
    (tmp_path / "log.jsonl").write_bytes((runs[0] / "log.jsonl").read_bytes())
    (tmp_path / "run.rec").write_bytes((runs[1] / "run.rec").read_bytes())
    found = recorded(tmp_path)
    assert "of another run than the log beside it" in found.model.lacks[0]
    assert len(found.model.versions) == 0


@pytest.mark.slow
@pytest.mark.parametrize("race", ["59848", "109429", "651", "138036"])
def test_runs_of_every_sort_repeat_while_they_are_watched(race, tmp_path) -> None:
    """Several servers, kubelets, storage, controllers."""
    campaign, found = finding(race)
    campaign.under(found.seed, "bare").save(tmp_path)
    seen = recorded(tmp_path)
    assert seen.model.lacks == []
    assert len(seen.model.versions) > 10
    assert len(seen.model.caches) > 0


def spoilt(runs, folder, **changes) -> None:
    """The run's folder with another event in the midst of its log."""
    lines = (runs[0] / "log.jsonl").read_text().splitlines()
    event = {**json.loads(lines[100]), "event": "recv", **changes}
    lines.insert(101, json.dumps(event))
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("changes", [{"step": 3}, {"t": 1e9}])
def test_events_out_of_order_are_left_out_and_counted(runs, broken, tmp_path, changes) -> None:
    spoilt(runs, tmp_path, **changes)
    found = recorded(tmp_path)
    assert "events of the log that are out of order, left out: 1" in found.model.lacks
    assert len(found.model) == len(broken.model)


@pytest.mark.parametrize("changes", [{"step": -7}, {"t": -1}, {"t": 1e300}])
def test_lines_with_impossible_numbers_are_left_out_and_counted(
    runs, broken, tmp_path, changes
) -> None:
    spoilt(runs, tmp_path, **changes)
    found = recorded(tmp_path)
    assert any("1 line is no event, first line 102" in each for each in found.model.lacks)
    assert len(found.model) == len(broken.model)


@pytest.mark.parametrize("with_recording", [False, True])
def test_a_run_too_long_for_a_page_is_refused(runs, tmp_path, with_recording) -> None:
    spoilt(runs, tmp_path, step=10**12)
    if with_recording:
        (tmp_path / "run.rec").write_bytes((runs[0] / "run.rec").read_bytes())
    with pytest.raises(UsageError, match="a page shows runs of up to 2,000,000 events"):
        recorded(tmp_path)
