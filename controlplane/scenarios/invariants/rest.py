"""Invariants of a cluster that is left alone: it comes to rest, and its workloads are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.tree import is_ready
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import PODS, stored_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.tree import Tree
    from controlplane.scenarios.engine.run import Run

__all__ = ["AT_REST_WORKLOADS_ARE_COMPLETE", "CALM", "pods_settle"]

CALM: Final = "the last change"
"""Note: from then on users and faults change nothing. The workload sets it to an empty dictionary."""
_WANTED: Final = {
    "deployments": ("updatedReplicas", "availableReplicas", "readyReplicas", "replicas"),
    "statefulsets": ("updatedReplicas", "readyReplicas", "replicas"),
    "replicasets": ("readyReplicas", "replicas"),
}
"""The fields of a status that have to equal the replicas asked for, by resource of apps."""


def pods_settle(most: int) -> Invariant:
    """Bound the number of pods that are created after the note `CALM` is set.

    A system that evicts pods which their controller creates again, and which the scheduler places on the same node,
    never comes to rest.
    """

    def check(run: Run) -> str | None:
        if CALM not in run.notes:
            return None
        seen: dict[str, str] = run.notes[CALM]
        for obj in run.objects(PODS):
            seen.setdefault(obj.uid, obj.name)
        if len(seen) <= most:
            return None
        last = list(seen.values())[-3:]
        return f"{len(seen)} pods since the last change, the last are {', '.join(last)}"

    return Invariant(
        "the pods of a cluster that is left alone settle",
        check,
        ("apiserver",),
        looks_at=lambda run: (CALM in run.notes, stored_pods(run)),
    )


def _incomplete(run: Run) -> str | None:
    """Name a workload whose status is not what its spec asks for."""
    if CALM not in run.notes:
        return None
    for resource, fields in _WANTED.items():
        for obj in run.objects(f"/registry/{resource}/"):
            for field, found, wanted in _differences(obj.tree, fields):
                return f"{obj.tree['kind']} {obj.key} has {field} {found}, and asks for {wanted}"
    for obj in run.objects("/registry/daemonsets/"):
        status = obj.tree.get("status") or {}
        wanted = status.get("desiredNumberScheduled", 0)
        for field, found, _ in _differences(obj.tree, ("numberReady", "updatedNumberScheduled")):
            if found != wanted:
                return f"DaemonSet {obj.key} has {field} {found}, and asks for {wanted}"
    return _unready(run)


def _differences(tree: Tree, fields: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
    if tree["metadata"].get("deletionTimestamp"):
        yield "deletionTimestamp", tree["metadata"]["deletionTimestamp"], "nothing"
    status, wanted = tree.get("status") or {}, tree["spec"].get("replicas", 1)
    seen, generation = status.get("observedGeneration"), tree["metadata"].get("generation")
    if seen != generation:
        yield "observedGeneration", seen, generation
    for field in fields:
        if status.get(field, 0) != wanted:
            yield field, status.get(field, 0), wanted


def _unready(run: Run) -> str | None:
    """Name a pod that has a node and a controller, and is not ready, or not on its way out."""
    for obj in run.objects(PODS):
        meta, status = obj.metadata, obj.tree.get("status") or {}
        if meta.get("deletionTimestamp"):
            return f"{obj.name} is still being deleted"
        if not obj.tree["spec"].get("nodeName") or not meta.get("ownerReferences"):
            continue
        if status.get("phase") == "Running" and not is_ready(obj.tree):
            return f"{obj.name} runs and is not ready"
    return None


AT_REST_WORKLOADS_ARE_COMPLETE = Invariant("workloads are complete at rest", _incomplete)
"""For worlds with room for all pods, whose programs become ready."""
