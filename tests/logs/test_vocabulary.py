"""Every event of real runs is in the vocabulary, with the data that it promises."""

from __future__ import annotations

import json
from functools import cache
from io import StringIO

import jsonschema
import pytest

from actors import EventLog, RandomWalk, jsonl
from controlplane import __version__
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.logs.vocabulary import EVENTS, LEVEL_OF, LEVELS, VERSION, schema


def lines(log: EventLog) -> list[dict]:
    file = StringIO()
    jsonl.write(log, file, run="test")
    return [json.loads(line) for line in file.getvalue().splitlines()]


SCHEMA = schema()
OF_EVENT = {each["if"]["properties"]["event"]["const"]: each for each in SCHEMA["allOf"]}


@cache
def validator(event: str) -> jsonschema.Draft202012Validator:
    """The schema with the one clause of its `allOf` that is about this event: the other 74 hold for all its lines."""
    return jsonschema.Draft202012Validator({**SCHEMA, "allOf": [OF_EVENT.get(event, True)]})


def complaints(found: list[dict]) -> list[str]:
    return sorted(
        {
            f"{line['event']}: {error.message}"
            for line in found
            for error in validator(line["event"]).iter_errors(line)
        }
    )


@pytest.mark.parametrize(
    ("line", "good"),
    [
        ({"event": "node.error", "data": {"message": "x"}}, True),
        ({"event": "node.error", "data": {"message": "x", "more": 1}}, False),
        ({"event": "node.error"}, False),
        ({"event": "nobody.knows", "data": {"a": 1}}, False),
        ({"event": "scheduler.cycle"}, True),
    ],
)
def test_a_line_with_unknown_data_is_refused(line: dict, good: bool) -> None:
    assert (complaints([line]) == []) is good
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(line) is good


@pytest.mark.slow
def test_what_a_run_leaves_speaks_the_vocabulary(plain_lines) -> None:
    assert complaints(plain_lines) == []
    envelope = jsonschema.Draft202012Validator(jsonl.schema())
    for line in plain_lines[::7] + plain_lines[-3:]:
        envelope.validate(line)
    assert {
        "client.listed",
        "client.read",
        "informer.read",
        "informer.told",
        "controller.popped",
        "apiserver.audited",
        "apiserver.write",
        "scheduler.popped",
        "scheduler.read",
        "message",
        "task",
        "choice",
        "fault",
        "verdict",
    } <= {line["event"] for line in plain_lines}


def test_events_have_the_vocabularys_level_and_steps_have_none(plain_lines) -> None:
    for line in plain_lines:
        assert line.get("level") == LEVEL_OF.get(line["event"]), line
    assert set(LEVEL_OF.values()) <= set(LEVELS)


def test_the_first_line_says_what_was_run_and_when_it_began(plain_lines) -> None:
    first, *rest = plain_lines
    assert (first["event"], first["step"], first["t"]) == ("log", 0, 0)
    assert first["data"] == {
        "format": jsonl.FORMAT,
        "vocabulary": VERSION,
        "package": __version__,
        "epoch_ns": 1_767_225_600_000_000_000,
        "scenario": "logged",
        "seed": 1,
    }
    assert "log" not in {line["event"] for line in rest}
    assert len({line["run"] for line in plain_lines}) == 1


def test_an_object_has_one_name_and_what_was_read_has_uid_and_version(plain_lines) -> None:
    names = {}
    for line in plain_lines:
        obj, event = line.get("obj", ""), line["event"]
        if event in ("client.read", "informer.told", "scheduler.popped"):
            assert line["uid"], line
            assert line["rv"], line
        if event == "informer.read" and line.get("data", {}).get("found", True):
            assert line["uid"], line
            assert line["rv"], line
        if obj:
            kind, *rest = obj.split("/")
            assert kind[:1].isupper(), line
            assert len(rest) in (1, 2), line
        if line.get("uid") and obj and not line.get("data", {}).get("reason"):
            assert names.setdefault(line["uid"], obj) == obj


@pytest.mark.slow
@pytest.mark.parametrize("servers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_whole_cluster_speaks_the_vocabulary(servers: int) -> None:
    log = EventLog()
    config = ClusterConfig(
        nodes=(node_tree("n1"), node_tree("n2", cpu="1")),
        apiservers=servers,
        schedulers=servers,
        explain_scheduling=True,
    )
    cluster = Cluster(config, strategy=RandomWalk(3), log=log)

    async def user(ctx) -> None:
        from controlplane.client.loops.clientset import PODS, Client

        client = Client(ctx, cluster.address("user"))
        await ctx.sleep(5_000_000_000)
        for name, cpu in (("a", "500m"), ("b", "500m"), ("too-big", "64")):
            await client.create(
                PODS,
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {
                        "containers": [
                            {"name": "m", "image": "x", "resources": {"requests": {"cpu": cpu}}}
                        ]
                    },
                },
            )
        await ctx.sleep(30_000_000_000)
        ctx.faults.crash("n1")
        await ctx.sleep(60_000_000_000)
        ctx.faults.restart("n1")
        ctx.faults.cut("n2", cluster.apiservers[0])
        await ctx.sleep(10_000_000_000)
        ctx.faults.heal("n2", cluster.apiservers[0])

    cluster.user("user", user)
    cluster.world.run("bare", until_ns=300_000_000_000)
    found = lines(log)
    assert complaints(found) == []
    seen = {line["event"] for line in found} & set(EVENTS)
    assert {"fault", "scheduler.assumed", "scheduler.failed", "apiserver.write"} <= seen
