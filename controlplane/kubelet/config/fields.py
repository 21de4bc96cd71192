"""Every field of KubeletConfiguration v1beta1: its type and, where it has one, its default.

Upstream: k8s.io/kubelet/config/v1beta1/types.go, pkg/kubelet/apis/config/v1beta1/defaults.go.
Durations and defaults are written as in a file.
"""

from __future__ import annotations

from typing import Any, Final

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"

_BOOLEANS: Final = {
    "cgroupsPerQOS": True,
    "cpuCFSQuota": True,
    "enableContentionProfiling": False,
    "enableControllerAttachDetach": True,
    "enableDebugFlagsHandler": True,
    "enableDebuggingHandlers": True,
    "enableProfilingHandler": True,
    "enableServer": True,
    "enableSystemLogHandler": True,
    "enableSystemLogQuery": False,
    "failCgroupV1": False,
    "failSwapOn": True,
    "kernelMemcgNotification": False,
    "localStorageCapacityIsolation": True,
    "makeIPTablesUtilChains": True,
    "mergeDefaultEvictionSettings": False,
    "protectKernelDefaults": False,
    "registerNode": True,
    "rotateCertificates": False,
    "runOnce": False,
    "seccompDefault": False,
    "serializeImagePulls": True,
    "serverTLSBootstrap": False,
    "singleProcessOOMKill": None,
}
_INTEGERS: Final = {
    "containerLogMaxFiles": 5,
    "containerLogMaxWorkers": 1,
    "eventBurst": 100,
    "eventRecordQPS": 50,
    "evictionMaxPodGracePeriod": 0,
    "healthzPort": 10248,
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "iptablesDropBit": 15,
    "iptablesMasqueradeBit": 14,
    "kubeAPIBurst": 100,
    "kubeAPIQPS": 50,
    "maxOpenFiles": 1000000,
    "maxParallelImagePulls": None,
    "maxPods": 110,
    "nodeLeaseDurationSeconds": 40,
    "nodeStatusMaxImages": 50,
    "oomScoreAdj": -999,
    "podPidsLimit": -1,
    "podsPerCore": 0,
    "port": 10250,
    "readOnlyPort": 0,
    "registryBurst": 10,
    "registryPullQPS": 5,
}
_DURATIONS: Final = {
    "containerLogMonitorInterval": "10s",
    "cpuCFSQuotaPeriod": "100ms",
    "cpuManagerReconcilePeriod": "10s",
    "evictionPressureTransitionPeriod": "5m",
    "fileCheckFrequency": "20s",
    "httpCheckFrequency": "20s",
    "imageMaximumGCAge": "0s",
    "imageMinimumGCAge": "2m",
    "nodeStatusReportFrequency": "5m",
    "nodeStatusUpdateFrequency": "10s",
    "runtimeRequestTimeout": "2m",
    "shutdownGracePeriod": "0s",
    "shutdownGracePeriodCriticalPods": "0s",
    "streamingConnectionIdleTimeout": "4h",
    "syncFrequency": "1m",
    "volumeStatsAggPeriod": "1m",
}
_TEXTS: Final = {
    "address": "0.0.0.0",  # noqa: S104 - upstream's default, nothing listens here
    "cgroupDriver": "cgroupfs",
    "cgroupRoot": "",
    "clusterDomain": "",
    "configMapAndSecretChangeDetectionStrategy": "Watch",
    "containerLogMaxSize": "10Mi",
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "contentType": "application/vnd.kubernetes.protobuf",
    "cpuManagerPolicy": "none",
    "hairpinMode": "promiscuous-bridge",
    "healthzBindAddress": "127.0.0.1",
    "imagePullCredentialsVerificationPolicy": "",
    "imageServiceEndpoint": "",
    "kubeReservedCgroup": "",
    "kubeletCgroups": "",
    "memoryManagerPolicy": "None",
    "podCIDR": "",
    "podLogsDir": "/var/log/pods",
    "providerID": "",
    "reservedSystemCPUs": "",
    "resolvConf": "/etc/resolv.conf",
    "showHiddenMetricsForVersion": "",
    "staticPodPath": "",
    "staticPodURL": "",
    "systemCgroups": "",
    "systemReservedCgroup": "",
    "tlsCertFile": "",
    "tlsMinVersion": "",
    "tlsPrivateKeyFile": "",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "volumePluginDir": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
}
_TEXT_LISTS: Final = (
    "allowedUnsafeSysctls",
    "clusterDNS",
    "enforceNodeAllocatable",
    "preloadedImagesVerificationAllowlist",
    "tlsCipherSuites",
)
_TEXT_MAPS: Final = (
    "cpuManagerPolicyOptions",
    "evictionHard",
    "evictionMinimumReclaim",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "kubeReserved",
    "qosReserved",
    "systemReserved",
    "topologyManagerPolicyOptions",
)
_OBJECTS: Final = (
    "authentication",
    "authorization",
    "crashLoopBackOff",
    "logging",
    "memorySwap",
    "staticPodURLHeader",
    "tracing",
    "userNamespaces",
)
_OBJECT_LISTS: Final = ("registerWithTaints", "reservedMemory", "shutdownGracePeriodByPodPriority")

