"""The shape of KubeSchedulerConfiguration v1, and strict decoding by it.

Upstream: kube-scheduler `config/v1/{types,types_pluginargs}.go`; the error texts are those of
Go's JSON decoder in strict mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.api import durations

Json = Any

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

# A type is a Go scalar name, ("list", type), ("map", type) or the name of a struct.
Type = Any

_PLUGIN_SET = {"enabled": ("list", "Plugin"), "disabled": ("list", "Plugin")}
_POINTS = [
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "multiPoint",
    "placementGenerate",
    "placementScore",
]
_LABEL_SELECTOR = {
    "matchLabels": ("map", "string"),
    "matchExpressions": ("list", "LabelSelectorRequirement"),
}
_REQUIREMENT = {"key": "string", "operator": "string", "values": ("list", "string")}

STRUCTS: Mapping[str, Mapping[str, Type]] = {
    KIND: {
        "kind": "string",
        "apiVersion": "string",
        "parallelism": "int32",
        "leaderElection": "LeaderElectionConfiguration",
        "clientConnection": "ClientConnectionConfiguration",
        "enableProfiling": "bool",
        "enableContentionProfiling": "bool",
        "percentageOfNodesToScore": "int32",
        "podInitialBackoffSeconds": "int64",
        "podMaxBackoffSeconds": "int64",
        "profiles": ("list", "KubeSchedulerProfile"),
        "extenders": ("list", "Extender"),
        "delayCacheUntilActive": "bool",
    },
    "LeaderElectionConfiguration": {
        "leaderElect": "bool",
        "leaseDuration": "duration",
        "renewDeadline": "duration",
        "retryPeriod": "duration",
        "resourceLock": "string",
        "resourceName": "string",
        "resourceNamespace": "string",
    },
    "ClientConnectionConfiguration": {
        "kubeconfig": "string",
        "acceptContentTypes": "string",
        "contentType": "string",
        "qps": "float32",
        "burst": "int32",
    },
    "KubeSchedulerProfile": {
        "schedulerName": "string",
        "percentageOfNodesToScore": "int32",
        "plugins": "Plugins",
        "pluginConfig": ("list", "PluginConfig"),
    },
    "Plugins": dict.fromkeys(_POINTS, "PluginSet"),
    "PluginSet": _PLUGIN_SET,
    "Plugin": {"name": "string", "weight": "int32"},
    "PluginConfig": {"name": "string", "args": "raw"},
    "Extender": {
        "urlPrefix": "string",
        "filterVerb": "string",
        "preemptVerb": "string",
        "prioritizeVerb": "string",
        "weight": "int64",
        "bindVerb": "string",
        "enableHTTPS": "bool",
        "tlsConfig": "ExtenderTLSConfig",
        "httpTimeout": "duration",
        "nodeCacheCapable": "bool",
        "managedResources": ("list", "ExtenderManagedResource"),
        "ignorable": "bool",
    },
    "ExtenderTLSConfig": {
        "insecure": "bool",
        "serverName": "string",
        "certFile": "string",
        "keyFile": "string",
        "caFile": "string",
        "certData": "string",
        "keyData": "string",
        "caData": "string",
    },
    "ExtenderManagedResource": {"name": "string", "ignoredByScheduler": "bool"},
    "DefaultPreemptionArgs": {
        "minCandidateNodesPercentage": "int32",
        "minCandidateNodesAbsolute": "int32",
    },
    "InterPodAffinityArgs": {
        "hardPodAffinityWeight": "int32",
        "ignorePreferredTermsOfExistingPods": "bool",
    },
    "NodeAffinityArgs": {"addedAffinity": "NodeAffinity"},
    "NodeResourcesFitArgs": {
        "ignoredResources": ("list", "string"),
        "ignoredResourceGroups": ("list", "string"),
        "scoringStrategy": "ScoringStrategy",
    },
    "NodeResourcesBalancedAllocationArgs": {"resources": ("list", "ResourceSpec")},
    "PodTopologySpreadArgs": {
        "defaultConstraints": ("list", "TopologySpreadConstraint"),
        "defaultingType": "string",
    },
    "VolumeBindingArgs": {
        "bindTimeoutSeconds": "int64",
        "shape": ("list", "UtilizationShapePoint"),
    },
    "DynamicResourcesArgs": {"filterTimeout": "duration", "bindingTimeout": "duration"},
    "ScoringStrategy": {
        "type": "string",
        "resources": ("list", "ResourceSpec"),
        "requestedToCapacityRatio": "RequestedToCapacityRatioParam",
    },
    "RequestedToCapacityRatioParam": {"shape": ("list", "UtilizationShapePoint")},
    "UtilizationShapePoint": {"utilization": "int32", "score": "int32"},
    "ResourceSpec": {"name": "string", "weight": "int64"},
    "TopologySpreadConstraint": {
        "maxSkew": "int32",
        "topologyKey": "string",
        "whenUnsatisfiable": "string",
        "labelSelector": "LabelSelector",
        "minDomains": "int32",
        "nodeAffinityPolicy": "string",
        "nodeTaintsPolicy": "string",
        "matchLabelKeys": ("list", "string"),
    },
    "LabelSelector": _LABEL_SELECTOR,
    "LabelSelectorRequirement": _REQUIREMENT,
    "NodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": "NodeSelector",
        "preferredDuringSchedulingIgnoredDuringExecution": ("list", "PreferredSchedulingTerm"),
    },
    "NodeSelector": {"nodeSelectorTerms": ("list", "NodeSelectorTerm")},
    "NodeSelectorTerm": {
        "matchExpressions": ("list", "NodeSelectorRequirement"),
        "matchFields": ("list", "NodeSelectorRequirement"),
    },
    "NodeSelectorRequirement": _REQUIREMENT,
    "PreferredSchedulingTerm": {"weight": "int32", "preference": "NodeSelectorTerm"},
}
ARGS_KINDS = tuple(name for name in STRUCTS if name.endswith("Args"))

_RANGES = {"int32": 1 << 31, "int64": 1 << 63}


class DecodeError(ValueError):
    """A document that is not a configuration; the text is upstream's."""


