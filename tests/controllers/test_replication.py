"""ReplicationControllers in a world."""

from __future__ import annotations

from typing import Any

import pytest

from actors import RandomWalk
from controlplane.client.resources import PODS, REPLICATION_CONTROLLERS
from tests.controllers.worlds import Small, template, workload

LABELS = {"app": "web"}


def controller(replicas: int) -> Any:
    spec = {"replicas": replicas, "selector": LABELS, "template": template(LABELS)}
    return workload(REPLICATION_CONTROLLERS, "ReplicationController", "web", spec)


def pod(name: str) -> Any:
    tree = workload(PODS, "Pod", name, template(LABELS)["spec"])
    tree[1]["metadata"]["labels"] = LABELS
    return tree


@pytest.mark.parametrize("seed", range(3))
def test_as_many_pods_run_as_are_wanted(seed):
    async def scale(client, _ctx):
        patch = {"spec": {"replicas": 1}}
        await client.patch(REPLICATION_CONTROLLERS, "default", "web", patch)

    steps = (controller(3), 20, scale)
    small = Small(("replicationcontroller",), *steps, strategy=RandomWalk(seed)).run()
    (left,) = [obj.view for obj in small.objects("pods")]
    (owner,) = left.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.controller) == (
        "v1",
        "ReplicationController",
        True,
    )
    status = small.objects("controllers")[0].tree["status"]
    assert status["readyReplicas"] == status["availableReplicas"] == status["replicas"] == 1
    assert "terminatingReplicas" not in status
    reasons = small.reasons("ReplicationController")
    assert reasons.count("SuccessfulCreate") == 3
    assert reasons.count("SuccessfulDelete") == 2


def test_a_pod_that_matches_is_adopted_and_one_that_no_longer_does_is_released():
    async def relabel(client, _ctx):
        patch = {"metadata": {"labels": {"app": "other"}}}
        await client.patch(PODS, "default", "lone", patch)

    steps = (pod("lone"), 5, controller(2), 10, relabel)
    small = Small(("replicationcontroller",), *steps).run()
    owners = {obj.name: len(obj.view.metadata.owner_references) for obj in small.objects("pods")}
    assert owners.pop("lone") == 0
    assert list(owners.values()) == [1, 1]


def test_a_settled_status_is_not_written_again():
    small = Small(("replicationcontroller",), controller(1), 60).run()
    writes = [
        event
        for event in small.log
        if event.event == "apiserver.write"
        and event.obj == "ReplicationController/default/web"
        and event.data["code"] < 300
        and event.data["verb"].startswith("update")
    ]
    assert len({event.rv for event in writes}) == len(writes) >= 1