FIELDS: Final[dict[str, str]] = {
    "apiVersion": "string",
    "kind": "string",
    "metadata": "object",
    "featureGates": "map[string]bool",
    "memoryThrottlingFactor": "float64",
    **dict.fromkeys(_BOOLEANS, "bool"),
    **dict.fromkeys(_INTEGERS, "int32"),
    **dict.fromkeys(_DURATIONS, "Duration"),
    **dict.fromkeys(_TEXTS, "string"),
    **dict.fromkeys(_TEXT_LISTS, "[]string"),
    **dict.fromkeys(_TEXT_MAPS, "map[string]string"),
    **dict.fromkeys(_OBJECTS, "object"),
    **dict.fromkeys(_OBJECT_LISTS, "[]object"),
}
"""Name -> type; a field that is not here does not exist."""

DEFAULTS: Final[dict[str, Any]] = {
    **{name: value for name, value in _BOOLEANS.items() if value is not None},
    **{name: value for name, value in _INTEGERS.items() if value is not None},
    **_DURATIONS,
    **_TEXTS,
    "enforceNodeAllocatable": ["pods"],
    "memoryThrottlingFactor": 0.9,
}

EVICTION_HARD: Final = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
"""The default thresholds of a kubelet on Linux."""

SIGNALS: Final = (
    *EVICTION_HARD, "containerfs.available", "containerfs.inodesFree", "allocatableMemory.available",
    "pid.available",
)  # fmt: skip

EMULATED: Final = frozenset(
    {
        "apiVersion", "kind", "metadata", "cpuCFSQuota", "cpuManagerPolicy", "cpuManagerPolicyOptions",
        "cpuManagerReconcilePeriod", "enforceNodeAllocatable", "evictionHard", "evictionMaxPodGracePeriod",
        "evictionMinimumReclaim", "evictionPressureTransitionPeriod", "evictionSoft", "evictionSoftGracePeriod",
        "featureGates", "kubeReserved", "maxPods", "memoryManagerPolicy", "memorySwap",
        "mergeDefaultEvictionSettings", "nodeLeaseDurationSeconds", "nodeStatusReportFrequency",
        "nodeStatusUpdateFrequency", "podsPerCore", "providerID", "registerNode",
        "registerWithTaints", "reservedMemory", "reservedSystemCPUs", "staticPodPath", "syncFrequency",
        "systemReserved", "topologyManagerPolicy", "topologyManagerPolicyOptions",
        "topologyManagerScope",
    }
)  # fmt: skip
"""Fields that a decision here depends on; the others are checked and kept, and change nothing."""
