"""A small API server for Kueue's golden cases: objects by kind, and the effects of reconcilers carried out."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from controlplane.api.tree import Tree
from controlplane.kueue.controllers.effects import (
    ApplyStatus,
    Create,
    Delete,
    Done,
    Effect,
    Emit,
    MergePatch,
    Update,
)
from controlplane.kueue.workload.status_patch import replace_owned

KINDS = {
    "namespaces": "Namespace",
    "resourceFlavors": "ResourceFlavor",
    "topologies": "Topology",
    "nodes": "Node",
    "admissionChecks": "AdmissionCheck",
    "cohorts": "Cohort",
    "clusterQueues": "ClusterQueue",
    "localQueues": "LocalQueue",
    "workloads": "Workload",
    "limitRanges": "LimitRange",
    "runtimeClasses": "RuntimeClass",
    "workloadPriorityClasses": "WorkloadPriorityClass",
    "priorityClasses": "PriorityClass",
}


class Server:
    """Objects by kind, namespace and name; `events` as [type, reason, message] with their object's key."""

    def __init__(self, world: Tree) -> None:
        self.objects: dict[str, dict[tuple[str, str], Tree]] = {}
        self.events: list[list[str]] = []
        self.writes: list[Effect] = []
        for field, kind in KINDS.items():
            for each in world.get(field, ()):
                self.put(kind, each)

    def put(self, kind: str, tree: Tree) -> Tree:
        metadata = tree["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self.objects.setdefault(kind, {})[key] = tree
        return tree

    def get(self, kind: str, namespace: str, name: str) -> Tree | None:
        return self.objects.get(kind, {}).get((namespace, name))

    def list(self, kind: str, namespace: str = "") -> list[Tree]:
        found = sorted(self.objects.get(kind, {}).items())
        return [tree for (where, _), tree in found if namespace in {"", where}]

    def run(
        self,
        reconcile: Generator[Effect, Any, Done],
        refuse: Callable[[Effect], Exception | None] = lambda _: None,
    ) -> Done:
        """Carry the effects out one after the other; `refuse` may fail one."""
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                effect = reconcile.send(answer) if failure is None else reconcile.throw(failure)
            except StopIteration as stop:
                result: Done = stop.value
                return result
            answer, failure = None, refuse(effect)
            if failure is None:
                answer = self.carry_out(effect)

    def carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Emit):
            metadata = effect.regarding["metadata"]
            key = f"{metadata.get('namespace', '')}/{metadata['name']}"
            self.events.append([key, effect.type, effect.reason, effect.message])
            return None
        self.writes.append(effect)
        metadata = effect.body["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if isinstance(effect, Delete):
            return self.objects[effect.kind].pop(key)
        if isinstance(effect, Create):
            return self.put(effect.kind, effect.body)
        old = self.objects[effect.kind][key]
        if isinstance(effect, ApplyStatus):
            new = {**old, "status": replace_owned(old.get("status", {}), effect.body["status"])}
        elif isinstance(effect, Update | MergePatch):
            new = effect.body
        return old if without_empty(new) == without_empty(old) else self.put(effect.kind, new)


def without_empty(tree: Any) -> Any:
    """A tree without empty parts, conditions by type."""
    if isinstance(tree, dict):
        kept = {name: without_empty(value) for name, value in tree.items()}
        if kept.get("conditions"):
            kept["conditions"] = sorted(kept["conditions"], key=lambda each: str(each.get("type")))
        return {name: value for name, value in kept.items() if value not in (None, [], {})}
    if isinstance(tree, list):
        return [without_empty(each) for each in tree]
    return tree
