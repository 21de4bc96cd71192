"""The harness finds no difference between our server and itself, and finds and shrinks one that is planted."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import evolve

from tests.differential import openapi, wire
from tests.differential.__main__ import main
from tests.differential.asking import HttpServer, place_of
from tests.differential.comparing import Report, Verdict, judged
from tests.differential.corpus import Conversation, corpus
from tests.differential.generating import class_names, conversation, conversations
from tests.differential.mutating import Grammar
from tests.differential.ours import InProcess
from tests.differential.served import served
from tests.differential.shrinking import shrunk
from tests.golden.answer_crud import Replay

Json = Any


@cache
def grammar() -> Grammar:
    """The grammar, with the schemas that our server serves."""
    replay = Replay({"requests": []})
    return Grammar(corpus(), openapi.read(lambda path: _get(replay, path)))


def _get(replay: Replay, path: str) -> Json:
    result = replay.ask({"method": "GET", "path": path.partition("?")[0]})
    text = getattr(result, "text", None)
    return json.loads(text) if text else result.tree  # type: ignore[union-attr]


class Altered:
    """Our server, but one that loses the data of config maps with a label `a`."""

    def ask(self, told: Conversation) -> Json:
        found = InProcess().ask(told)
        for each in found["responses"]:
            body = each.get("body")
            if isinstance(body, dict) and body.get("kind") == "ConfigMap":
                if "a" in (body["metadata"].get("labels") or {}):
                    body.pop("data", None)
        return found


class Fickle:
    """A server that answers differently each time."""

    def __init__(self) -> None:
        self.times = 0

    def ask(self, told: Conversation) -> Json:
        self.times += 1
        answer = {"status": 200, "headers": {}, "body": self.times}
        return {"responses": [answer for _ in told.steps], "rvOrder": [], "values": {}}


def verdict_of(told: Conversation) -> Verdict:
    """Judge the altered server."""
    return judged(told, InProcess(), InProcess(), Altered())


def test_the_same_seed_gives_the_same_conversations() -> None:
    names = class_names(grammar())
    told = [list(conversations(7, 2 * len(names), names, grammar())) for _ in range(2)]
    assert told[0] == told[1]
    other = list(conversations(8, len(names), names, grammar()))
    assert all(a.steps != b.steps for a, b in zip(told[0], other, strict=False))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in class_names(grammar()) if name != wire.CLASS])
def test_our_server_agrees_with_itself(name: str) -> None:
    for number in range(3):
        told = conversation(name, f"1-{number}", grammar())
        found = judged(told, InProcess(), InProcess(), InProcess())
        assert found.agrees and not found.dropped, found.first


def test_a_planted_difference_is_found_and_shrunk_to_its_request() -> None:
    body = {"metadata": {"name": "c", "labels": {"a": "1", "b": "2"}}, "data": {"k": "v", "l": "w"}}
    path = "/api/v1/namespaces/<ns>/configmaps"
    told = Conversation(
        "crud",
        ({"method": "POST", "path": "/api/v1/namespaces", "body": {"metadata": {"name": "<ns>"}}},),
        (
            {"method": "GET", "path": f"{path}/x"},
            {
                "method": "POST",
                "path": path,
                "body": {"metadata": {"name": "d"}, "data": {"k": "v"}},
            },
            {"method": "POST", "path": path, "body": body, "query": {"fieldManager": "m"}},
            {"method": "GET", "path": f"{path}/d"},
        ),
    )
    found = verdict_of(told)
    assert [index for index, _ in found.wrong] == [2]
    small = shrunk(found, verdict_of).told
    (step,) = small.steps
    assert step["method"] == "POST" and not step["query"]
    assert step["body"]["metadata"] == {"name": "c", "labels": {"a": "1"}}
    assert len(step["body"]["data"]) == 1


def test_what_two_real_servers_answer_differently_is_dropped() -> None:
    told = conversation("crud", "1-1", grammar())
    fickle = Fickle()
    report = Report()
    report.add(judged(told, fickle, fickle, InProcess()))
    assert report.classes["crud"].dropped == 1 and report.whole().conversations == 0


def test_a_report_counts_conversations_and_answers_by_class() -> None:
    report = Report()
    told = evolve(conversation("crud", "1-1", grammar()), steps=({}, {}, {}, {}))
    report.add(Verdict(told, 4))
    report.add(Verdict(told, 4, wrong=((2, "[2].status: want 201 got 400"),)))
    assert "| crud | 2 | 50.0 % | 8 | 87.5 % | 0 |" in report.table().splitlines()
    (cause,) = report.tree()["causes"]
    assert cause["cause"].endswith(".status: want # got #") and cause["examples"][0]["at"] == [2]


@pytest.mark.slow
def test_a_served_server_agrees_with_itself_over_http(tmp_path: Path) -> None:
    with served() as place:
        config = {
            "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{place.port}"}}],
            "users": [{"name": "x", "user": {"token": place.token}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        }
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump(config))
        out = tmp_path / "out.json"
        chosen = "http,crud,patch,list_watch.pages,discovery.media"
        given = ["--real", str(path), "--classes", chosen, "--conversations", "10", "--seed", "3"]
        assert main([*given, "--json", str(out)]) == 0, out.read_text()[:4000]
        told = json.loads(out.read_text())
        assert told["all"]["conversations"] == told["all"]["agreed"] == 10
        assert main([*given, "--ours", str(path)]) == 0


def test_an_answer_over_http_equals_the_one_in_process() -> None:
    with served() as place, HttpServer(place, "q") as server:
        told = conversation("crud.names", "1-0", grammar())
        assert judged(told, server, server, InProcess()).agrees


def test_a_file_that_is_no_kubeconfig_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    path.write_text("a: b\n")
    with pytest.raises(ValueError, match="not a kubeconfig"):
        place_of(path)
    assert main(["--real", str(path)]) == 2
    assert str(path) in capsys.readouterr().err
