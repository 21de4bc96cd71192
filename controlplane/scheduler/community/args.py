"""Arguments of community plugins: read strictly, defaulted, validated.

Names of fields in what is returned are those of upstream's internal types. Upstream: apis/config/v1/defaults.go,
apis/config/validation, and the constructors of the plugins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.api.go_structs import DecodeError, Decoder, Structs
from controlplane.api.quantity import QuantityError, parse

__all__ = ["ArgsError", "arguments", "defaulted", "has_arguments", "number", "problem"]

Tree = Mapping[str, Any]
Args = dict[str, Any]


class ArgsError(ValueError):
    """Arguments that cannot be used; the text is upstream's."""


_STRINGS: Final = ("list", "string")
_RESOURCES: Final = ("list", "ResourceSpec")
_TRIMARAN: Final = {"metricProvider": "MetricProviderSpec", "watcherAddress": "string"}
_NAMESPACES: Final = {"namespaces": _STRINGS}
_STRUCTS: Final[Structs] = {
    "CoschedulingArgs": {
        "permitWaitingTimeSeconds": "int64",
        "podGroupBackoffSeconds": "int64",
        "podGroupRejectPercentage": "int32",
    },
    "NodeResourcesAllocatableArgs": {"resources": _RESOURCES, "mode": "string"},
    "TargetLoadPackingArgs": {
        **_TRIMARAN,
        "defaultRequests": ("map", "raw"),
        "defaultRequestsMultiplier": "string",
        "targetUtilization": "int64",
    },
    "LoadVariationRiskBalancingArgs": {
        **_TRIMARAN,
        "safeVarianceMargin": "float64",
        "safeVarianceSensitivity": "float64",
    },
    "LowRiskOverCommitmentArgs": {
        **_TRIMARAN,
        "smoothingWindowSize": "int64",
        "riskLimitWeights": ("map", "float64"),
    },
    "PeaksArgs": {"WatcherAddress": "string", "NodePowerModel": ("map", "PowerModel")},
    "NodeResourceTopologyMatchArgs": {
        "scoringStrategy": "ScoringStrategy",
        "cacheResyncPeriodSeconds": "int64",
        "discardReservedNodes": "bool",
        "cache": "NodeResourceTopologyCache",
        "preemptionMode": "string",
    },
    "PreemptionTolerationArgs": {
        "minCandidateNodesPercentage": "int32",
        "minCandidateNodesAbsolute": "int32",
    },
    "TopologicalSortArgs": _NAMESPACES,
    "NetworkOverheadArgs": {
        **_NAMESPACES,
        "weightsName": "string",
        "networkTopologyName": "string",
    },
    "SySchedArgs": dict.fromkeys(("defaultProfileNamespace", "defaultProfileName"), "string"),
    "NodeMetadataArgs": dict.fromkeys(
        ("metadataKey", "metadataSource", "metadataType", "scoringStrategy", "timestampFormat"),
        "string",
    ),
    "ResourceSpec": {"name": "string", "weight": "int64"},
    "MetricProviderSpec": {
        "type": "string",
        "address": "string",
        "token": "string",
        "insecureSkipVerify": "bool",
    },
    "PowerModel": dict.fromkeys(("k0", "k1", "k2"), "float64"),
    "ScoringStrategy": {"type": "string", "resources": _RESOURCES},
    "NodeResourceTopologyCache": dict.fromkeys(
        ("foreignPodsDetect", "resyncMethod", "informerMode", "resyncScope"), "string"
    ),
}
"""The arguments of each plugin, under its name and `Args` (`controlplane.api.go_structs`)."""
_PROVIDERS: Final = ("KubernetesMetricsServer", "Prometheus", "SignalFx")


def has_arguments(name: str) -> bool:
    """Return whether a plugin takes arguments."""
    return f"{name}Args" in _STRUCTS


def arguments(name: str, tree: Tree | None) -> Args:
    """Return the arguments of a plugin, defaulted and checked. Raises ArgsError."""
    args = defaulted(name, tree)
    told = problem(name, args)
    if told:
        raise ArgsError(told)
    return args


