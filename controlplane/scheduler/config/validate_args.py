"""Validation of plugin arguments (in their external form, defaulted).

Upstream: `pkg/scheduler/apis/config/validation/validation_pluginargs.go`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from controlplane.api.constraints import NodeAffinity
from controlplane.api.decoding import decode
from controlplane.api.go_structs import parse_duration
from controlplane.api.labels import SelectorError
from controlplane.api.node_selector import PreferredTerms, node_selector
from controlplane.api.times import SECOND
from controlplane.api.validation import child, label_key_errors, not_supported, quote

Json = Any
Rule = Callable[[str, Json], list[str]]

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


def bad(path: str, value: Json, detail: str) -> str:
    """The text of an "Invalid value" error, the value shown as JSON."""
    shown = quote(value) if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return f"{path}: Invalid value: {shown}: {detail}"


def _default_preemption(path: str, args: Json) -> list[str]:
    percentage, absolute = args["minCandidateNodesPercentage"], args["minCandidateNodesAbsolute"]
    at_percentage = child(path, "minCandidateNodesPercentage")
    at_absolute = child(path, "minCandidateNodesAbsolute")
    errors: list[str] = []
    if not 0 <= percentage <= 100:
        errors.append(bad(at_percentage, percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        errors.append(bad(at_absolute, absolute, "not in valid range [0, inf)"))
    if percentage == 0 and absolute == 0:
        same = "cannot be zero at the same time as"
        errors.append(bad(at_percentage, percentage, f"{same} minCandidateNodesAbsolute"))
        errors.append(bad(at_absolute, absolute, f"{same} minCandidateNodesPercentage"))
    return errors


def _inter_pod_affinity(path: str, args: Json) -> list[str]:
    weight = args["hardPodAffinityWeight"]
    if 0 <= weight <= 100:
        return []
    return [bad(child(path, "hardPodAffinityWeight"), weight, "not in valid range [0, 100]")]


def _node_affinity(path: str, args: Json) -> list[str]:
    added = args.get("addedAffinity")
    if added is None:
        return []
    affinity = decode(NodeAffinity, added)
    base = child(path, "addedAffinity")
    errors: list[str] = []
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        try:
            node_selector(required, f"{base}.requiredDuringSchedulingIgnoredDuringExecution")
        except SelectorError as broken:
            errors += broken.messages
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    if preferred:
        try:
            PreferredTerms(preferred, f"{base}.preferredDuringSchedulingIgnoredDuringExecution")
        except SelectorError as broken:
            errors += broken.messages
    return errors


def _balanced_allocation(path: str, args: Json) -> list[str]:
    errors: list[str] = []
    seen: set[str] = set()
    for i, resource in enumerate(args["resources"]):
        at = f"{child(path, 'resources')}[{i}]"
        if resource["name"] in seen:
            errors.append(f"{at}.name: Duplicate value: {quote(resource['name'])}")
        seen.add(resource["name"])
        if resource["weight"] != 1:
            errors.append(bad(f"{at}.weight", resource["weight"], "must be 1"))
    return errors


def _fit(path: str, args: Json) -> list[str]:
    errors: list[str] = []
    for i, name in enumerate(args.get("ignoredResources", ())):
        errors += _label_name(f"{child(path, 'ignoredResources')}[{i}]", name)
    for i, group in enumerate(args.get("ignoredResourceGroups", ())):
        at = f"{child(path, 'ignoredResourceGroups')}[{i}]"
        if "/" in group:
            errors.append(bad(at, group, "resource group name can't contain '/'"))
        errors += _label_name(at, group)
    strategy = args["scoringStrategy"]
    base = child(path, "scoringStrategy")
    kind = strategy.get("type", "")
    if kind not in _STRATEGIES:
        errors.append(not_supported(f"{base}.type", kind, _STRATEGIES))
    for i, resource in enumerate(strategy["resources"]):
        if not 0 < resource["weight"] <= 100:
            detail = f"resource weight of {resource['name']} not in valid range (0, 100]"
            errors.append(bad(f"{base}.resources[{i}].weight", resource["weight"], detail))
    ratio = strategy.get("requestedToCapacityRatio")
    at = f"{base}.requestedToCapacityRatio"
    if kind == "RequestedToCapacityRatio":
        if ratio is None:
            detail = "must be specified when type is RequestedToCapacityRatio"
            errors.append(f"{at}: Required value: {detail}")
        else:
            errors += _shape(f"{at}.shape", ratio.get("shape", ()))
    elif ratio is not None:
        detail = "must be nil when type is not RequestedToCapacityRatio"
        errors.append(f"{at}: Forbidden: {detail}")
    return errors


def _shape(path: str, shape: Sequence[Mapping[str, int]]) -> list[str]:
    if not shape:
        return [f"{path}: Required value: at least one point must be specified"]
    errors: list[str] = []
    points = [(point.get("utilization", 0), point.get("score", 0)) for point in shape]
    for i in range(1, len(points)):
        if points[i - 1][0] >= points[i][0]:
            detail = "values must be sorted in increasing order"
            errors.append(bad(f"{path}[{i}].utilization", points[i][0], detail))
            break
    for i, (utilization, score) in enumerate(points):
        if not 0 <= utilization <= 100:
            detail = "not in valid range [0, 100]"
            errors.append(bad(f"{path}[{i}].utilization", utilization, detail))
        if not 0 <= score <= 10:
            errors.append(bad(f"{path}[{i}].score", score, "not in valid range [0, 10]"))
    return errors


def _label_name(path: str, name: str) -> Iterable[str]:
    return [bad(path, name, text) for text in label_key_errors(name)]


def _topology_spread(path: str, args: Json) -> list[str]:
    errors: list[str] = []
    kind, constraints = args["defaultingType"], args.get("defaultConstraints", ())
    at = child(path, "defaultingType")
    if kind not in ("System", "List"):
        errors.append(not_supported(at, kind, ("System", "List")))
    elif kind == "System" and constraints:
        errors.append(bad(at, kind, "when .defaultConstraints are not empty"))
    seen: list[tuple[str, str]] = []
    base = child(path, "defaultConstraints")
    for i, constraint in enumerate(constraints):
        at = f"{base}[{i}]"
        skew = constraint.get("maxSkew", 0)
        if skew <= 0:
            errors.append(bad(f"{at}.maxSkew", skew, "not in valid range (0, inf)"))
        key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if not key:
            errors.append(f"{at}.topologyKey: Required value: can not be empty")
        else:
            errors += _label_name(f"{at}.topologyKey", key)
        if not action:
            errors.append(f"{at}.whenUnsatisfiable: Required value: can not be empty")
        elif action not in _ACTIONS:
            errors.append(not_supported(f"{at}.whenUnsatisfiable", action, _ACTIONS))
        if constraint.get("labelSelector") is not None:
            detail = "constraint must not define a selector, as they deduced for each pod"
            errors.append(f"{at}.labelSelector: Forbidden: {detail}")
        if (key, action) in seen:
            shown = quote("{" + f"{key}, {action}" + "}")
            errors.append(f"{at}: Duplicate value: {shown}")
        seen.append((key, action))
    return errors


def _volume_binding(path: str, args: Json) -> list[str]:
    errors: list[str] = []
    timeout = args["bindTimeoutSeconds"]
    if timeout < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.append(bad(child(path, "bindTimeoutSeconds"), timeout, detail))
    shape = args.get("shape")
    if shape is not None:
        shown = [
            {"Utilization": point.get("utilization", 0), "Score": point.get("score", 0)}
            for point in shape
        ]
        detail = (
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        )
        errors.append(bad(child(path, "shape"), shown, detail))
    return errors


def _dynamic_resources(path: str, args: Json) -> list[str]:
    errors: list[str] = []
    if parse_duration(args["filterTimeout"]) < 0:
        at = child(path, "filterTimeout")
        errors.append(bad(at, args["filterTimeout"], "must be zero or positive"))
    if parse_duration(args["bindingTimeout"]) < SECOND:
        at = child(path, "bindingTimeout")
        errors.append(bad(at, args["bindingTimeout"], "must be at least 1 second"))
    return errors


ARGS_RULES: Mapping[str, Rule] = {
    "DefaultPreemption": _default_preemption,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "NodeResourcesFit": _fit,
    "PodTopologySpread": _topology_spread,
    "VolumeBinding": _volume_binding,
    "DynamicResources": _dynamic_resources,
}
