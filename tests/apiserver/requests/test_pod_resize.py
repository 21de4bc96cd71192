"""The resize subresource of pods, from the request to what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.world import World, pod

AMOUNTS = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "2", "memory": "64Mi"}}


def node(cpu: str = "4", system: str = "linux") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"kubernetes.io/os": system}},
        "status": {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "10"}},
    }


def world(**settings: str) -> World:
    made = World()
    made.create("nodes", node(**settings), namespace="")
    made.create("pods", pod("web", node="n", resources=AMOUNTS))
    return made


def resize(made: World, **cpu: str) -> Any:
    resources = {"requests": {"cpu": cpu["requests"]}, "limits": {"cpu": cpu["limits"]}}
    body = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    media = "application/strategic-merge-patch+json"
    return made.patch("pods", "web", body, media, sub="resize").tree


def test_amounts_change_and_the_generation_counts() -> None:
    made = world()
    changed = resize(made, requests="2", limits="3")
    amounts = changed["spec"]["containers"][0]["resources"]
    assert amounts == {
        "requests": {"cpu": "2", "memory": "64Mi"},
        "limits": {"cpu": "3", "memory": "64Mi"},
    }
    assert changed["metadata"]["generation"] == 2


def test_everything_else_in_the_request_is_dropped() -> None:
    made = world()
    body = {"metadata": {"labels": {"a": "b"}}, "spec": {"priority": 7}}
    changed = made.patch("pods", "web", body, sub="resize").tree
    assert "labels" not in changed["metadata"]
    assert changed["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("settings", "reason", "said"),
    [
        (
            {"cpu": "1500m"},
            "NodeCapacity",
            "node didn't have enough allocatable resources: cpu, requested: 2000, allocatable: 1500",
        ),
        (
            {"system": "windows"},
            "UnsupportedPlatform",
            'pod resize is only supported on linux nodes, node "n" is "windows"',
        ),
    ],
)
def test_what_the_node_could_never_do_is_refused(
    settings: dict[str, str], reason: str, said: str
) -> None:
    made = world(**settings)
    refused = resize(made, requests="2", limits="3")
    assert refused["message"] == f'pods "web" is forbidden: {said}'
    assert refused["details"]["causes"] == [{"reason": reason, "message": said}]


def test_a_class_of_service_may_not_change() -> None:
    made = world()
    bare = [{"name": "c", "image": "nginx", "resources": {}}]
    refused = made.patch("pods", "web", {"spec": {"containers": bare}}, sub="resize")
    assert refused.code == 422
    assert "Pod QOS Class may not change as a result of resizing" in refused.tree["message"]
