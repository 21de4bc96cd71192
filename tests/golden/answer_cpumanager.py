"""The CPU manager: construction, start with a file, allocation, hints, removal, restart."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.decisions import at_once, writes_to
from controlplane.kubelet.cm.cpumanager.manager import CPUManager
from controlplane.kubelet.cm.cpumanager.state import FILE
from controlplane.kubelet.cm.cpuset import CPUSet
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.cm.topologymanager.hints import NO_HINT, TopologyHint
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.features import features
from tests.golden.kubelet_machines import (
    container_of,
    decided_hint,
    failure,
    machine_of,
    replayed,
    shown_hints,
)


class _Store:
    """What the topology manager would have decided."""

    def __init__(self, policy: str) -> None:
        self.policy_name = policy
        self.hint = NO_HINT

    def affinity(self, pod_uid: str, container: str) -> TopologyHint:
        return self.hint


def shown_assignments(manager: CPUManager) -> dict[str, str]:
    return {
        f"{uid}/{name}": str(cpus)
        for uid, pod in manager.state.assignments.items()
        for name, cpus in pod.items()
    }


class _Machine:
    """One case: a kubelet with its disk."""

    def __init__(self, case: Any) -> None:
        self.case = case
        self.pods = {tree["metadata"]["uid"]: Pod.from_tree(tree) for tree in case["pods"]}
        self.active = list(self.pods.values())
        self.store = _Store(case.get("topology_policy", "none"))
        self.files = {FILE: case["state_file"]} if "state_file" in case else {}
        self.shown: dict[str, Any] = {}
        self.manager: CPUManager

    def run(self, steps: Steps[Any]) -> Any:
        return at_once(steps, writes_to(self.files))

    def begin(self) -> dict[str, Any]:
        case = self.case
        known = {each[2]: (each[0], each[1]) for each in case.get("containers", ())}
        reservation = {name: parse(text) for name, text in case.get("reservation", {}).items()}
        stage = "new"
        try:
            self.manager = CPUManager(
                machine_of(case["machine"]),
                case["policy"],
                self.store,
                KubeletView(lambda: self.active, features=features(case.get("gates"))),
                options=case.get("options"),
                reservation=reservation,
                reserved_cpus=CPUSet.parse(case.get("reserved_cpus", "")),
            )
            stage = "start"
            self.run(self.manager.start(self.files.get(FILE), known))
        except ManagerError as error:
            return {"error": str(error), "stage": stage}
        policy = self.manager.policy
        return {
            "error": None,
            "allocatable": str(policy.allocatable),
            "reserved": str(policy.reserved),
        }

    def changes(self) -> dict[str, Any]:
        state = self.manager.state
        now: dict[str, Any] = {
            "assignments": shown_assignments(self.manager),
            "default": str(state.default),
        }
        if state.pods is not None:
            now["pod_assignments"] = {uid: str(cpus) for uid, cpus in state.pods.items()}
        changed = {key: value for key, value in now.items() if self.shown.get(key) != value}
        self.shown = now
        return changed

    def op(self, op: Any) -> dict[str, Any]:
        manager = self.manager
        kind = op["op"]
        if kind == "restart":
            return self.begin()
        if kind == "set_active":
            self.active = [self.pods[uid] for uid in op["pods"]]
            self.run(manager.remove_stale_state())
            return {}
        if kind == "remove":
            self.run(manager.remove(op["pod"], op["container"]))
            return {"error": None}
        pod = self.pods[op["pod"]]
        self.store.hint = decided_hint(op.get("affinity"))
        if kind == "pod_hints":
            return {"hints": shown_hints(self.run(manager.pod_topology_hints(pod)))}
        if kind == "hints":
            steps = manager.topology_hints(pod, container_of(pod, op["container"]))
            return {"hints": shown_hints(self.run(steps))}
        try:
            if kind == "allocate_pod":
                self.run(manager.allocate_pod(pod))
            else:
                self.run(manager.allocate(pod, container_of(pod, op["container"])))
        except ManagerError as error:
            return failure(error)
        return {"error": None}


def answer(case: Any) -> Any:
    """The start, each operation, and the file at the end."""
    node = _Machine(case)
    start, ops, _ = replayed(node, case["ops"])
    return {"start": start, "ops": ops, "state_file": node.files.get(FILE)}
