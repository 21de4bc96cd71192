"""A policy file: DeschedulerPolicy of descheduler/v1alpha2, read strictly and checked as upstream checks it.

Follows `pkg/descheduler/policyconfig.go`. Not supported, and refused by name: metrics providers, and utilization by
measured usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from controlplane.api.labels import Selector, SelectorError, parse
from controlplane.api.yaml_files import read_document
from controlplane.descheduler.evictions import Limits, PodEvictor
from controlplane.descheduler.profiles import build
from controlplane.descheduler.validation import PolicyError, check_profiles
from controlplane.descheduler.world import World
from controlplane.errors import UsageError, shown

__all__ = ["Policy", "load", "policy_of"]

API_VERSION: Final = "descheduler/v1alpha2"
KIND: Final = "DeschedulerPolicy"
_FIELDS: Final = (
    "apiVersion",
    "evictionFailureEventNotification",
    "gracePeriodSeconds",
    "kind",
    "maxNoOfPodsToEvictPerNamespace",
    "maxNoOfPodsToEvictPerNode",
    "maxNoOfPodsToEvictTotal",
    "metricsCollector",
    "metricsProviders",
    "nodeSelector",
    "profiles",
)
_PROFILE: Final = ("name", "pluginConfig", "plugins")
_POINTS: Final = ("balance", "deschedule", "filter", "preevictionfilter", "presort", "sort")
_SET: Final = ("disabled", "enabled")
_THRESHOLD: Final = "priorityThreshold"
_CONFIG: Final = ("args", "name")
_COMMON: Final = ("labelSelector", "namespaces")
_ARGS: Final[Mapping[str, tuple[str, ...]]] = {
    "DefaultEvictor": (
        "evictDaemonSetPods", "evictFailedBarePods", "evictLocalStoragePods", "evictSystemCriticalPods",
        "ignorePodsWithoutPDB", "ignorePvcPods", "labelSelector", "minPodAge", "minReplicas",
        "namespaceLabelSelector", "noEvictionPolicy", "nodeFit", "nodeSelector", "podProtections",
        _THRESHOLD,
    ),
    "HighNodeUtilization": ("evictableNamespaces", "evictionModes", "numberOfNodes", "thresholds"),
    "LowNodeUtilization": (
        "evictableNamespaces", "evictionLimits", "metricsUtilization", "numberOfNodes", "targetThresholds",
        "thresholds", "useDeviationThresholds",
    ),
    "PodLifeTime": (
        *_COMMON, "conditions", "exitCodes", "includingEphemeralContainers", "includingInitContainers",
        "maxPodLifeTimeSeconds", "ownerKinds", "states",
    ),
    "RemoveDuplicates": ("excludeOwnerKinds", "namespaces"),
    "RemoveFailedPods": (
        *_COMMON, "excludeOwnerKinds", "exitCodes", "includingInitContainers", "minPodLifetimeSeconds", "reasons",
    ),
    "RemovePodsHavingTooManyRestarts": (
        *_COMMON, "includingInitContainers", "podRestartThreshold", "states",
    ),
    "RemovePodsViolatingInterPodAntiAffinity": _COMMON,
    "RemovePodsViolatingNodeAffinity": (*_COMMON, "nodeAffinityType"),
    "RemovePodsViolatingNodeTaints": (
        *_COMMON, "excludedTaints", "includePreferNoSchedule", "includedTaints",
    ),
    "RemovePodsViolatingTopologySpreadConstraint": (
        *_COMMON, "constraints", "topologyBalanceNodeFit",
    ),
}  # fmt: skip
"""The arguments of each plugin."""


@frozen
class Policy:
    """A policy that is valid.

    Args:
        profiles: the profiles as they were written.
        limits: the limits of a pass.
        nodes: the nodes that passes look at.
        grace_period_seconds: the grace period of each eviction, None for the pod's own.
        notifies_failures: failed evictions are events too.
    """

    profiles: tuple[dict[str, Any], ...]
    limits: Limits
    nodes: Selector
    grace_period_seconds: int | None = None
    notifies_failures: bool = False


def load(path: Path) -> Policy:
    """Read a policy file. Raises UsageError that names the file and the field."""
    tree = read_document(path)
    try:
        return policy_of(tree)
    except PolicyError as error:
        raise UsageError(f"{path}: {error}") from None


def policy_of(tree: Any) -> Policy:
    """Return a policy from its tree. Raises PolicyError."""
    _is_map(tree, "the policy")
    if (tree.get("apiVersion"), tree.get("kind")) != (API_VERSION, KIND):
        found = f"{shown(str(tree.get('apiVersion')))}, {shown(str(tree.get('kind')))}"
        raise PolicyError(f"apiVersion, kind: {found}: expected {API_VERSION}, {KIND}")
    _check_fields(tree, _FIELDS, "")
    if tree.get("metricsProviders") or (tree.get("metricsCollector") or {}).get("enabled"):
        raise PolicyError("metricsProviders: utilization by measured usage is not supported")
    profiles = tuple(_profile(each, f"profiles[{n}]") for n, each in _listed(tree, "profiles", ""))
    check_profiles(list(profiles))
    for each in profiles:
        _check_plugins(each)
    try:
        nodes = parse(tree.get("nodeSelector") or "")
    except SelectorError as error:
        raise PolicyError(f"nodeSelector: {error}") from None
    limits = [
        _number(tree, f"maxNoOfPodsToEvict{each}") for each in ("PerNode", "PerNamespace", "Total")
    ]
    return Policy(
        profiles,
        Limits(*limits),
        nodes,
        _number(tree, "gracePeriodSeconds"),
        bool(tree.get("evictionFailureEventNotification")),
    )


def _check_plugins(profile: dict[str, Any]) -> None:
    """Refuse a profile that cannot be built, whatever priority classes there are."""
    configs = [
        {**each, "args": {k: v for k, v in (each.get("args") or {}).items() if k != _THRESHOLD}}
        for each in profile.get("pluginConfig") or ()
    ]
    evictor = PodEvictor(Limits(), lambda _: None)
    try:
        build({**profile, "pluginConfig": configs}, World(), evictor, {})
    except ValueError as error:
        raise PolicyError(str(error)) from None


def _profile(tree: Any, where: str) -> dict[str, Any]:
    _is_map(tree, where)
    _check_fields(tree, _PROFILE, where)
    for number, config in _listed(tree, "pluginConfig", where):
        at = f"{where}.pluginConfig[{number}]"
        _is_map(config, at)
        _check_fields(config, _CONFIG, at)
        known = _ARGS.get(config.get("name", ""))
        args = config.get("args")
        if args is not None:
            _is_map(args, f"{at}.args")
        if known is not None:
            _check_fields(args or {}, known, f"{at}.args")
        if (args or {}).get("metricsUtilization"):
            text = "utilization by measured usage is not supported"
            raise PolicyError(f"{at}.args.metricsUtilization: {text}")
    plugins = tree.get("plugins") or {}
    _is_map(plugins, f"{where}.plugins")
    _check_fields(plugins, _POINTS, f"{where}.plugins")
    for point, chosen in plugins.items():
        _is_map(chosen or {}, f"{where}.plugins.{point}")
        _check_fields(chosen or {}, _SET, f"{where}.plugins.{point}")
        for _, name in _listed(chosen or {}, "enabled", f"{where}.plugins.{point}"):
            if not isinstance(name, str):
                raise PolicyError(f"{where}.plugins.{point}.enabled: expected names of plugins")
    for point in ("filter", "preevictionfilter"):
        others = [
            name
            for name in (plugins.get(point) or {}).get("enabled") or ()
            if name != "DefaultEvictor"
        ]
        if others:
            text = f"{', '.join(others)}: only DefaultEvictor is supported"
            raise PolicyError(f"{where}.plugins.{point}.enabled: {text}")
    return dict(tree)


def _is_map(tree: Any, where: str) -> None:
    if not isinstance(tree, dict):
        raise PolicyError(f"{where}: expected a map")


def _check_fields(tree: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in tree:
        if name not in known:
            place = f"{where}.{name}" if where else name
            raise PolicyError(f"{place}: unknown field; known are {', '.join(sorted(known))}")


def _listed(tree: Mapping[str, Any], field: str, where: str) -> list[tuple[int, Any]]:
    found = tree.get(field) or []
    if not isinstance(found, list):
        raise PolicyError(
            f"{where}.{field}: expected a list" if where else f"{field}: expected a list"
        )
    return list(enumerate(found))


def _number(tree: Mapping[str, Any], field: str) -> int | None:
    found = tree.get(field)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise PolicyError(f"{field}: {shown(str(found))}: expected a number from 0 on")
    return found
