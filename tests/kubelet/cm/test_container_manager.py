from __future__ import annotations

import attrs
import pytest

from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.decisions import at_once, writes_to
from controlplane.kubelet.cm.container_manager import ContainerManager, Policies
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.memorymanager.manager import MemoryReservation
from controlplane.kubelet.machine import Machine, from_rows
from tests.kubelet.pods import guaranteed

GI = 1 << 30


def machine() -> Machine:
    """Two NUMA nodes, each a socket of four CPUs with 8 GiB."""
    found = from_rows([(cpu, cpu // 4, cpu // 4, cpu, -1) for cpu in range(8)])
    nodes = tuple(attrs.evolve(node, memory=8 * GI) for node in found.nodes)
    return attrs.evolve(found, nodes=nodes)


POLICIES = Policies(
    topology="single-numa-node",
    cpu="static",
    memory="Static",
    reserved_memory=(MemoryReservation(0, {"memory": parse("1Gi")}),),
    reservation={"cpu": parse("1"), "memory": parse("1Gi")},
)


def started(active: list[Pod], files: dict[str, str]) -> ContainerManager:
    manager = ContainerManager(machine(), POLICIES, active_pods=lambda: active)
    at_once(manager.start(files), writes_to(files))
    return manager


def test_cpus_and_memory_of_a_pod_come_from_one_node_and_survive_a_restart() -> None:
    pod = guaranteed("p", "4")
    files: dict[str, str] = {}
    manager = started([pod], files)
    assert at_once(manager.admit(pod), writes_to(files)).admitted
    assert str(manager.cpu.affinity_of("p", "c0")) == "4-7"
    assert manager.memory.numa_nodes("p", "c0") == (1,)
    again = started([pod], files)
    assert at_once(again.admit(pod), writes_to(files)).admitted
    assert again.cpu.state == manager.cpu.state
    assert again.memory.state == manager.memory.state
    assert again.topology.affinity("p", "c0") == manager.topology.affinity("p", "c0")


def test_a_refused_pod_holds_what_it_got_until_it_counts_as_inactive() -> None:
    pod = guaranteed("p", "4", "4")
    active = [pod]
    files: dict[str, str] = {}
    manager = started(active, files)
    decision = at_once(manager.admit(pod), writes_to(files))
    assert decision.reason == "TopologyAffinityError"
    assert str(manager.cpu.state.default) == "0-3"
    active.clear()
    at_once(manager.remove_stale_state(), writes_to(files))
    assert str(manager.cpu.state.default) == "0-7"


def test_a_stopped_container_keeps_its_cpus() -> None:
    """Upstream pull request 90377: only stale state removal frees them."""
    pod = guaranteed("p", "2")
    files: dict[str, str] = {}
    manager = started([pod], files)
    at_once(manager.admit(pod), writes_to(files))
    at_once(manager.add_container(pod, "c0", "first"), writes_to(files))
    at_once(manager.remove_container("first"), writes_to(files))
    assert str(manager.cpu.affinity_of("p", "c0")) == "1-2"


def test_an_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(ManagerError, match='unknown scope: "socket"'):
        ContainerManager(machine(), attrs.evolve(POLICIES, topology_scope="socket"))