def defaulted(name: str, tree: Tree | None) -> Args:
    """Return the arguments of a plugin with upstream's defaults. ArgsError for a field or type that is wrong."""
    decoder = Decoder(_STRUCTS)
    try:
        given = decoder.struct(f"{name}Args", tree or {})
    except DecodeError as error:
        raise ArgsError(str(error)) from None
    if decoder.unknown:
        raise ArgsError(f"strict decoding error: {', '.join(sorted(decoder.unknown))}")
    return _DEFAULTS[name](given)


def problem(name: str, args: Args) -> str:
    """Return why the plugin cannot be made with defaulted arguments; "" if it can."""
    check = _CHECKS.get(name)
    return check(args) if check is not None else ""


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


# -- defaults --------------------------------------------------------------------------------------


def _coscheduling(given: Tree) -> Args:
    return {
        "PermitWaitingTimeSeconds": _or(given.get("permitWaitingTimeSeconds"), 60),
        "PodGroupBackoffSeconds": _or(given.get("podGroupBackoffSeconds"), 0),
        "PodGroupRejectPercentage": _or(given.get("podGroupRejectPercentage"), 10),
    }


def _weights(resources: Any) -> list[Args]:
    return [
        {"Name": each.get("name", ""), "Weight": each.get("weight", 0)} for each in resources or ()
    ]


def _allocatable(given: Tree) -> Args:
    resources = _weights(given.get("resources")) or [
        {"Name": "cpu", "Weight": 1 << 20},
        {"Name": "memory", "Weight": 1},
    ]
    return {"resources": resources, "mode": given.get("mode") or "Least"}


def _trimaran(given: Tree) -> Args:
    provider = given.get("metricProvider") or {}
    kind = provider.get("type") or ""
    if given.get("watcherAddress") is None and not kind:
        kind = "KubernetesMetricsServer"
    skip = provider.get("insecureSkipVerify")
    return {
        "MetricProvider": {
            "Type": kind,
            "Address": provider.get("address") or "",
            "Token": provider.get("token") or "",
            "InsecureSkipVerify": bool(kind == "Prometheus" if skip is None else skip),
        },
        "WatcherAddress": given.get("watcherAddress") or "",
    }


def _target(given: Tree) -> Args:
    target = given.get("targetUtilization")
    requests = given.get("defaultRequests")
    return {
        **_trimaran(given),
        "DefaultRequests": {"cpu": "1"} if requests is None else _canonical(requests),
        "DefaultRequestsMultiplier": _or(given.get("defaultRequestsMultiplier"), "1.5"),
        "TargetUtilization": 40 if target is None or target <= 0 else target,
    }


def _canonical(requests: Tree) -> Args:
    try:
        return {name: str(parse(str(value))) for name, value in requests.items()}
    except QuantityError as error:
        raise ArgsError(str(error)) from None


def _variation(given: Tree) -> Args:
    found: Args = _trimaran(given)
    for name in ("safeVarianceMargin", "safeVarianceSensitivity"):
        value = given.get(name)
        found[name[0].upper() + name[1:]] = 1 if value is None or value < 0 else value
    return found


def _low_risk(given: Tree) -> Args:
    window = given.get("smoothingWindowSize")
    weights = given.get("riskLimitWeights") or {"cpu": 0.5, "memory": 0.5}
    return {
        **_trimaran(given),
        "SmoothingWindowSize": 5 if window is None or window <= 0 else window,
        "RiskLimitWeights": {key: each if 0 <= each <= 1 else 0.5 for key, each in weights.items()},
    }


def _peaks(given: Tree) -> Args:
    return {
        "WatcherAddress": given.get("WatcherAddress") or "",
        "NodePowerModel": given.get("NodePowerModel"),
    }


