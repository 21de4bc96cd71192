"""Feature gates of Kueue with the defaults of version 0.20.

A value that is handed along, never a global: two worlds of one process may differ. Follows
`pkg/features/kube_features.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["DEFAULTS", "GateError", "Gates"]

DEFAULTS: Final[Mapping[str, bool]] = MappingProxyType(
    {
        "PartialAdmission": True,
        "FlavorFungibility": True,
        "VisibilityOnDemand": True,
        "DisableWaitForPodsReady": False,
        "PrioritySortingWithinCohort": True,
        "FairSharingPreemptWithinNominal": True,
        "FairSharingPrioritizeNonBorrowing": True,
        "MultiKueue": True,
        "TopologyAwareScheduling": True,
        "LocalQueueMetrics": True,
        "TASProfileMixed": True,
        "AdmissionFairSharing": True,
        "TASFailedNodeReplacement": True,
        "ElasticJobsViaWorkloadSlices": True,
        "ElasticJobsViaWorkloadSlicesWithTAS": False,
        "TASFailedNodeReplacementFailFast": True,
        "TASReplaceNodeOnPodTermination": True,
        "SkipReassignmentForPodOwnedWorkloads": True,
        "TASReplaceNodeDueToNotReadyOverFixedTime": False,
        "ManagedJobsNamespaceSelectorAlwaysRespected": True,
        "TASBalancedPlacement": False,
        "TASAssignmentsEncodingByHostnamePrefix": True,
        "KueueDRAIntegration": True,
        "KueueDRAIntegrationExtendedResource": True,
        "KueueDRARejectWorkloadsWhenDRADisabled": True,
        "KueueDRAIntegrationPartitionableDevices": True,
        "KueueDRAIntegrationConsumableCapacity": False,
        "MultiKueueAdaptersForCustomJobs": True,
        "WorkloadRequestUseMergePatch": False,
        "MultiKueueKubeConfigPathValidation": True,
        "ReclaimablePods": True,
        "MultiKueueClusterProfile": False,
        "FailureRecoveryPolicy": False,
        "TLSOptions": True,
        "RemoveFinalizersWithStrictPatch": True,
        "TASReplaceNodeOnNodeTaints": True,
        "AssignQueueLabelsForPods": True,
        "TASMultiLayerTopology": True,
        "SchedulingEquivalenceHashing": True,
        "CustomMetricLabels": False,
        "SparkApplicationIntegration": False,
        "MultiKueueOrchestratedPreemption": False,
        "PriorityBoost": False,
        "AdmissionGatedBy": True,
        "ShortWorkloadNames": False,
        "FastQuotaReleaseInPodIntegration": False,
        "RejectUpdatesToCQWithInvalidOnFlavors": False,
        "FinishOrphanedWorkloads": True,
        "MultiKueueIncrementalDispatcherConfig": True,
        "MultiKueueIncrementalDispatcherRespectConfigOrder": True,
        "ConcurrentAdmission": False,
        "QuotaCheckStrategy": True,
        "MetricForWorkloadCreationLatency": True,
        "TASRespectNodeAffinityPreferred": False,
        "MultiKueueManagerQuotaAutomation": False,
        "WorkloadIdentifierAnnotations": True,
        "WorkloadPriorityClassDefaulting": True,
        "MetricsForCohorts": True,
        "CleanupProvisioningRequestsOnEviction": True,
        "TASHandleOverlappingFlavors": True,
        "UnadmittedWorkloadsObservability": True,
        "TASRecomputeAssignmentWithinSchedulingCycle": True,
        "UnadmittedWorkloadsExplicitStatus": False,
        "DeferRayServiceFinalizationForRedisCleanup": True,
        "TASCacheNodeMatchResults": True,
        "TASCachingRemainingResources": True,
        "TASCacheTopologyTree": True,
        "SchedulerLibraryIntegration": False,
        "VectorizedResourceRequests": True,
        "WorkloadValidateResourcesAreNonNegative": True,
        "TASValidateWorkloadSliceSize": True,
        "WorkloadValidationForPodSetMetadata": True,
        "PrioritizePreemptorWorkloads": False,
        "LWSImmutableGroupSize": True,
        "FlavorFungibilityPreserveScanProgress": True,
        "SkipAncestorCheckForDeletedWorkloads": True,
        "MultiKueueRemoteSpecSync": True,
        "RecomputeAssignmentUponPreemptionTargetsOverlap": True,
        "PodIntegrationValidateGroupOwner": True,
        "ValidateRayAndSparkJobUpdates": True,
    }
)


class GateError(ValueError):
    """A gate that Kueue 0.20 does not have."""


class Gates:
    """An immutable setting of all gates.

    Args:
        changes: Gates that differ from the defaults.

    Raises:
        GateError: An unknown name, when setting or asking.
    """

    __slots__ = ("_on",)

    def __init__(self, changes: Mapping[str, bool] | None = None) -> None:
        for name in changes or ():
            _check(name)
        self._on: Mapping[str, bool] = {**DEFAULTS, **(changes or {})}

    def enabled(self, name: str) -> bool:
        """Return whether the gate is on."""
        try:
            return self._on[name]
        except KeyError:
            _check(name)
            raise

    def changes(self) -> dict[str, bool]:
        """The gates that differ from the defaults, in the order of the table."""
        return {name: on for name, on in self._on.items() if on != DEFAULTS[name]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gates) and self._on == other._on

    def __hash__(self) -> int:
        return hash(tuple(self._on.values()))

    def __repr__(self) -> str:
        return f"Gates({self.changes()!r})"


def _check(name: str) -> None:
    if name not in DEFAULTS:
        raise GateError(f"feature gate {name!r}: not a gate of Kueue 0.20")
