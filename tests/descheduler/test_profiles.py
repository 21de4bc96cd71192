"""Whole passes over a small world."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.decisions import at_once
from controlplane.descheduler.evictions import Eviction, Limits, PodEvictor
from controlplane.descheduler.profiles import build, run_pass
from controlplane.descheduler.world import World

TAINTS = "RemovePodsViolatingNodeTaints"


def node(name: str, *taints: dict[str, str]) -> Node:
    return Node.from_tree({"metadata": {"name": name}, "spec": {"taints": list(taints)}})


def pod(name: str, on: str) -> Pod:
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "web"}
    meta = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [owner]}
    status = {"phase": "Running"}
    return Pod.from_tree({"metadata": meta, "spec": {"nodeName": on}, "status": status})


def evicted(world: World) -> list[str]:
    profile = {
        "name": "default",
        "pluginConfig": [{"name": TAINTS}],
        "plugins": {"deschedule": {"enabled": [TAINTS]}},
    }
    evictor = PodEvictor(Limits(), lambda note: None)
    asked: list[Any] = []

    def answer(eviction: Eviction) -> None:
        asked.append(eviction.tree())

    profiles = [build(profile, world, evictor, {})]
    at_once(run_pass(profiles, list(world.nodes), evictor), answer)
    for each in asked:
        assert each["metadata"]["annotations"]["reason"] == f"triggered by default/{TAINTS}: "
    return [each["metadata"]["name"] for each in asked]


def test_a_pod_that_does_not_tolerate_the_taint_of_its_node_is_evicted() -> None:
    tainted = node("node-1", {"key": "gpu", "effect": "NoSchedule"})
    pods = [pod("a", "node-1"), pod("b", "node-2")]
    assert evicted(World(nodes=[tainted, node("node-2")], pods=pods)) == ["a"]


def test_a_pass_over_fewer_than_two_ready_nodes_does_nothing() -> None:
    tainted = node("node-1", {"key": "gpu", "effect": "NoSchedule"})
    assert evicted(World(nodes=[tainted], pods=[pod("a", "node-1")])) == []


def test_a_plugin_needs_an_entry_in_the_plugin_config() -> None:
    profile = {"name": "p1", "plugins": {"deschedule": {"enabled": [TAINTS]}}}
    with pytest.raises(ValueError, match=f'unable to find "{TAINTS}" plugin config$'):
        build(profile, World(), PodEvictor(Limits(), lambda note: None), {})


def test_a_plugin_of_another_point_is_refused() -> None:
    profile = {"name": "p1", "plugins": {"balance": {"enabled": [TAINTS]}}}
    with pytest.raises(ValueError, match="balance extension point of non-existing plugins"):
        build(profile, World(), PodEvictor(Limits(), lambda note: None), {})
