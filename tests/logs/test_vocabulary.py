"""Every event of real runs is in the vocabulary, with the data that it promises."""

from __future__ import annotations

import json
from io import StringIO

import jsonschema
import pytest

from actors import EventLog, RandomWalk, jsonl
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.logs.vocabulary import EVENTS, schema


def lines(log: EventLog) -> list[dict]:
    file = StringIO()
    jsonl.write(log, file, run="test")
    return [json.loads(line) for line in file.getvalue().splitlines()]


def complaints(found: list[dict]) -> list[str]:
    validator = jsonschema.Draft202012Validator(schema())
    return sorted(
        {
            f"{line['event']}: {error.message}"
            for line in found
            for error in validator.iter_errors(line)
        }
    )


def test_a_line_with_unknown_data_is_refused() -> None:
    assert complaints([{"event": "node.error", "data": {"message": "x", "more": 1}}])
    assert complaints([{"event": "node.error"}])
    assert complaints([{"event": "nobody.knows", "data": {"a": 1}}])
    assert complaints([{"event": "scheduler.cycle"}]) == []


@pytest.mark.parametrize("servers", [1, 2])
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
        ctx.crash("n1")
        await ctx.sleep(60_000_000_000)
        ctx.restart("n1")
        ctx.cut("n2", cluster.apiservers[0])
        await ctx.sleep(10_000_000_000)
        ctx.heal("n2", cluster.apiservers[0])

    cluster.user("user", user)
    cluster.world.run("bare", until_ns=300_000_000_000)
    found = lines(log)
    assert complaints(found) == []
    seen = {line["event"] for line in found} & set(EVENTS)
    assert {"fault", "scheduler.assumed", "scheduler.failed", "apiserver.write"} <= seen
