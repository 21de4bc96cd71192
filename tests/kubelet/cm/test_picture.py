from __future__ import annotations

from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.decisions import Write, at_once
from controlplane.kubelet.cm.container_manager import ContainerManager, Policies
from controlplane.kubelet.cm.cpumanager.state import CPUState
from controlplane.kubelet.cm.cpuset import CPUSet
from controlplane.kubelet.cm.invariants import cpu_violations, memory_violations, violations
from controlplane.kubelet.cm.memorymanager.manager import MemoryReservation
from controlplane.kubelet.cm.memorymanager.state import (
    Block,
    MemoryState,
    MemoryTable,
    NUMANodeState,
)
from controlplane.kubelet.cm.picture import picture
from controlplane.kubelet.machine import Machine, machine_of_text
from tests.kubelet.pods import guaranteed

MACHINE = machine_of_text("sockets=2 cores=3 threads=2 memory=8Gi")


def started(active: list[Pod], machine: Machine = MACHINE) -> ContainerManager:
    policies = Policies(
        topology="best-effort",
        cpu="static",
        memory="Static",
        reserved_memory=(MemoryReservation(0, {"memory": parse("1Gi")}),),
        reservation={"cpu": parse("1"), "memory": parse("1Gi")},
    )
    manager = ContainerManager(machine, policies, active_pods=lambda: active)
    at_once(manager.start({}))
    return manager


def shown(manager: ContainerManager) -> list[str]:
    policy = manager.cpu.policy
    text = picture(
        MACHINE, manager.cpu.state, manager.memory.state, policy.reserved, lambda uid: f"ns/{uid}"
    )
    return text.splitlines()


def test_the_picture_shows_who_owns_what() -> None:
    pods = [guaranteed("p", "2"), guaranteed("q", "4", "1")]
    manager = started(pods)
    for pod in pods:
        assert at_once(manager.admit(pod)).admitted
    assert shown(manager) == [
        "NUMA 0 (socket 0) #c aa ..",
        "  memory         [======              ] 2Gi of 7Gi",
        "NUMA 1 (socket 1) bb bb ..",
        "  memory         [===                 ] 1Gi of 8Gi",
        "a ns/p/c0: CPUs 1,7; 1Gi memory on NUMA 0",
        "b ns/q/c0: CPUs 3-4,9-10; 1Gi memory on NUMA 1",
        "c ns/q/c1: CPUs 6; 1Gi memory on NUMA 0",
        ". shared  # reserved",
    ]
    assert violations(manager) == []


def test_what_a_crash_between_the_writes_loses_belongs_to_no_pod() -> None:
    pod = guaranteed("p", "2")
    manager = started([pod])
    for step in manager.cpu.allocate(pod, pod.spec.containers[0]):
        if isinstance(step, Write):
            break
    assert shown(manager)[0] == "NUMA 0 (socket 0) #. !! .."
    assert shown(manager)[-1] == ". shared  # reserved  ! lost"
    assert violations(manager) == ["CPUs 1,7 are neither shared nor assigned"]


def test_a_cpu_with_two_owners_is_seen() -> None:
    two = CPUSet.of([1])
    state = CPUState("static", CPUSet.parse("0-1"), {"p": {"c": two}, "q": {"c": two}})
    assert cpu_violations(state, CPUSet.parse("0-1")) == [
        "CPUs 1 of pod p are in the default set 0-1 as well",
        "CPUs 1 belong to pod q and to another",
        "CPUs 1 of pod q are in the default set 0-1 as well",
    ]
    text = picture(MACHINE, state, MemoryState("None"))
    assert "*" in text.splitlines()[0]


def test_memory_that_does_not_add_up_is_seen() -> None:
    node = NUMANodeState(1, (0,), {"memory": MemoryTable(10, 0, 10, 4, 5)})
    state = MemoryState("Static", {0: node}, {"p": {"c": (Block((0,), "memory", 3),)}})
    assert memory_violations(state) == [
        "NUMA node 0: memory: 5 free and 4 reserved are not 10",
        "memory: 4 are reserved for blocks of 3",
    ]


def test_a_pod_that_is_over_holds_nothing() -> None:
    pod = guaranteed("p", "2")
    active = [pod]
    manager = started(active)
    at_once(manager.admit(pod))
    assert violations(manager, [pod]) == [
        "pod default/p is over and holds CPUs",
        "pod default/p is over and holds memory",
    ]
    active.clear()
    at_once(manager.remove_stale_state())
    assert violations(manager, [pod]) == []
