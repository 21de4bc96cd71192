"""The simulation places pods by the scheduler's filters, and goes back to marked states."""

from __future__ import annotations

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.autoscaler.simulation import Placed, Simulation


def node(name: str, cpu: str = "2") -> Node:
    amounts = {"cpu": cpu, "memory": "4Gi", "pods": "10"}
    return Node.from_tree(
        {"metadata": {"name": name}, "status": {"allocatable": amounts, "capacity": amounts}}
    )


def pod(name: str, cpu: str = "1", on: str = "") -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {})}
    meta = {"name": name, "namespace": "default", "uid": name}
    return Pod.from_tree({"metadata": meta, "spec": spec})


def test_a_pod_goes_to_the_node_after_the_one_found_last() -> None:
    simulation = Simulation()
    simulation.set_cluster([node("a"), node("b")], [])
    assert [simulation.schedule_anywhere(pod(f"p{n}")) for n in range(4)] == ["b", "a", "b", "a"]
    assert simulation.schedule_anywhere(pod("p4")) == ""


def test_revert_restores_nodes_and_room() -> None:
    simulation = Simulation()
    simulation.set_cluster([node("a")], [pod("p", "2", "a")])
    simulation.fork()
    simulation.put(Placed(node("b")))
    assert simulation.schedule_anywhere(pod("q")) == "b"
    simulation.revert()
    assert simulation.names() == ["a"]
    assert simulation.schedule_anywhere(pod("q")) == ""


def test_commit_keeps_what_was_tried() -> None:
    simulation = Simulation()
    simulation.set_cluster([node("a")], [])
    simulation.fork()
    assert simulation.schedule(pod("p"), "a") is None
    simulation.commit()
    placed = simulation.get("a")
    assert placed is not None
    assert [each.metadata.name for each in placed.pods] == ["p"]


def test_a_refusal_names_plugin_and_reason() -> None:
    simulation = Simulation()
    simulation.set_cluster([node("a", "1")], [])
    refusal = simulation.check(pod("p", "2"), "a")
    assert refusal is not None
    assert (refusal.plugin, refusal.reasons) == ("NodeResourcesFit", ("Insufficient cpu",))


def test_a_pod_that_moves_stands_on_both_nodes() -> None:
    simulation = Simulation()
    moving = pod("p", "1", "a")
    simulation.set_cluster([node("a", "1"), node("b", "1")], [moving])
    assert simulation.schedule_anywhere(pod("p")) == "b"
    assert simulation.schedule_anywhere(pod("q")) == ""
