from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.decisions import Write, at_once, writes_to
from controlplane.kubelet.cm.checkpoint import CheckpointError
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.memorymanager.machine_state import agree
from controlplane.kubelet.cm.memorymanager.manager import MemoryManager, MemoryReservation
from controlplane.kubelet.cm.memorymanager.state import (
    FILE,
    Block,
    MemoryState,
    MemoryTable,
    NUMANodeState,
    restore,
)
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.cm.topologymanager.manager import TopologyManager
from controlplane.kubelet.machine import HugePages, NUMANode
from tests.kubelet.pods import resources

GI = 1 << 30
NODES = [
    NUMANode(0, memory=10 * GI, huge_pages=(HugePages(2048, 512),)),
    NUMANode(1, memory=10 * GI),
]


def pod(uid: str, *memory: str, init: tuple[str, ...] = ()) -> Pod:
    return Pod.from_tree(
        {
            "metadata": {"name": uid, "uid": uid},
            "spec": {
                "initContainers": [
                    {"name": f"i{i}", "resources": resources("1", size)}
                    for i, size in enumerate(init)
                ],
                "containers": [
                    {"name": f"c{i}", "resources": resources("1", size)}
                    for i, size in enumerate(memory)
                ],
            },
        }
    )


def manager(active: list[Pod], nodes: list[NUMANode] | None = None) -> MemoryManager:
    nodes = [attrs.evolve(node, huge_pages=()) for node in nodes or NODES]
    return MemoryManager(
        nodes,
        "Static",
        TopologyManager(nodes),
        KubeletView(lambda: active),
        reservation={"memory": parse("2Gi")},
        reserved_memory=[MemoryReservation(i, {"memory": parse("1Gi")}) for i in range(2)],
    )


def started(
    active: list[Pod], nodes: list[NUMANode] | None = None
) -> tuple[MemoryManager, dict[str, str]]:
    files: dict[str, str] = {}
    memory = manager(active, nodes)
    at_once(memory.start(None), writes_to(files))
    return memory, files


def admit(memory: MemoryManager, pod: Pod, files: dict[str, str]) -> None:
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        at_once(memory.allocate(pod, container), writes_to(files))


