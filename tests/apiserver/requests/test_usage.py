"""`metrics.k8s.io` tells what annotations of running pods say."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from controlplane.api import usage
from tests.apiserver.test_client_views import ask
from tests.apiserver.world import World, pod

PATH = "/apis/metrics.k8s.io/v1beta1"
MAIN = {"name": "main", "state": {"running": {"startedAt": "2031-01-01T00:00:00Z"}}}
SIDE = {**MAIN, "name": "side"}


def world_with(*pods: dict) -> World:
    world = World(measures_usage=True)
    for name, ready in (("a", "True"), ("b", "True"), ("dark", "False")):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        world.create("nodes", node, namespace="")
        node["status"] = {"conditions": [{"type": "Ready", "status": ready}]}
        assert world.do("update", "nodes", name, node, namespace="", sub="status").code == 200
    for tree in pods:
        assert world.create("pods", tree).code == 201
        status = {"phase": tree["phase"], "containerStatuses": tree["statuses"]}
        body = {**tree, "status": status}
        assert world.do("update", "pods", tree["metadata"]["name"], body, sub="status").code == 200
    return world


def using(
    name: str, node: str = "a", phase: str = "Running", statuses=(MAIN,), **told: str
) -> dict:
    made = pod(name)
    made["metadata"]["labels"] = {"app": name}
    made["metadata"]["annotations"] = {
        f"{usage.PREFIX}{key.replace('_', '-')}": value for key, value in told.items()
    }
    made["spec"]["nodeName"] = node
    filled = [
        {"image": "i", "imageID": "", "ready": True, "restartCount": 0, **each} for each in statuses
    ]
    return {**made, "phase": phase, "statuses": filled}


def items(world: World, path: str, **query: str) -> dict[str, dict]:
    found = ask(world, "GET", f"{PATH}/{path}", **query)
    assert found.code == 200
    return {each["metadata"]["name"]: each for each in found.tree["items"]}


def test_pods_have_the_figures_of_their_running_containers():
    ended = {"name": "side", "state": {"terminated": {"exitCode": 0}}}
    world = world_with(
        using("both", statuses=(MAIN, SIDE), cpu_usage="250m", **{"memory_usage.side": "1Gi"}),
        using("one", statuses=(MAIN, ended), cpu_usage="1", memory_usage="100Mi"),
        using("waits", phase="Pending", cpu_usage="1"),
        using("quiet"),
        using("garbled", cpu_usage="much"),
    )
    found = items(world, "namespaces/default/pods")
    assert {name: each["containers"] for name, each in found.items()} == {
        "both": [
            {"name": "main", "usage": {"cpu": "250m", "memory": "0"}},
            {"name": "side", "usage": {"cpu": "250m", "memory": "1Gi"}},
        ],
        "quiet": [{"name": "main", "usage": {"cpu": "0", "memory": "0"}}],
        "garbled": [{"name": "main", "usage": {"cpu": "0", "memory": "0"}}],
        "one": [{"name": "main", "usage": {"cpu": "1", "memory": "100Mi"}}],
    }
    assert found["one"]["timestamp"] == "2031-01-01T00:00:00Z"
    assert found["one"]["window"] == "30s"


def test_nodes_that_are_ready_use_what_their_pods_use():
    world = world_with(
        using("x", cpu_usage="300m", memory_usage="1Gi"),
        using("y", cpu_usage="700m"),
        using("z", "b", phase="Failed", cpu_usage="5"),
    )
    found = {name: each["usage"] for name, each in items(world, "nodes").items()}
    assert found == {"a": {"cpu": "1", "memory": "1Gi"}, "b": {"cpu": "0", "memory": "0"}}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"labelSelector": "app=x"}, ["x"]),
        ({"labelSelector": "app notin (x)"}, ["y"]),
        ({"fieldSelector": "metadata.name=y"}, ["y"]),
        ({}, ["x", "y"]),
    ],
)
def test_selectors_select(query, names):
    world = world_with(using("x", cpu_usage="1"), using("y", cpu_usage="1"))
    assert sorted(items(world, "pods", **query)) == names


def test_one_is_got_by_name_and_nothing_is_written():
    world = world_with(using("x", cpu_usage="1"))
    path = f"{PATH}/namespaces/default/pods/x"
    assert ask(world, "GET", path).tree["kind"] == "PodMetrics"
    missing = ask(world, "GET", f"{PATH}/namespaces/default/pods/no").tree
    assert missing["message"] == 'pods.metrics.k8s.io "no" not found'
    assert ask(world, "DELETE", path).code == 405
    assert ask(world, "GET", f"{PATH}/pods", watch="1").code == 405


def test_a_server_without_it_does_not_serve_the_group():
    assert ask(World(), "GET", f"{PATH}/nodes").code == 404


class Tenfold:
    """Tells ten times the seconds of the time for pods on a node whose name it finds."""

    kinds = MappingProxyType({})

    def at(self, node_of, now, stored):
        def read(pod, container, resource):
            node = node_of(pod["spec"]["nodeName"])
            return None if node is None else len(node.name) * 10_000

        return read


def test_another_source_of_usage_takes_the_place_of_annotations():
    world = world_with(using("one", cpu_usage="250m"))
    told = World(measures_usage=True, usage=Tenfold())
    assert items(world, "pods")["one"]["containers"][0]["usage"]["cpu"] == "250m"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    told.create("nodes", node, namespace="")
    tree = using("one", cpu_usage="250m")
    told.create("pods", tree)
    status = {"phase": "Running", "containerStatuses": tree["statuses"]}
    assert told.do("update", "pods", "one", {**tree, "status": status}, sub="status").code == 200
    assert items(told, "pods")["one"]["containers"][0]["usage"]["cpu"] == "10"
