"""Values as Go compares and prints them: quantities by amount, empty parts as absent, fields in Go's order."""

from __future__ import annotations

from typing import Any, Final

from controlplane.api.quantity import parse
from controlplane.api.tree import Tree
from controlplane.apiserver.schema.field_order import in_order

__all__ = ["ordered", "ordered_pod_set", "ordered_pod_sets", "same"]

_AMOUNTS: Final = frozenset(("requests", "limits", "resourceUsage", "overhead", "capacity"))
_FIELDS: Final = {
    name: rank
    for rank, name in enumerate(
        (
            # ClusterQueuePreemption, BorrowWithinCohort
            *("reclaimWithinCohort", "borrowWithinCohort", "policy", "maxPriorityThreshold"),
            "withinClusterQueue",
            # ConcurrentAdmissionPolicy
            *("migration", "mode", "constraints", "lastAcceptableFlavorName"),
            # Taint, Toleration
            *("key", "operator", "value", "effect", "tolerationSeconds", "timeAdded"),
            # Admission, PodSetUpdate
            *("clusterQueue", "podSetAssignments", "name", "labels", "annotations"),
            *("nodeSelector", "tolerations", "flavors", "resourceUsage", "count"),
            *("topologyAssignment", "delayedTopologyRequest"),
            # TopologyAssignment
            *("levels", "slices", "domainCount", "valuesPerLevel", "podCounts", "universal"),
            *("individual", "prefix", "suffix", "roots"),
            # PodSetTopologyRequest
            *("required", "preferred", "unconstrained", "podIndexLabel", "subGroupIndexLabel"),
            *("subGroupCount", "podSetGroupName", "podSetSliceRequiredTopology"),
            *("podSetSliceSize", "podsetSliceRequiredTopologyConstraints", "topology", "size"),
        )
    )
}
_FREE: Final = frozenset(("labels", "annotations", "nodeSelector", "flavors", "resourceUsage"))
"""Maps: their keys are sorted."""
_ABSENT_WHEN_EMPTY: Final = frozenset(
    ("metadata", "resources", "template", "spec", "migration", "matchLabels", *_FREE, *_AMOUNTS)
)
"""Fields whose empty value is that of an absent one; elsewhere `{}` is a value of its own."""
_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"


def ordered(value: Any) -> Any:
    """A part of one of Kueue's objects with its fields in the order of upstream's types."""
    if isinstance(value, list):
        return [ordered(each) for each in value]
    if not isinstance(value, dict):
        return value
    names = sorted(value, key=lambda name: (_FIELDS.get(name, len(_FIELDS)), name))
    return {
        name: dict(sorted(_amounts(name, value[name]).items()))
        if name in _FREE and value[name]
        else ordered(value[name])
        for name in names
    }


def ordered_pod_set(pod_set: Tree) -> Tree:
    """A pod set as upstream prints it."""
    template = in_order(_TEMPLATE, {"metadata": {}, "spec": {}, **(pod_set.get("template") or {})})
    shown: Tree = {"name": pod_set.get("name", ""), "template": _with_resources(template)}
    shown["count"] = pod_set.get("count") or 0
    if pod_set.get("minCount") is not None:
        shown["minCount"] = pod_set["minCount"]
    if pod_set.get("topologyRequest") is not None:
        shown["topologyRequest"] = ordered(pod_set["topologyRequest"])
    return shown


def ordered_pod_sets(pod_sets: list[Tree]) -> list[Tree]:
    """Pod sets as upstream prints them."""
    return [ordered_pod_set(each) for each in pod_sets]


def _with_resources(template: Tree) -> Tree:
    """A template whose containers all have resources, with canonical amounts, and a list of containers."""
    spec = dict(template.get("spec") or {})
    for name in ("initContainers", "containers"):
        if spec.get(name):
            spec[name] = [_container(each) for each in spec[name]]
    if "containers" not in spec:
        spec["containers"] = None
    for name in ("overhead",):
        if spec.get(name):
            spec[name] = _amounts(name, spec[name])
    return in_order(_TEMPLATE, {**template, "spec": spec})


def _container(container: Tree) -> Tree:
    resources = {
        name: _amounts(name, value) for name, value in (container.get("resources") or {}).items()
    }
    return {**container, "resources": resources}


def _amounts(name: str, value: Any) -> Any:
    if name not in _AMOUNTS or not isinstance(value, dict):
        return value
    return {resource: str(parse(str(amount))) for resource, amount in value.items()}


def same(a: Any, b: Any) -> bool:
    """Return whether two values are semantically equal: amounts by number, empty lists and maps as absent."""
    return bool(_plain("", a) == _plain("", b))


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        if name in _AMOUNTS:
            return {key: parse(str(amount)) for key, amount in value.items()}
        plain = {key: _plain(key, part) for key, part in value.items()}
        return {
            key: part
            for key, part in plain.items()
            if part not in (None, []) and (part != {} or key not in _ABSENT_WHEN_EMPTY)
        }
    if isinstance(value, list):
        return [_plain(name, part) for part in value]
    return value
