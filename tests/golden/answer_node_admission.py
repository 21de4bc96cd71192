"""Admission of pods by the topology manager with the CPU and the memory manager."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.decisions import at_once, writes_to
from controlplane.kubelet.cm.container_manager import ContainerManager, Policies
from controlplane.kubelet.cm.cpumanager.state import FILE as CPU_FILE
from controlplane.kubelet.cm.cpuset import CPUSet
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.requests import containers_of
from controlplane.kubelet.cm.topologymanager.hints import nodes_of
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.features import features
from tests.golden.answer_cpumanager import shown_assignments
from tests.golden.answer_memorymanager import shown_blocks, shown_machine
from tests.golden.kubelet_machines import machine_of, replayed, reservations_of


class _Node:
    """One case: a kubelet with its disk."""

    def __init__(self, case: Any) -> None:
        self.case = case
        self.pods = {tree["metadata"]["uid"]: Pod.from_tree(tree) for tree in case["pods"]}
        self.active: list[Pod] = []
        self.ready = True
        self.files: dict[str, str] = {}
        self.shown: dict[str, Any] = {}
        self.manager: ContainerManager

    def run(self, steps: Steps[Any]) -> Any:
        return at_once(steps, writes_to(self.files))

    def begin(self) -> dict[str, Any]:
        case = self.case
        topology, cpu, memory = case["topology"], case["cpu"], case["memory"]
        stage = "cpu"
        try:
            self.manager = ContainerManager(
                machine_of(case["machine"]),
                Policies(
                    topology["policy"],
                    topology["scope"],
                    topology.get("options") or {},
                    cpu["policy"],
                    cpu.get("options") or {},
                    CPUSet.parse(cpu.get("reserved_cpus", "")),
                    memory["policy"],
                    tuple(reservations_of(memory.get("reserved_memory"))),
                    {name: parse(text) for name, text in case["reservation"].items()},
                ),
                active_pods=lambda: self.active,
                sources_ready=lambda: self.ready,
                features=features(case.get("gates")),
            )
            stage = "cpu-start"
            self.run(self.manager.cpu.start(self.files.get(CPU_FILE)))
            stage = "memory-start"
            self.run(self.manager.memory.start(self.files.get("memory_manager_state")))
        except ManagerError as error:
            return {"error": str(error), "stage": stage}
        return {"error": None}

    def changes(self) -> dict[str, Any]:
        now = {
            "cpus": shown_assignments(self.manager.cpu),
            "default": str(self.manager.cpu.state.default),
            "memory": shown_blocks(self.manager.memory),
            "machine": shown_machine(self.manager.memory),
        }
        changed = {key: value for key, value in now.items() if self.shown.get(key) != value}
        self.shown = now
        return changed

    def op(self, op: Any) -> dict[str, Any]:
        manager = self.manager
        kind = op["op"]
        if kind == "restart":
            self.active = []
            self.ready = False
            return self.begin()
        if kind == "sources_ready":
            self.ready = op["ready"]
            return {}
        pod = self.pods[op["pod"]]
        if kind == "start":
            container_id = f"{pod.uid}/{op['container']}"
            self.run(manager.add_container(pod, op["container"], container_id))
            return {}
        if kind == "remove":
            self.active = [each for each in self.active if each.uid != pod.uid]
            self.run(manager.remove_stale_state())
            return {}
        self.active = [*(each for each in self.active if each.uid != pod.uid), pod]
        decision = self.run(manager.admit(pod))
        if not decision.admitted:
            self.active.remove(pod)
            return {"admit": False, "reason": decision.reason, "message": decision.message}
        affinity = {}
        for container in containers_of(pod):
            hint = manager.topology.affinity(pod.uid, container.name)
            nodes = None if hint.mask is None else list(nodes_of(hint.mask))
            affinity[container.name] = {"nodes": nodes, "preferred": hint.preferred}
        return {"admit": True, "affinity": affinity}


def answer(case: Any) -> Any:
    """The start, each operation, and the CPU manager's file at the end."""
    node = _Node(case)
    start, ops, ended = replayed(node, case["ops"])
    found: dict[str, Any] = {"start": start, "ops": ops}
    if CPU_FILE in node.files and (not ended or start["error"] is not None):
        found["cpu_manager_state"] = node.files[CPU_FILE]
    return found