def _topology(given: Tree) -> Args:
    strategy = given.get("scoringStrategy")
    strategy = {"type": "LeastAllocated"} if strategy is None else strategy
    resources = _weights(strategy.get("resources")) or [
        {"Name": "cpu", "Weight": 1},
        {"Name": "memory", "Weight": 1},
    ]
    cache = given.get("cache") or {}
    return {
        "ScoringStrategy": {
            "Type": strategy.get("type") or "",
            "Resources": [{**each, "Weight": each["Weight"] or 1} for each in resources],
        },
        "CacheResyncPeriodSeconds": given.get("cacheResyncPeriodSeconds") or 0,
        "DiscardReservedNodes": bool(given.get("discardReservedNodes")),
        "Cache": {
            "ForeignPodsDetect": _or(cache.get("foreignPodsDetect"), "All"),
            "ResyncMethod": _or(cache.get("resyncMethod"), "Autodetect"),
            "InformerMode": _or(cache.get("informerMode"), "Dedicated"),
            "ResyncScope": cache.get("resyncScope"),
        },
        "PreemptionMode": _or(given.get("preemptionMode"), "Disabled"),
    }


def _toleration(given: Tree) -> Args:
    return {
        "MinCandidateNodesPercentage": _or(given.get("minCandidateNodesPercentage"), 10),
        "MinCandidateNodesAbsolute": _or(given.get("minCandidateNodesAbsolute"), 100),
    }


def _namespaces(given: Tree) -> Args:
    return {"Namespaces": given.get("namespaces") or ["default"]}


def _network(given: Tree) -> Args:
    return {
        **_namespaces(given),
        "WeightsName": _or(given.get("weightsName"), "UserDefined"),
        "NetworkTopologyName": _or(given.get("networkTopologyName"), "nt-default"),
    }


def _sysched(given: Tree) -> Args:
    return {
        "DefaultProfileNamespace": _or(given.get("defaultProfileNamespace"), "default"),
        "DefaultProfileName": _or(given.get("defaultProfileName"), "all-syscalls"),
    }


def _metadata(given: Tree) -> Args:
    names = ("metadataKey", "metadataSource", "metadataType", "scoringStrategy")
    found: Args = {name: given.get(name) or "" for name in names}
    form = given.get("timestampFormat")
    if form is None and given.get("metadataType") == "Timestamp":
        form = "2006-01-02T15:04:05Z07:00"
    if form:
        found["timestampFormat"] = form
    return found


_DEFAULTS: Final[Mapping[str, Callable[[Tree], Args]]] = {
    "Coscheduling": _coscheduling,
    "NodeResourcesAllocatable": _allocatable,
    "TargetLoadPacking": _target,
    "LoadVariationRiskBalancing": _variation,
    "LowRiskOverCommitment": _low_risk,
    "Peaks": _peaks,
    "NodeResourceTopologyMatch": _topology,
    "PreemptionToleration": _toleration,
    "TopologicalSort": _namespaces,
    "NetworkOverhead": _network,
    "SySched": _sysched,
    "NodeMetadata": _metadata,
}


# -- validation ------------------------------------------------------------------------------------


def _invalid(field: str, value: Any, told: str) -> str:
    return f"{field}: Invalid value: {json.dumps(value)}: {told}"


def _joined(found: list[str]) -> str:
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""


def _check_coscheduling(args: Args) -> str:
    found = [
        _invalid(name, args[name[0].upper() + name[1:]], "must be greater than 0")
        for name in ("permitWaitingTimeSeconds", "podGroupBackoffSeconds")
        if args[name[0].upper() + name[1:]] < 0
    ]
    share = args["PodGroupRejectPercentage"]
    if not 0 <= share <= 100:
        found.append(_invalid("podGroupRejectPercentage", share, "must be between 0 and 100"))
    return _joined(found)


