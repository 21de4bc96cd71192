"""The memory manager: construction, start with a file, allocation, hints, removal, restart."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.decisions import at_once, writes_to
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.memorymanager.manager import MemoryManager
from controlplane.kubelet.cm.memorymanager.state import FILE, Blocks
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.cm.topologymanager.hints import NO_HINT, TopologyHint
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.features import features
from tests.golden.kubelet_machines import (
    container_of,
    decided_hint,
    failure,
    memory_of,
    replayed,
    reservations_of,
    shown_hints,
)


class _Store:
    """What the topology manager would have decided."""

    hint = NO_HINT

    def affinity(self, pod_uid: str, container: str) -> TopologyHint:
        return self.hint


def _shown(blocks: Blocks) -> list[Any]:
    return [[block.kind, list(block.nodes), block.size] for block in blocks]


def shown_blocks(manager: MemoryManager) -> dict[str, Any]:
    return {
        f"{uid}/{name}": _shown(blocks)
        for uid, pod in manager.state.entries.items()
        for name, blocks in pod.items()
    }


def shown_machine(manager: MemoryManager) -> dict[str, Any]:
    return {
        str(node): {
            "assignments": state.assignments,
            "cells": list(state.cells),
            **{kind: [table.reserved, table.free] for kind, table in state.memory.items()},
        }
        for node, state in manager.state.machine.items()
    }


class _Node:
    """One case: a kubelet with its disk."""

    def __init__(self, case: Any) -> None:
        self.case = case
        self.pods = {tree["metadata"]["uid"]: Pod.from_tree(tree) for tree in case["pods"]}
        self.active = list(self.pods.values())
        self.store = _Store()
        self.files = {FILE: case["state_file"]} if "state_file" in case else {}
        self.shown: dict[str, Any] = {}
        self.manager: MemoryManager

    def run(self, steps: Steps[Any]) -> Any:
        return at_once(steps, writes_to(self.files))

    def begin(self) -> dict[str, Any]:
        case = self.case
        stage = "new"
        try:
            self.manager = MemoryManager(
                memory_of(case["nodes"]),
                case["policy"],
                self.store,
                KubeletView(lambda: self.active, features=features(case.get("gates"))),
                reservation={name: parse(text) for name, text in case["reservation"].items()},
                reserved_memory=reservations_of(case["reserved_memory"]),
            )
            stage = "start"
            self.run(self.manager.start(self.files.get(FILE)))
        except ManagerError as error:
            return {"error": str(error), "stage": stage}
        return {"error": None}

    def changes(self) -> dict[str, Any]:
        state = self.manager.state
        now: dict[str, Any] = {
            "blocks": shown_blocks(self.manager),
            "machine": shown_machine(self.manager),
        }
        if state.pods is not None:
            now["pod_blocks"] = {uid: _shown(blocks) for uid, blocks in state.pods.items()}
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
        pod = self.pods[op["pod"]]
        if kind == "remove":
            self.run(manager.remove(pod.uid, op["container"]))
            return {}
        if kind == "start":
            container_id = f"{pod.uid}/{op['container']}"
            self.run(manager.add_container(pod, op["container"], container_id))
            return {}
        if kind == "numa_nodes":
            return {"numa_nodes": list(manager.numa_nodes(pod.uid, op["container"])) or None}
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
    node = _Node(case)
    start, ops, _ = replayed(node, case["ops"])
    return {"start": start, "ops": ops, "state_file": node.files.get(FILE)}
