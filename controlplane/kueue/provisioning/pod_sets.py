"""The pod sets of a Workload that capacity is requested for, merged as the configuration says.

Follows `reqIsNeeded` and `mergePodSets` of `pkg/controller/admissionchecks/provisioning/controller.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import evolve, frozen

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kueue.controllers.effects import ReconcileError
from controlplane.kueue.values import same
from controlplane.kueue.workload.status import status_of

_INCONSISTENT: Final = "inconsistent podSet assignments"
_SCHEDULING_FIELDS: Final = ("nodeSelector", "tolerations", "affinity", "resourceClaims")


@frozen
class Requested:
    """Pods of one template in a ProvisioningRequest: those of a pod set, and of others that were merged into it."""

    pod_set: Tree
    assignment: Tree
    count: int


def is_needed(workload: Tree, config: Tree) -> bool:
    """Return whether a pod set of the admission has pods that use a managed resource.

    Raises:
        ReconcileError: The admission lacks a pod set.
    """
    assignments = _assignments(workload)
    for each in _managed(workload, config):
        if each["name"] not in assignments:
            raise ReconcileError(f'{_INCONSISTENT}: missing assignment for PodSet "{each["name"]}"')
        if _count(each, assignments[each["name"]]) > 0:
            return True
    return False


def requested(workload: Tree, config: Tree) -> list[Requested]:
    """Return the pod sets of a ProvisioningRequest.

    Raises:
        ReconcileError: The admission lacks a pod set.
    """
    policy = config["spec"].get("podSetMergePolicy") or ""
    assignments = _assignments(workload)
    found: list[Requested] = []
    for each in _managed(workload, config):
        if each["name"] not in assignments:
            raise ReconcileError(_INCONSISTENT)
        assignment = assignments[each["name"]]
        count = _count(each, assignment)
        if count <= 0:
            continue
        for at, known in enumerate(found):
            if _mergeable(known.pod_set, each, policy):
                found[at] = evolve(known, count=known.count + count)
                break
        else:
            found.append(Requested(each, assignment, count))
    return found


def _assignments(workload: Tree) -> dict[str, Tree]:
    admission = status_of(workload).get("admission") or EMPTY_MAP
    return {each["name"]: each for each in admission.get("podSetAssignments") or ()}


def _count(pod_set: Tree, assignment: Tree) -> int:
    count = assignment.get("count")
    return (pod_set.get("count") or 0) if count is None else int(count)


def _managed(workload: Tree, config: Tree) -> Iterable[Tree]:
    """Pod sets with pods that use one of the managed resources; without such a list, all with pods."""
    resources = frozenset(config["spec"].get("managedResources") or ())
    for each in workload["spec"].get("podSets") or ():
        if (each.get("count") or 0) > 0 and (not resources or _uses(each, resources)):
            yield each


def _pod_spec(pod_set: Tree) -> Tree:
    return (pod_set.get("template") or EMPTY_MAP).get("spec") or EMPTY_MAP


def _uses(pod_set: Tree, resources: frozenset[str]) -> bool:
    spec = _pod_spec(pod_set)
    return any(
        not resources.isdisjoint((each.get("resources") or EMPTY_MAP).get(kind) or ())
        for name in ("initContainers", "containers")
        for each in spec.get(name) or ()
        for kind in ("requests", "limits")
    )


def _mergeable(one: Tree, other: Tree, policy: str) -> bool:
    if policy == "IdenticalPodTemplates":
        return same(one.get("template") or {}, other.get("template") or {})
    if policy == "IdenticalWorkloadSchedulingRequirements":
        return same(_requirements(one), _requirements(other))
    return False


def _requirements(pod_set: Tree) -> Tree:
    """The fields that say where pods may go; of containers only their requests."""
    spec = _pod_spec(pod_set)
    found: Tree = {name: spec.get(name) for name in _SCHEDULING_FIELDS}
    found["resources"] = spec.get("resources")
    for name in ("initContainers", "containers"):
        found[name] = [
            {"requests": (each.get("resources") or EMPTY_MAP).get("requests") or {}}
            for each in spec.get(name) or ()
        ]
    return found
