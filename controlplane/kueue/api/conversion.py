"""Conversion of Kueue's objects between v1beta1 and v1beta2.

What only v1beta2 has is lost on the way to v1beta1, as upstream. Follows `apis/kueue/v1beta1/*_conversion.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from controlplane.api.tree import Tree
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import GROUP, VERSION
from controlplane.kueue.topology.assignment import Assignment, DomainCount, assignment_of
from controlplane.kueue.topology.encoding import encoded

__all__ = ["CONVERTED", "OLD_VERSION", "converted", "review"]

OLD_VERSION: Final = "v1beta1"
CLASS_SOURCES: Final = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
"""Group and kind of a priority class by what v1beta1 calls its source."""
OLD_WORDS: Final = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
"""Words of flavorFungibility that only v1beta1 has."""


class ConversionError(ValueError):
    """An object that cannot be converted."""


def review(request: Tree, gates: Gates) -> Tree:
    """The response to the `request` of a ConversionReview."""
    group, _, version = request["desiredAPIVersion"].rpartition("/")
    try:
        objects = [converted(each, group, version, gates) for each in request["objects"]]
    except ConversionError as error:
        return {"result": {"status": "Failure", "message": str(error)}, "convertedObjects": []}
    return {"result": {"status": "Success"}, "convertedObjects": objects}


def converted(tree: Tree, group: str, version: str, gates: Gates) -> Tree:
    """The object in another version.

    Raises:
        ConversionError: Its kind or one of the versions is not known.
    """
    of, _, given = tree["apiVersion"].rpartition("/")
    kind = tree.get("kind", "")
    wanted = {**tree, "apiVersion": f"{group}/{version}"}
    if given == version:
        return wanted
    ways = CONVERTED.get(kind)
    if of != GROUP or group != GROUP or ways is None or {given, version} != {OLD_VERSION, VERSION}:
        raise ConversionError(
            f"{tree['apiVersion']}, Kind={kind} cannot be converted to {group}/{version}"
        )
    up, down = ways
    return up(wanted, gates) if version == VERSION else down(wanted)


# -- parts -----------------------------------------------------------------------------------------


def _changed(tree: Tree, part: str, change: Callable[[Tree], Tree]) -> Tree:
    """The object with a part changed, if it has that part."""
    found = tree.get(part)
    return {**tree, part: change(found)} if isinstance(found, dict) else tree


def _changed_each(tree: Tree, part: str, change: Callable[[Tree], Tree]) -> Tree:
    """The object with each item of a list changed, if it has that list."""
    found = tree.get(part)
    return {**tree, part: [change(each) for each in found]} if isinstance(found, list) else tree


def _without(tree: Tree, *names: str) -> Tree:
    return {name: value for name, value in tree.items() if name not in names}


def _renamed(tree: Tree, old: str, new: str) -> Tree:
    if old not in tree:
        return tree
    return {**_without(tree, old), new: tree[old]}


# -- ClusterQueue, LocalQueue, Cohort --------------------------------------------------------------


def _cluster_queue_up(tree: Tree, _: Gates) -> Tree:
    def spec(old: Tree) -> Tree:
        new = _renamed(_without(old, "admissionChecks"), "cohort", "cohortName")
        checks: list[str] = old.get("admissionChecks") or []
        if checks:
            rules = [{"name": name} for name in checks]
            new = {**new, "admissionChecksStrategy": {"admissionChecks": rules}}
        return _changed(new, "flavorFungibility", _in_new_words)

    return _changed(_changed(tree, "spec", spec), "status", _queue_status_up)


def _in_new_words(fungibility: Tree) -> Tree:
    return {name: OLD_WORDS.get(value, value) for name, value in fungibility.items()}


def _queue_status_up(status: Tree) -> Tree:
    new = _without(status, "pendingWorkloadsStatus")
    return _changed(new, "fairSharing", lambda each: _without(each, "admissionFairSharingStatus"))


def _cluster_queue_down(tree: Tree) -> Tree:
    return _changed(
        tree,
        "spec",
        lambda spec: _renamed(_without(spec, "concurrentAdmissionPolicy"), "cohortName", "cohort"),
    )


def _local_queue_up(tree: Tree, _: Gates) -> Tree:
    return _changed(
        tree,
        "status",
        lambda status: _renamed(_without(status, "flavors"), "flavorUsage", "flavorsUsage"),
    )


def _local_queue_down(tree: Tree) -> Tree:
    return _changed(tree, "status", lambda each: _renamed(each, "flavorsUsage", "flavorUsage"))


def _cohort_up(tree: Tree, _: Gates) -> Tree:
    return _changed(tree, "status", _queue_status_up)


def _same(tree: Tree) -> Tree:
    return tree


# -- Workload --------------------------------------------------------------------------------------


def _workload_up(tree: Tree, gates: Gates) -> Tree:
    def spec(old: Tree) -> Tree:
        new = _without(old, "priorityClassName", "priorityClassSource")
        found = CLASS_SOURCES.get(old.get("priorityClassSource", ""))
        if found is not None:
            group, kind = found
            name = old.get("priorityClassName", "")
            new["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
        return new

    def topology(old: Tree) -> Tree:
        domains = tuple(
            DomainCount(tuple(each["values"]), each["count"]) for each in old.get("domains") or ()
        )
        return encoded(Assignment(tuple(old["levels"]), domains), gates)

    new = _changed(tree, "spec", spec)
    return _changed(new, "status", lambda each: _status(each, topology, _SECONDS))


def _workload_down(tree: Tree) -> Tree:
    def spec(old: Tree) -> Tree:
        new = _without(old, "priorityClassRef", "preemptionGates")
        given = old.get("priorityClassRef") or {}
        for source, (group, kind) in CLASS_SOURCES.items():
            if (given.get("group"), given.get("kind")) == (group, kind):
                new |= {"priorityClassSource": source, "priorityClassName": given["name"]}
        return _changed_each(new, "podSets", pod_set)

    def pod_set(old: Tree) -> Tree:
        return _changed(
            old,
            "topologyRequest",
            lambda each: _without(each, "podsetSliceRequiredTopologyConstraints"),
        )

    def topology(old: Tree) -> Tree:
        found = assignment_of(old)
        domains = [{"values": list(each.values), "count": each.count} for each in found.domains]
        return {"levels": list(found.levels), "domains": domains}

    new = _changed(tree, "spec", spec)
    old_seconds = (_SECONDS[1], _SECONDS[0])
    return _changed(
        new,
        "status",
        lambda each: _without(_status(each, topology, old_seconds), "preemptionGates"),
    )


_SECONDS: Final = ("accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
"""The field in v1beta1, which misspells it, and in v1beta2."""


def _status(status: Tree, topology: Callable[[Tree], Tree], seconds: tuple[str, str]) -> Tree:
    def admission(old: Tree) -> Tree:
        return _changed_each(
            old, "podSetAssignments", lambda each: _changed(each, "topologyAssignment", topology)
        )

    return _changed(_renamed(status, *seconds), "admission", admission)


Up = Callable[[Tree, Gates], Tree]
Down = Callable[[Tree], Tree]
CONVERTED: Final[Mapping[str, tuple[Up, Down]]] = {
    "ClusterQueue": (_cluster_queue_up, _cluster_queue_down),
    "LocalQueue": (_local_queue_up, _local_queue_down),
    "Cohort": (_cohort_up, _same),
    "Workload": (_workload_up, _workload_down),
}
"""The kinds that differ between the versions: to v1beta2, and to v1beta1."""
