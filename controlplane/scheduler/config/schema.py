"""The shape of KubeSchedulerConfiguration v1 (see `controlplane.api.go_structs`).

Upstream: kube-scheduler `config/v1/{types,types_pluginargs}.go`.
"""

from __future__ import annotations

from controlplane.api.go_structs import Structs

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

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

STRUCTS: Structs = {
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
