"""The shape of DeschedulerPolicy v1alpha2 and of the arguments of its plugins (see `controlplane.api.go_structs`).

Upstream: `pkg/api/v1alpha2/types.go`, and the `types.go` of each plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.api.durations import format_duration, parse_duration
from controlplane.api.go_structs import Decoder, Structs

__all__ = ["ARGS", "KIND", "args_decoder", "policy_decoder", "stored"]

KIND: Final = "DeschedulerPolicy"
_STRINGS: Final = ("list", "string")
_COMMON: Final = {"namespaces": "Namespaces", "labelSelector": "LabelSelector"}

_POLICY: Final[Structs] = {
    KIND: {
        "kind": "string",
        "apiVersion": "string",
        "profiles": ("list", "DeschedulerProfile"),
        "nodeSelector": "string",
        "maxNoOfPodsToEvictPerNode": "uint",
        "maxNoOfPodsToEvictPerNamespace": "uint",
        "maxNoOfPodsToEvictTotal": "uint",
        "evictionFailureEventNotification": "bool",
        "metricsCollector": "MetricsCollector",
        "metricsProviders": ("list", "MetricsProvider"),
        "gracePeriodSeconds": "int64",
    },
    "DeschedulerProfile": {
        "name": "string",
        "pluginConfig": ("list", "PluginConfig"),
        "plugins": "Plugins",
    },
    "PluginConfig": {"name": "string", "args": "raw"},
    "Plugins": dict.fromkeys(
        ("presort", "sort", "deschedule", "balance", "filter", "preevictionfilter"), "PluginSet"
    ),
    "PluginSet": {"enabled": _STRINGS, "disabled": _STRINGS},
    "MetricsCollector": {"enabled": "bool"},
    "MetricsProvider": {"source": "MetricsSource", "prometheus": "Prometheus"},
    "Prometheus": {"url": "string", "authToken": "AuthToken"},
    "AuthToken": {"secretReference": "SecretReference"},
    "SecretReference": {"namespace": "string", "name": "string"},
}
_SHARED: Final[Structs] = {
    "Namespaces": {"include": _STRINGS, "exclude": _STRINGS},
    "LabelSelector": {
        "matchLabels": ("map", "string"),
        "matchExpressions": ("list", "LabelSelectorRequirement"),
    },
    "LabelSelectorRequirement": {"key": "string", "operator": "LabelSelectorOperator", "values": _STRINGS},
    "PriorityThreshold": {"value": "int32", "name": "string"},
    "EvictionLimits": {"node": "uint"},
    "MetricsUtilization": {
        "metricsServer": "bool",
        "source": "MetricsSource",
        "prometheus": "Prometheus",
    },
    "Prometheus": {"query": "string"},
    "OwnerKinds": {"include": _STRINGS, "exclude": _STRINGS},
    "PodConditionFilter": {
        "type": "string",
        "status": "string",
        "reason": "string",
        "minTimeSinceLastTransitionSeconds": "uint",
    },
    "PodProtections": {
        "extraEnabled": ("list", "PodProtection"),
        "defaultDisabled": ("list", "PodProtection"),
        "config": "PodProtectionsConfig",
    },
    "PodProtectionsConfig": {"PodsWithPVC": "PodsWithPVCConfig"},
    "PodsWithPVCConfig": {"protectedStorageClasses": ("list", "ProtectedStorageClass")},
    "ProtectedStorageClass": {"name": "string"},
}  # fmt: skip
ARGS: Final[Structs] = {
    "DefaultEvictorArgs": {
        "nodeSelector": "string",
        "labelSelector": "LabelSelector",
        "namespaceLabelSelector": "LabelSelector",
        "priorityThreshold": "PriorityThreshold",
        "nodeFit": "bool",
        "minReplicas": "uint",
        "minPodAge": "duration",
        "noEvictionPolicy": "NoEvictionPolicy",
        "podProtections": "PodProtections",
        "evictLocalStoragePods": "bool",
        "evictDaemonSetPods": "bool",
        "evictSystemCriticalPods": "bool",
        "ignorePvcPods": "bool",
        "ignorePodsWithoutPDB": "bool",
        "evictFailedBarePods": "bool",
    },
    "HighNodeUtilizationArgs": {
        "thresholds": "ResourceThresholds",
        "numberOfNodes": "int",
        "evictionModes": ("list", "EvictionMode"),
        "evictableNamespaces": "Namespaces",
    },
    "LowNodeUtilizationArgs": {
        "useDeviationThresholds": "bool",
        "thresholds": "ResourceThresholds",
        "targetThresholds": "ResourceThresholds",
        "numberOfNodes": "int",
        "metricsUtilization": "MetricsUtilization",
        "evictableNamespaces": "Namespaces",
        "evictionLimits": "EvictionLimits",
    },
    "PodLifeTimeArgs": {
        **_COMMON,
        "ownerKinds": "OwnerKinds",
        "maxPodLifeTimeSeconds": "uint",
        "states": _STRINGS,
        "conditions": ("list", "PodConditionFilter"),
        "exitCodes": ("list", "int32"),
        "includingInitContainers": "bool",
        "includingEphemeralContainers": "bool",
    },
    "RemoveDuplicatesArgs": {"namespaces": "Namespaces", "excludeOwnerKinds": _STRINGS},
    "RemoveFailedPodsArgs": {
        **_COMMON,
        "excludeOwnerKinds": _STRINGS,
        "minPodLifetimeSeconds": "uint",
        "reasons": _STRINGS,
        "exitCodes": ("list", "int32"),
        "includingInitContainers": "bool",
    },
    "RemovePodsHavingTooManyRestartsArgs": {
        **_COMMON,
        "podRestartThreshold": "int32",
        "includingInitContainers": "bool",
        "states": _STRINGS,
    },
    "RemovePodsViolatingInterPodAntiAffinityArgs": _COMMON,
    "RemovePodsViolatingNodeAffinityArgs": {**_COMMON, "nodeAffinityType": _STRINGS},
    "RemovePodsViolatingNodeTaintsArgs": {
        **_COMMON,
        "includePreferNoSchedule": "bool",
        "excludedTaints": _STRINGS,
        "includedTaints": _STRINGS,
    },
    "RemovePodsViolatingTopologySpreadConstraintArgs": {
        **_COMMON,
        "constraints": ("list", "UnsatisfiableConstraintAction"),
        "topologyBalanceNodeFit": "bool",
    },
}
"""The arguments of each plugin, under its name and `Args`."""
_NAMED: Final[Mapping[str, Any]] = {
    "EvictionMode": "string",
    "LabelSelectorOperator": "string",
    "MetricsSource": "string",
    "NoEvictionPolicy": "string",
    "Percentage": "float64",
    "PodProtection": "string",
    "ResourceThresholds": ("map", "Percentage"),
    "UnsatisfiableConstraintAction": "string",
}
_PACKAGES: Final = {
    "EvictionMode": "nodeutilization",
    "LabelSelector": "v1",
    "LabelSelectorOperator": "v1",
    "LabelSelectorRequirement": "v1",
    "MetricsUtilization": "nodeutilization",
    "NoEvictionPolicy": "defaultevictor",
    "OwnerKinds": "podlifetime",
    "PodConditionFilter": "podlifetime",
    "PodProtection": "defaultevictor",
    "PodProtections": "defaultevictor",
    "PodProtectionsConfig": "defaultevictor",
    "PodsWithPVCConfig": "defaultevictor",
    "Prometheus": "nodeutilization",
    "ProtectedStorageClass": "defaultevictor",
    "UnsatisfiableConstraintAction": "v1",
}
_POINTERS: Final = frozenset(
    {
        "maxPodLifeTimeSeconds",
        "minPodLifetimeSeconds",
        "minTimeSinceLastTransitionSeconds",
        "node",
        "topologyBalanceNodeFit",
        "value",
    }
)
"""Fields whose zero is kept apart from their absence."""


def policy_decoder() -> Decoder:
    """The decoder of a policy; the arguments of plugins stay as they are written."""
    return Decoder(_POLICY, package="v1alpha2", named={"MetricsSource": "string"})


def args_decoder() -> Decoder:
    """The decoder of the arguments of a plugin."""
    return Decoder({**_SHARED, **ARGS}, _PACKAGES, "api", _NAMED)


def stored(name: str, decoded: Mapping[str, Any]) -> dict[str, Any]:
    """Return decoded arguments as upstream's struct holds them: without zero values, with normalized durations."""
    fields = ARGS.get(name) or _SHARED[name]
    out: dict[str, Any] = {}
    for key, value in decoded.items():
        kind = fields[key]
        if kind in _SHARED:
            out[key] = stored(kind, value)
        elif isinstance(kind, tuple) and kind[1] in _SHARED:
            if value:
                out[key] = [stored(kind[1], each) for each in value]
        elif kind == "duration":
            out[key] = format_duration(parse_duration(value))
        elif value or key in _POINTERS or name == "ProtectedStorageClass":
            out[key] = value
    return out
