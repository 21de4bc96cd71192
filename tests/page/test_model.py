from __future__ import annotations

import json

from controlplane.logs.reading import Line
from controlplane.page.model import FORMAT, Model, encode
from tests.page.made import ReadBack, whole


def line(step: int, event: str = "recv", **fields) -> Line:
    return Line(step, step / 10, "apiserver", "main", event, **fields)


def secret(value: str, version: int = 1) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "resourceVersion": str(version)},
        "data": {"password": value},
    }


def test_a_part_has_only_what_came_after_its_step() -> None:
    model = Model(name="run")
    model.add_line(line(1))
    model.add_version(1, "/registry/pods/a", 7, "Pod/a", "u", {"kind": "Pod", "a": 1})
    model.add_line(line(2, "list pods"))
    part = model.since(1)
    assert part["format"] == FORMAT
    assert (part["after"], part["step"]) == (1, 2)
    assert part["events"]["step"] == [2]
    assert part["versions"]["step"] == []
    assert part["texts"][1] == ["list pods"]
    assert model.since(2)["events"]["step"] == []


def test_parts_one_after_the_other_are_the_whole(broken) -> None:
    model, grown, asked = Model(), ReadBack(), -1
    for each in broken.log:
        if each.step > max(model.step, asked + 40):  # all of the step before is known by now
            grown.add(model.since(asked))
            asked = model.step
        model.add_line(each)
        if each.event == "apiserver.write" and each.rv:
            model.add_version(each.step, each.obj, each.rv, each.obj, each.uid, {"rv": each.rv})
    grown.add(model.since(asked))
    everything = whole(model)
    assert grown.rows == everything.rows
    assert (grown.texts, grown.tasks) == (everything.texts, everything.tasks)
    assert asked > 40


def test_versions_are_kept_as_small_differences() -> None:
    model = Model()
    big = {"kind": "Pod", "spec": {"text": "x" * 5000}, "status": {"phase": "Pending"}}
    model.add_version(1, "k", 1, "Pod/a", "u", big)
    model.add_version(2, "k", 2, "Pod/a", "u", {**big, "status": {"phase": "Running"}})
    assert len(encode(model.since(1)["versions"])) < 200
    assert whole(model).objects(2)["k"]["status"] == {"phase": "Running"}


def test_an_object_that_comes_again_is_whole_again() -> None:
    model = Model()
    model.add_version(1, "k", 1, "Pod/a", "u", {"kind": "Pod", "n": 1})
    model.add_version(2, "k", 2, "Pod/a", "u", None)
    model.add_version(3, "k", 3, "Pod/a", "v", {"kind": "Pod", "n": 2})
    read = whole(model)
    assert read.objects(2) == {}
    assert read.objects(3) == {"k": {"kind": "Pod", "n": 2}}


def test_data_of_secrets_never_enter() -> None:
    model = Model()
    model.add_version(1, "k", 1, "Secret/s", "u", secret("aHVudGVyMg=="))
    model.add_version(2, "k", 2, "Secret/s", "u", secret("b3RoZXIgb25l", 2))
    text = encode(model.since()).decode()
    assert "aHVudGVyMg" not in text
    assert "b3RoZXIgb25l" not in text
    assert "REDACTED" in text


def test_tokens_are_cut_from_objects_and_events() -> None:
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
    model = Model()
    model.add_line(line(1, "apiserver.panic", level="error", data={"error": token}))
    model.add_version(1, "k", 1, "ConfigMap/c", "u", {"kind": "ConfigMap", "data": {"t": token}})
    assert token not in encode(model.since()).decode()


def test_an_event_has_its_words_and_the_run_its_verdict() -> None:
    model = Model(name="run")
    model.add_line(line(0, "log", level="debug", data={"scenario": "s", "seed": 3}))
    model.add_line(
        line(4, "message", level="trace", cause=(2,), data={"from": "user", "message": "get pods"})
    )
    model.add_line(line(5, "verdict", level="info", data={"verdict": "violated", "reason": "I1"}))
    part = json.loads(encode(model.since()))
    texts = part["texts"][1]
    assert texts[part["events"]["said"][1]] == "takes get pods from user"
    assert part["events"]["cause"][1] == 4 - 2 + 1
    assert part["run"]["seed"] == 3
    assert part["run"]["verdict"] == "violated"
    assert part["run"]["t_ns"] == 500_000_000


def test_a_long_part_is_told_in_pieces_that_are_the_whole(broken) -> None:
    model, grown, asked, pieces = broken.model, ReadBack(), -1, 0
    more = True
    while more:
        piece = model.since(asked, 20, (len(grown.texts), len(grown.tasks)))
        assert piece["step"] > asked
        assert len(piece["events"]["step"]) > 20 or not piece["more"]
        grown.add(piece)
        asked, more, pieces = piece["step"], piece["more"], pieces + 1
    assert pieces > 5
    assert asked == model.step
    assert grown.rows == whole(model).rows
    assert grown.texts == whole(model).texts