def free(memory: MemoryManager) -> list[int]:
    return [state.memory["memory"].free // GI for state in memory.state.machine.values()]


def test_the_file_of_upstreams_own_test_comes_out() -> None:
    table = MemoryTable(2048, 512, 1536, 512, 1024)
    state = MemoryState(
        "static",
        {0: NUMANodeState(0, (), {"memory": table})},
        {"pod": {"container1": (Block((0,), "memory", 512),)}},
    )
    assert json.loads(state.text)["checksum"] == 4215593881
    assert json.loads(MemoryState("None").text)["checksum"] == 4236770233


def test_an_init_containers_memory_serves_the_next_and_goes_when_that_starts() -> None:
    """Upstream issue 123971: so a restart admits the init container anew."""
    each = pod("p", "6Gi", init=("6Gi",))
    memory, files = started([each])
    admit(memory, each, files)
    assert free(memory) == [3, 9]
    at_once(memory.add_container(each, "c0", "id"), writes_to(files))
    assert memory.state.blocks("p", "i0") is None
    assert free(memory) == [3, 9]
    restarted = manager([each])
    at_once(restarted.start(files[FILE]), writes_to(files))
    admit(restarted, each, files)
    assert memory.numa_nodes("p", "c0") == (0,)
    assert free(restarted) == [3, 3]


def test_memory_lies_where_history_put_it_and_a_restart_accepts_that() -> None:
    """Upstream issue 113130, with its numbers."""
    nodes = [NUMANode(i, memory=221 * GI) for i in range(2)]
    pods = [pod("p1", "240Gi"), pod("p2", "20Gi"), pod("p3", "10Gi")]
    active = pods[:2]
    memory, files = started(active, nodes)
    admit(memory, pods[0], files)
    admit(memory, pods[1], files)
    assert free(memory) == [0, 180]
    active[:] = [pods[0], pods[2]]
    admit(memory, pods[2], files)
    assert free(memory) == [10, 180]
    at_once(manager(active, nodes).start(files[FILE]))


def test_a_crash_between_the_writes_keeps_the_next_kubelet_from_starting() -> None:
    each = pod("p", "3Gi")
    memory, files = started([each])
    for step in memory.allocate(each, each.spec.containers[0]):
        if isinstance(step, Write):
            files[FILE] = step.content.text
            break
    with pytest.raises(ManagerError, match="expected machine state is different"):
        at_once(manager([each]).start(files[FILE]))


def test_memory_that_drifts_over_a_reboot_is_not_accepted() -> None:
    _, files = started([])
    drifted = [attrs.evolve(node, memory=node.memory - 4096) for node in NODES]
    with pytest.raises(ManagerError, match="expected machine state is different"):
        at_once(manager([], drifted).start(files[FILE]))


def test_requests_and_errors_are_counted() -> None:
    small, large = pod("p", "3Gi"), pod("q", "50Gi")
    memory, files = started([small, large])
    admit(memory, small, files)
    admit(memory, small, files)
    with pytest.raises(ManagerError, match="failed to get the default NUMA affinity"):
        admit(memory, large, files)
    assert memory.view.metrics.get("memory_manager_pinning_requests_total") == 3
    assert memory.view.metrics.get("memory_manager_pinning_errors_total") == 1


@pytest.mark.parametrize(
    ("policy", "reserved", "said"),
    [
        ("static", "2Gi", 'unknown policy: "static"'),
        ("BestEffort", "2Gi", 'policy "BestEffort" is not available for platform "linux"'),
        (
            "Static",
            "3Gi",
            'the total amount "3Gi" of type "memory" is not equal to the value "2Gi"',
        ),
        ("Static", "", "references a NUMA node 7 that does not exist on this machine"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(
    policy: str, reserved: str, said: str
) -> None:
    entry = MemoryReservation(0 if reserved else 7, {"memory": parse(reserved or "1Gi")})
    with pytest.raises(ManagerError, match=said):
        MemoryManager(
            NODES,
            policy,
            TopologyManager(NODES),
            KubeletView(),
            reservation={"memory": parse("2Gi")},
            reserved_memory=[entry],
        )


def test_a_damaged_file_is_refused() -> None:
    text = MemoryState("Static").text
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        restore(text.replace('"Static"', '"Other"'), "Other")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["1Gi", "4Gi", "7Gi", "12Gi"]),
            st.sampled_from([(), ("2Gi",), ("5Gi",)]),
        ),
        max_size=12,
    )
)
def test_what_is_free_and_reserved_is_allocatable_and_blocks_add_up(
    moves: list[tuple[int, str, tuple[str, ...]]],
) -> None:
    """Pods come and go, each with a uid of its own; the one at a taken place leaves."""
    active: list[Pod] = []
    memory, files = started(active)
    start = memory.state.machine
    for turn, (number, size, init) in enumerate(moves):
        there = [each for each in active if each.uid.startswith(f"p{number}-")]
        if there:
            active.remove(there[0])
        else:
            new = pod(f"p{number}-{turn}", size, init=init)
            active.append(new)
            try:
                admit(memory, new, files)
            except ManagerError:
                active.remove(new)
        at_once(memory.remove_stale_state(), writes_to(files))
        for state in memory.state.machine.values():
            for table in state.memory.values():
                assert table.free + table.reserved == table.allocatable
                assert min(table.free, table.reserved) >= 0
        reserved = sum(state.memory["memory"].reserved for state in memory.state.machine.values())
        blocks = [
            block.size
            for entries in memory.state.entries.values()
            for each in entries.values()
            for block in each
        ]
        assert reserved == sum(blocks)
        assert restore(files[FILE], "Static") == memory.state
    active.clear()
    at_once(memory.remove_stale_state(), writes_to(files))
    assert agree(memory.state.machine, start)
