"""The allocation manager of a node: pods come, are resized, wait, are retried, and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.decisions import at_once
from controlplane.kubelet.allocation.conditions import INFEASIBLE, ResizeConditions
from controlplane.kubelet.allocation.events import ResizeEvent
from controlplane.kubelet.allocation.feasibility import NO_SWAP, Feasibility
from controlplane.kubelet.allocation.manager import RESIZE, AllocationManager, Verdict
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.features import features
from controlplane.kubelet.node.admission import ADMITTED, Admission, predicates
from controlplane.metrics.numbers import Metrics


class _Node:
    """One case."""

    def __init__(self, case: Any) -> None:
        self.node = Node.from_tree(case["node"])
        self.trees = {tree["metadata"]["uid"]: tree for tree in case["pods"]}
        self.pods: dict[str, Pod] = {}
        self.ready = True
        self.now = 0
        self.synced: list[str] = []
        self.events: list[str] = []
        self.shown: dict[str, Any] = {}
        gates = features(case.get("gates"))
        metrics = Metrics()
        swap = case.get("swap") or {}
        self.feasibility = Feasibility(
            gates,
            metrics,
            case["cpu_policy"],
            case["memory_policy"],
            lambda _pod, container: swap.get(container, NO_SWAP),
        )
        self.conditions = ResizeConditions()
        self.manager = AllocationManager(
            self.admit,
            self.conditions,
            KubeletView(
                lambda: list(self.pods.values()),
                lambda: self.ready,
                gates,
                metrics,
            ),
            pod_by_uid=self.pods.get,
            sync=lambda pod: self.synced.append(pod.uid),
            record=self.record,
            now=lambda: self.now,
        )

    def record(self, event: ResizeEvent) -> None:
        self.events.append(f"{event.type} {event.reason} {event.message}")

    def admit(self, pod: Pod, others: Sequence[Pod], operation: str) -> Steps[Verdict]:
        """Feasibility of resizes, then the predicates; nobody is preempted."""
        yield from ()
        if operation == RESIZE:
            allocated = self.manager.allocation(pod.uid)
            assert allocated is not None
            objection = self.feasibility.objection(pod, allocated)
            if objection:
                return Admission(False, INFEASIBLE, objection)
        failures = predicates(pod, self.node, others)
        if failures:
            return Admission(False, failures[0].reason, failures[0].message)
        return ADMITTED

    def retry(self) -> None:
        at_once(self.manager.retry("test"))

    def op(self, op: Any) -> dict[str, Any]:
        self.now += 1_000_000_000
        kind = op["op"]
        if kind == "sources_ready":
            self.ready = op["ready"]
            return {}
        if kind == "retry":
            self.retry()
            return {}
        uid = op["pod"]
        if kind == "add":
            pod = Pod.from_tree(self.trees[uid])
            self.pods[uid] = pod
            verdict = at_once(self.manager.add_pod(pod))
            if verdict.admitted:
                return {"admit": True}
            del self.pods[uid]
            return {"admit": False, "reason": verdict.reason, "message": verdict.message}
        if kind == "push":
            if uid in self.pods:
                self.manager.push(uid)
            return {}
        if kind == "remove":
            self.pods.pop(uid, None)
            self.manager.remove_pod(uid)
            self.conditions.forget(uid)
            self.retry()
            return {}
        if kind == "actuated":
            cleared = self.conditions.clear_in_progress(uid)
            self.retry()
            generation = 0 if cleared is None else cleared.observed_generation
            return {"cleared": cleared is not None, "observed_generation": generation}
        known = self.pods.get(uid)
        if known is None:
            return {"skipped": True}
        self.pods[uid] = Pod.from_tree(_resized(known.tree, op))
        if at_once(self.manager.update(self.pods[uid])):
            self.retry()
        return {}

    def changes(self) -> dict[str, Any]:
        allocated = {}
        for uid, each in self.manager.state.entries.items():
            allocated[uid] = dict(each.containers)
            if each.pod_level is not None:
                allocated[uid]["(pod)"] = each.pod_level
        now: dict[str, Any] = {
            "allocated": allocated,
            "conditions": {
                uid: [
                    {
                        "type": each.type,
                        "status": "True",
                        "reason": each.reason,
                        "message": each.message,
                        "observedGeneration": each.observed_generation,
                    }
                    for each in self.conditions.of(uid)
                ]
                for uid in self.pods
                if self.conditions.of(uid)
            },
            "pending": list(self.manager.pending),
        }
        changed = {key: value for key, value in now.items() if self.shown.get(key) != value}
        if "allocated" in changed:
            before = self.shown.get("allocated", {})
            changed["allocated"] = {
                uid: each for uid, each in allocated.items() if before.get(uid) != each
            }
            if not changed["allocated"]:
                del changed["allocated"]
        self.shown = now
        for key, values in (("synced", self.synced), ("events", self.events)):
            if values:
                changed[key] = list(values)
                values.clear()
        return changed


def _resized(tree: Any, op: Any) -> Any:
    spec = dict(tree["spec"])
    for key in ("initContainers", "containers"):
        if key in spec:
            spec[key] = [
                {**each, "resources": op["containers"][each["name"]]}
                if each["name"] in op["containers"]
                else each
                for each in spec[key]
            ]
    if "resources" in op:
        spec["resources"] = op["resources"]
    meta = {**tree["metadata"], "generation": op["generation"]}
    return {**tree, "metadata": meta, "spec": spec}


def answer(case: Any) -> Any:
    """What each operation did."""
    node = _Node(case)
    return {"ops": [{**node.op(op), **node.changes()} for op in case["ops"]]}
