"""Each repair both ways: what goes wrong without it, and that it does not with it."""

from __future__ import annotations

import attrs
import pytest

from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.decisions import Write, at_once, writes_to
from controlplane.kubelet.cm.container_manager import ContainerManager, Policies
from controlplane.kubelet.cm.cpumanager.state import FILE as CPU_FILE
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.fixes import AS_RELEASED, ManagerFixes
from controlplane.kubelet.cm.invariants import violations
from controlplane.kubelet.cm.memorymanager.manager import MemoryReservation
from controlplane.kubelet.features import features
from controlplane.kubelet.machine import machine_of_text
from tests.kubelet.pods import guaranteed, resources

MACHINE = machine_of_text("sockets=2 cores=4 memory=221Gi")
GATES = features({"PodLevelResourceManagers": True})


class Node:
    def __init__(self, fixes: ManagerFixes, *, topology: str = "none", whole: bool = False) -> None:
        self.fixes = fixes
        self.topology = topology
        self.features = GATES if whole else features()
        self.active: list[Pod] = []
        self.ready = True
        self.files: dict[str, str] = {}
        self.manager = self.start()

    def start(self) -> ContainerManager:
        manager = ContainerManager(
            MACHINE,
            Policies(
                topology=self.topology,
                topology_scope="pod",
                cpu="static",
                memory="Static",
                reserved_memory=tuple(
                    MemoryReservation(i, {"memory": parse("1Gi")}) for i in range(2)
                ),
                reservation={"cpu": parse("1"), "memory": parse("2Gi")},
            ),
            active_pods=lambda: self.active,
            sources_ready=lambda: self.ready,
            features=self.features,
            fixes=self.fixes,
        )
        at_once(manager.start(self.files), writes_to(self.files))
        self.manager = manager
        return manager

    def admit(self, pod: Pod) -> None:
        self.active.append(pod)
        assert at_once(self.manager.admit(pod), writes_to(self.files)).admitted


def without(**names: bool) -> ManagerFixes:
    return attrs.evolve(AS_RELEASED, **names)


def test_81324_a_restart_before_the_sources_were_heard() -> None:
    for fixes, kept in ((AS_RELEASED, True), (without(sources_first=False), False)):
        node = Node(fixes)
        node.admit(guaranteed("p", "2"))
        node.active, node.ready = [], False
        node.start()
        at_once(node.manager.remove_stale_state(), writes_to(node.files))
        assert ("p" in node.manager.cpu.state.assignments) is kept


def test_90377_the_late_end_of_an_old_instance() -> None:
    for fixes, kept in ((AS_RELEASED, True), (without(release_by_activity=False), False)):
        node = Node(fixes)
        pod = guaranteed("p", "2")
        node.admit(pod)
        at_once(node.manager.add_container(pod, "c0", "old"), writes_to(node.files))
        at_once(node.manager.add_container(pod, "c0", "new"), writes_to(node.files))
        at_once(node.manager.remove_container("old"), writes_to(node.files))
        assert ("p" in node.manager.cpu.state.assignments) is kept
        assert ("p" in node.manager.memory.state.entries) is kept


def test_105114_cpus_that_a_sibling_reuses() -> None:
    for fixes, sound in ((AS_RELEASED, True), (without(siblings_keep=False), False)):
        node = Node(fixes)
        node.admit(guaranteed("p", "2", init=("2",)))
        at_once(node.manager.cpu.remove("p", "i0"), writes_to(node.files))
        assert (violations(node.manager) == []) is sound
        if sound:
            node.start()
        else:
            with pytest.raises(ManagerError, match="overlaps with default cpuset"):
                node.start()


def sized(uid: str, memory: str) -> Pod:
    tree = guaranteed(uid, "1").tree
    container = {"name": "c0", "resources": resources("500m", memory)}
    return Pod.from_tree({**tree, "spec": {"containers": [container]}})


def test_127074_memory_that_lies_where_history_put_it() -> None:
    for fixes, starts in ((AS_RELEASED, True), (without(sums_by_group=False), False)):
        node = Node(fixes)
        node.admit(sized("p1", "240Gi"))
        node.admit(sized("p2", "20Gi"))
        del node.active[1]
        node.admit(sized("p3", "10Gi"))
        if starts:
            node.start()
        else:
            with pytest.raises(ManagerError, match="expected machine state is different"):
                node.start()


def test_123443_memory_across_groups_of_nodes() -> None:
    for fixes, refused in ((AS_RELEASED, True), (without(group_rule=False), False)):
        node = Node(fixes, topology="best-effort")
        node.admit(sized("z", "100Gi"))
        pod = sized("a", "300Gi")
        node.active.append(pod)
        decision = at_once(node.manager.admit(pod), writes_to(node.files))
        assert decision.admitted is not refused
        if not refused:
            with pytest.raises(ManagerError, match="expected machine state is different"):
                node.start()


def test_136605_a_crash_between_the_writes() -> None:
    for fixes, starts in ((AS_RELEASED, False), (without(one_write=True), True)):
        node = Node(fixes)
        pod = guaranteed("p", "2")
        for step in node.manager.cpu.allocate(pod, pod.spec.containers[0]):
            if isinstance(step, Write):
                node.files[CPU_FILE] = step.content.text
                break
        if starts:
            node.start()
        else:
            with pytest.raises(ManagerError, match="doesn't match with CPUs in state"):
                node.start()


def test_141041_a_pod_with_its_own_resources_is_admitted_again() -> None:
    for fixes, sound in ((AS_RELEASED, False), (without(pods_once=True), True)):
        node = Node(fixes, topology="best-effort", whole=True)
        tree = guaranteed("p", "1").tree
        spec = {**tree["spec"], "resources": resources("3", "2Gi")}
        pod = Pod.from_tree({**tree, "spec": spec})
        node.admit(pod)
        before = node.manager.cpu.state
        node.start()
        decision = at_once(node.manager.admit(pod), writes_to(node.files))
        assert decision.admitted is sound  # a running pod is refused: its bubble was taken twice
        assert (node.manager.cpu.state == before) is sound
        assert (violations(node.manager) == []) is sound