def _check_allocatable(args: Args) -> str:
    found = []
    for at, each in enumerate(args["resources"]):
        if each["Weight"] <= 0:
            told = f"resource weight of {each['Name']} should be a positive value, got :{each['Weight']}"
            found.append(_invalid(f"resources[{at}].weight", each["Weight"], told))
    if args["mode"] not in ("Least", "Most"):
        found.append(_invalid("mode", args["mode"], "invalid support ModeType"))
    return _joined(found)


def _check_provider(args: Args) -> str:
    kind = (args.get("MetricProvider") or {}).get("Type", "")
    if args["WatcherAddress"] or kind in _PROVIDERS:
        return ""
    return f"invalid MetricProvider.Type, got {kind}"


def _check_target(args: Args) -> str:
    told = _check_provider(args)
    text = args["DefaultRequestsMultiplier"]
    if not told and number(text) is None:
        told = f"strconv.ParseFloat: parsing {json.dumps(text)}: invalid syntax"
        return f"unable to parse DefaultRequestsMultiplier: {told}"
    return told


def number(text: str) -> float | None:
    """Return the number of a text as Go's ParseFloat reads it; None where it is none."""
    if not text or text != text.strip() or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _check_topology(args: Args) -> str:
    found = []
    kinds = ("MostAllocated", "BalancedAllocation", "LeastAllocated", "LeastNUMANodes")
    kind = args["ScoringStrategy"]["Type"]
    if kind not in kinds:
        found.append(_invalid("scoringStrategy.type", kind, "invalid ScoringStrategyType"))
    mode = args["PreemptionMode"]
    if mode not in ("Disabled", "Enabled"):
        found.append(_invalid("preemptionMode", mode, "invalid PreemptionMode"))
    return _joined(found)


def _check_toleration(args: Args) -> str:
    found = []
    share, least = args["MinCandidateNodesPercentage"], args["MinCandidateNodesAbsolute"]
    if not 0 <= share <= 100:
        found.append(
            _invalid("[].minCandidateNodesPercentage", share, "not in valid range [0, 100]")
        )
    if least < 0:
        found.append(_invalid("[].minCandidateNodesAbsolute", least, "not in valid range [0, inf)"))
    if share == 0 and least == 0:
        found.append(
            "[both minCandidateNodesPercentage and minCandidateNodesAbsolute cannot be zero]"
        )
    return _joined(found)


_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "metadataSource": ("Label", "Annotation"),
    "metadataType": ("Number", "Timestamp"),
    "scoringStrategy": ("Highest", "Lowest", "Newest", "Oldest"),
}


def _check_metadata(args: Args) -> str:
    found = []
    if not args["metadataKey"]:
        found.append(_invalid("metadataKey", "", "metadataKey cannot be empty"))
    for name, choices in _CHOICES.items():
        if args[name] not in choices:
            named = [json.dumps(each) for each in choices]
            told = (
                f"must be either {' or '.join(named)}"
                if len(named) == 2
                else f"must be one of {', '.join(named[:-1])}, or {named[-1]}"
            )
            found.append(_invalid(name, args[name], f"{name} {told}"))
    strategy, kind = args["scoringStrategy"], args["metadataType"]
    for of, pair in (("Timestamp", ("Newest", "Oldest")), ("Number", ("Highest", "Lowest"))):
        if strategy in pair and kind in _CHOICES["metadataType"] and kind != of:
            told = f'scoringStrategy "{pair[0]}" and "{pair[1]}" are only valid for metadataType "{of}"'
            found.append(_invalid("scoringStrategy", strategy, told))
    return f"invalid NodeMetadataArgs: {_joined(found)}" if found else ""


_CHECKS: Final[Mapping[str, Callable[[Args], str]]] = {
    "Coscheduling": _check_coscheduling,
    "NodeResourcesAllocatable": _check_allocatable,
    "TargetLoadPacking": _check_target,
    "LoadVariationRiskBalancing": _check_provider,
    "LowRiskOverCommitment": _check_provider,
    "Peaks": _check_provider,
    "NodeResourceTopologyMatch": _check_topology,
    "PreemptionToleration": _check_toleration,
    "NodeMetadata": _check_metadata,
}
