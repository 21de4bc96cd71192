"""Pending workloads of queues: order, positions, pages, and what is not found."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.kueue.gates import Gates
from controlplane.kueue.queues.visibility import pending_workloads
from tests.golden.kueue_queues import Queues
from tests.kueue.objects import cluster_queue, local_queue, workload


@pytest.fixture
def manager():
    """One ClusterQueue with two LocalQueues, and four workloads that wait."""
    world = Queues(
        {
            "clusterQueues": [cluster_queue("all", {"default/cpu": 1})],
            "localQueues": [local_queue("red", "all"), local_queue("blue", "all")],
            "namespaces": [{"metadata": {"name": "default"}}],
        },
        Gates(),
    )
    for name, queue, priority in (
        ("a", "red", 0),
        ("b", "blue", 7),
        ("c", "red", 5),
        ("d", "red", 0),
    ):
        tree = workload(name, queue)
        tree["spec"]["priority"] = priority
        world.manager.add_or_update(tree)
    return world.manager


def asked(manager: Any, resource: str, name: str, **query: str) -> Any:
    request = {
        "apiVersion": "visibility.kueue.x-k8s.io/v1beta2",
        "resource": resource,
        "subresource": "pendingworkloads",
        "namespace": "default" if resource == "localqueues" else "",
        "name": name,
        "query": query,
    }
    return pending_workloads(manager, request)


def shown(answer: Any) -> list[tuple[str, int, int]]:
    assert answer["kind"] == "PendingWorkloadsSummary"
    return [
        (each["metadata"]["name"], each["positionInClusterQueue"], each["positionInLocalQueue"])
        for each in answer["items"]
    ]


@pytest.mark.parametrize(
    ("resource", "name", "query", "found"),
    [
        ("clusterqueues", "all", {}, [("b", 0, 0), ("c", 1, 0), ("a", 2, 1), ("d", 3, 2)]),
        ("clusterqueues", "all", {"limit": "1", "offset": "2"}, [("a", 2, 1)]),
        (
            "clusterqueues",
            "all",
            {"limit": "0", "offset": "-4"},
            [("b", 0, 0), ("c", 1, 0), ("a", 2, 1), ("d", 3, 2)],
        ),
        ("clusterqueues", "all", {"limit": "-1"}, []),
        ("localqueues", "red", {}, [("c", 1, 0), ("a", 2, 1), ("d", 3, 2)]),
        ("localqueues", "red", {"limit": "1", "offset": "1"}, [("a", 2, 1)]),
        ("localqueues", "blue", {"offset": "1"}, []),
    ],
)
def test_workloads_are_told_in_order_with_their_positions(manager, resource, name, query, found):
    assert shown(asked(manager, resource, name, **query)) == found


def test_a_workload_is_told_with_its_owner_queue_and_priority(manager):
    first = asked(manager, "clusterqueues", "all")["items"][0]
    assert (first["priority"], first["localQueueName"]) == (7, "blue")
    assert first["metadata"]["namespace"] == "default"


@pytest.mark.parametrize(
    ("resource", "name", "query", "code", "message"),
    [
        ("clusterqueues", "no", {}, 404, 'clusterqueue.visibility.kueue.x-k8s.io "no" not found'),
        ("localqueues", "no", {}, 404, 'localqueue.visibility.kueue.x-k8s.io "no" not found'),
        ("clusterqueues", "all", {"limit": "ten"}, 400, 'strconv.ParseInt: parsing "ten": invalid syntax'),
        ("localqueues", "red", {"offset": "9" * 20}, 400,
         f'strconv.ParseInt: parsing "{"9" * 20}": value out of range'),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_a_status(manager, resource, name, query, code, message):
    answer = asked(manager, resource, name, **query)
    assert (answer.code, answer.message) == (code, message)