class Decoder:
    """Decodes one document; unknown fields are collected and reported by the caller."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def struct(
        self, name: str, tree: Json, path: str = "", owner: str = "", fields_path: str = ""
    ) -> dict[str, Json]:
        """The known fields of a tree, nulls dropped. Raises DecodeError for a wrong type.

        `path` (with indices) names unknown fields; Go names mismatched ones by the innermost
        struct and the path of fields, without indices.
        """
        if not isinstance(tree, dict):
            raise DecodeError(_mismatch(tree, owner or name, _go_type(name)))
        fields = STRUCTS[name]
        # Go matches field names without regard to case, but strict decoding is exact.
        out: dict[str, Json] = {}
        for key, value in tree.items():
            where = f"{path}.{key}" if path else key
            kind = fields.get(key)
            if kind is None:
                if not (name.endswith("Args") and key in ("kind", "apiVersion")):
                    self.unknown.append(f'unknown field "{where}"')
                continue
            if value is not None:
                inner = f"{fields_path}.{key}" if fields_path else key
                out[key] = self._value(kind, value, where, f"{name}.{inner}", inner)
        return out

    def _value(self, kind: Type, value: Json, path: str, owner: str, fields: str) -> Json:
        if isinstance(kind, tuple):
            container, inner = kind
            if container == "list":
                if not isinstance(value, list):
                    raise DecodeError(_mismatch(value, owner, f"[]{_go_type(inner)}"))
                return [
                    self._value(inner, each, f"{path}[{i}]", owner, fields)
                    for i, each in enumerate(value)
                ]
            if not isinstance(value, dict):
                raise DecodeError(_mismatch(value, owner, f"map[string]{_go_type(inner)}"))
            return {
                key: self._value(inner, each, path, owner, fields) for key, each in value.items()
            }
        if kind == "raw":
            return value
        if kind in STRUCTS:
            return self.struct(kind, value, path, owner, fields)
        return _scalar(kind, value, owner)


def _scalar(kind: str, value: Json, owner: str) -> Json:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in _RANGES:
        limit = _RANGES[kind]
        if not is_number:
            raise DecodeError(_mismatch(value, owner, kind))
        if not isinstance(value, int) or not -limit <= value < limit:
            text = f"json: cannot unmarshal number {_number(value)} into Go struct field "
            raise DecodeError(f"{text}{owner} of type {kind}")
        return value
    if kind == "float32":
        if not is_number:
            raise DecodeError(_mismatch(value, owner, kind))
        return value
    if kind == "bool":
        if not isinstance(value, bool):
            raise DecodeError(_mismatch(value, owner, kind))
        return value
    if not isinstance(value, str):
        raise DecodeError(_mismatch(value, owner, "string"))
    if kind == "duration":
        parse_duration(value)
    return value


def _number(value: Json) -> str:
    return repr(value) if isinstance(value, int) else f"{value:g}"


def _mismatch(value: Json, owner: str, kind: str) -> str:
    what = {bool: "bool", str: "string", list: "array", dict: "object"}.get(type(value), "number")
    return f"json: cannot unmarshal {what} into Go struct field {owner} of type {kind}"


def _go_type(kind: Type) -> str:
    if isinstance(kind, tuple):
        return f"[]{_go_type(kind[1])}"
    return f"v1.{kind}" if kind in STRUCTS else str(kind)


def parse_duration(text: str) -> int:
    """Nanoseconds of a Go duration such as 1m30s. Raises DecodeError."""
    try:
        return durations.parse_duration(text)
    except durations.DurationError as error:
        raise DecodeError(str(error)) from None
