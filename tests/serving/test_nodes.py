"""Nodes that clients of a served cluster create, with kubectl or as an operator."""

from __future__ import annotations

from typing import Any

import trio

from controlplane.scenarios.search import replaying
from tests.apiserver.http.session import PODS, Session, served

NODES = "/api/v1/nodes"
SIZE = {"cpu": "4", "memory": "8Gi", "pods": "20"}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "made", "annotations": {"kwok.x-k8s.io/node": "fake"}},
    "status": {"capacity": SIZE, "allocatable": SIZE},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 1},
}


async def until(session: Session, path: str, is_there: Any) -> Any:
    """The answer as soon as it is as wanted."""
    with trio.fail_after(120):
        while True:
            found = await session.ask("GET", path)
            if is_there(found):
                return found
            await trio.sleep(0.02)


def ready(answer: Any) -> bool:
    conditions = answer.tree["status"].get("conditions", ())
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


async def test_a_posted_node_runs_pods_until_it_is_deleted_and_the_recording_replays():
    async with served(controllers="*", keep=True) as session:
        assert (await session.ask("POST", NODES, NODE)).code == 201
        await until(session, f"{NODES}/made", ready)
        assert (await session.ask("POST", PODS, POD)).code == 201
        pod = await until(session, f"{PODS}/web", lambda a: a.tree["status"]["phase"] == "Running")
        assert pod.tree["spec"]["nodeName"] == "made"
        assert (await session.ask("DELETE", f"{NODES}/made")).code == 200
        await until(session, f"{NODES}/made", lambda answer: answer.code == 404)
        with trio.fail_after(120):
            while session.serving.cluster.machines:
                await trio.sleep(0.02)
    serving = session.serving
    recording = serving.recording()
    again = replaying.replayed(serving.plan, recording)
    assert again.execute("bare").trace_hash == recording.trace_hash
