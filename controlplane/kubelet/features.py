"""Feature gates that the kubelet's decisions look at, with what each release had.

Upstream: pkg/features/kube_features.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from controlplane.errors import UsageError
from controlplane.gates import LATEST, minor_of

GENERATION_TRACKING: Final = "PodObservedGenerationTracking"

_HISTORY: Final[Mapping[str, tuple[tuple[str, bool], ...]]] = {
    "CPUManagerPolicyAlphaOptions": (("1.23", False),),
    "CPUManagerPolicyBetaOptions": (("1.23", True),),
    "CPUManagerPolicyOptions": (("1.22", False), ("1.23", True)),
    "DRANodeAllocatableResources": (("1.36", False),),
    "DisableCPUQuotaWithExclusiveCPUs": (("1.33", True),),
    "InPlacePodLevelResourcesVerticalScaling": (("1.35", False), ("1.36", True)),
    "InPlacePodVerticalScaling": (("1.27", False), ("1.33", True)),
    "InPlacePodVerticalScalingExclusiveCPUs": (("1.32", False),),
    "InPlacePodVerticalScalingExclusiveMemory": (("1.34", False),),
    "InPlacePodVerticalScalingSchedulerPreemption": (("1.37", False),),
    "InPlacePodVerticalScalingInitContainers": (("1.36", True),),
    "NodeDeclaredFeatures": (("1.35", False), ("1.36", True)),
    "NodeSwap": (("1.22", False), ("1.30", True)),
    "PodLevelResourceManagers": (("1.36", False),),
    "PodLevelResources": (("1.32", False), ("1.34", True)),
    GENERATION_TRACKING: (("1.33", False), ("1.34", True)),
    "ResourceHealthStatus": (("1.31", False), ("1.36", True)),
    "ResourceHealthStatusMessage": (("1.36", True),),
    "TopologyManagerPolicyAlphaOptions": (("1.26", False),),
    "TopologyManagerPolicyBetaOptions": (("1.26", False), ("1.28", True)),
    "TopologyManagerPolicyOptions": (("1.26", False), ("1.28", True)),
}
"""Name -> from which release on it is on or off by default; before the first it did not exist."""

_LOCKED: Final[Mapping[str, str]] = {
    "CPUManagerPolicyOptions": "1.33",
    "InPlacePodVerticalScaling": "1.35",
    "NodeSwap": "1.34",
    "TopologyManagerPolicyOptions": "1.32",
}
"""Name -> since which release it cannot be turned off any more."""

RESOURCE_HEALTH: Final = "ResourceHealthStatus"
"""The status of containers lists their devices with their health."""
RESOURCE_HEALTH_MESSAGE: Final = "ResourceHealthStatusMessage"
"""Health of claims' devices comes with the message of the driver."""
SCHEDULER_PREEMPTION: Final = "InPlacePodVerticalScalingSchedulerPreemption"
"""The scheduler makes room for resizes that wait (KEP-5836); younger than what is emulated, so never a default."""

OTHERS: Final = frozenset(
    {
        "AnonymousAuthConfigurableEndpoints", "AllowUnsafeMalformedObjectDeletion",
        "AuthorizeNodeWithSelectors", "CSIMigrationPortworx", "CSIVolumeHealth",
        "ClearingNominatedNodeNameAfterBinding", "ContainerCheckpoint", "ContainerRestartRules",
        "ContainerStopSignals", "ContextualLogging", "CrossNamespaceVolumeDataSource",
        "CustomCPUCFSQuotaPeriod", "DRAAdminAccess", "DRAConsumableCapacity",
        "DRADeviceBindingConditions", "DRADeviceTaints", "DRAExtendedResource",
        "DRAPartitionableDevices", "DRAPrioritizedList", "DRAResourceClaimDeviceStatus",
        "DynamicResourceAllocation", "EnvFiles", "EventedPLEG", "ExecProbeTimeout",
        "GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority", "HPAScaleToZero",
        "HostnameOverride", "ImageMaximumGCAge", "ImageVolume", "ImageVolumeWithDigest",
        "InPlacePodVerticalScalingAllocatedStatus", "KubeletCgroupDriverFromCRI",
        "KubeletCrashLoopBackOffMax", "KubeletEnsureSecretPulledImages",
        "KubeletFineGrainedAuthz", "KubeletInUserNamespace", "KubeletPSI",
        "KubeletPodResourcesDynamicResources", "KubeletPodResourcesGet",
        "KubeletPodResourcesListUseActivePods", "KubeletSeparateDiskGC",
        "KubeletServiceAccountTokenForCredentialProviders", "KubeletTracing",
        "LocalStorageCapacityIsolationFSQuotaMonitoring", "MatchLabelKeysInPodTopologySpread",
        "MemoryManager", "MemoryQoS", "MutableCSINodeAllocatableCount", "NodeInclusionPolicyInPodTopologySpread",
        "NodeLogQuery", "PodAndContainerStatsFromCRI", "PodCertificateRequest",
        "PodLifecycleSleepActionAllowZero", "PodLogsQuerySplitStreams",
        "PodReadyToStartContainersCondition",
        "ProcMountType", "QOSReserved", "RecoverVolumeExpansionFailure",
        "RecursiveReadOnlyMounts", "ReduceDefaultCrashLoopBackOffDecay",
        "ReloadKubeletServerCertificateFile",
        "RestartAllContainersOnContainerExits", "RotateKubeletServerCertificate",
        "RuntimeClassInImageCriApi", "SELinuxChangePolicy", "SELinuxMount",
        "SELinuxMountReadWriteOncePod", "ServiceAccountTokenNodeBinding",
        "SidecarContainers", "SizeMemoryBackedVolumes", "SupplementalGroupsPolicy",
        "SystemdWatchdog", "UserNamespacesHostNetworkSupport", "UserNamespacesPodSecurityStandards",
        "UserNamespacesSupport", "VolumeAttributesClass", "WinDSR", "WinOverlay",
        "WindowsCPUAndMemoryAffinity", "WindowsGracefulNodeShutdown",
    }
)  # fmt: skip
"""Gates that real kubelets know and on which nothing here depends."""


@attrs.frozen
class Features:
    """The gates of one kubelet."""

    release: str = LATEST
    on: frozenset[str] = frozenset()

    def enabled(self, name: str) -> bool:
        """Return whether a gate is on; one that the release does not know is off."""
        return name in self.on

    def at_least(self, release: str) -> bool:
        """Return whether the kubelet is of this release or a younger one."""
        return minor_of(self.release) >= minor_of(release)


def features(given: Mapping[str, bool] | None = None, release: str = LATEST) -> Features:
    """The defaults of a release with what was set. Raises UsageError, with upstream's messages."""
    now = minor_of(release)
    state: dict[str, bool] = {}
    for name, history in _HISTORY.items():
        for since, value in history:
            if minor_of(since) <= now:
                state[name] = value
    for name, value in (given or {}).items():
        if name not in state:
            raise UsageError(f"unrecognized feature gate: {name}")
        locked = _LOCKED.get(name)
        if locked is not None and minor_of(locked) <= now and not value:
            raise UsageError(f"cannot set feature gate {name} to false, feature is locked to true")
        state[name] = value
    return Features(release, frozenset(name for name, value in state.items() if value))


DEFAULTS: Final = features()
