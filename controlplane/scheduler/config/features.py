"""Feature gates, as far as the scheduler looks at them, with what each release had.

Upstream: `pkg/features/kube_features.go`; the history is that of the fact sheet of the scheduler.
Gates that are older than what is emulated are on in every release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from controlplane.errors import UsageError, shown, unknown_name
from controlplane.gates import LATEST, minor_of

_HISTORY: Final[Mapping[str, tuple[tuple[str, bool], ...]]] = {
    "CBORServingAndStorage": (("1.32", False),),
    "DRAAdminAccess": (("1.32", False), ("1.34", True)),
    "DRAConsumableCapacity": (("1.34", False), ("1.36", True)),
    "DRADeviceBindingConditions": (("1.34", False), ("1.36", True)),
    "DRADeviceTaints": (("1.33", False), ("1.36", True)),
    "DRAExtendedResource": (("1.34", False), ("1.36", True)),
    "DRANodeAllocatableResources": (("1.36", False),),
    "DRAPartitionableDevices": (("1.33", False), ("1.36", True)),
    "DRAPrioritizedList": (("1.33", False), ("1.34", True)),
    "DRAResourceClaimDeviceStatus": (("1.32", False), ("1.33", True)),
    "DRASchedulerFilterTimeout": (("1.34", True),),
    "DRAWorkloadResourceClaims": (("1.36", False),),
    "DynamicResourceAllocation": (("1.26", False), ("1.34", True)),
    "GangScheduling": (("1.35", False),),
    "GenericWorkload": (("1.35", False),),
    "InPlacePodLevelResourcesVerticalScaling": (("1.35", False), ("1.36", True)),
    "InPlacePodVerticalScaling": (("1.27", False), ("1.33", True)),
    "InPlacePodVerticalScalingSchedulerPreemption": (("1.37", False),),
    "MatchLabelKeysInPodTopologySpread": (("1.0", True),),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": (("1.34", True),),
    "NodeDeclaredFeatures": (("1.35", False), ("1.36", True)),
    "NodeInclusionPolicyInPodTopologySpread": (("1.0", True),),
    "NominatedNodeNameForExpectation": (("1.34", False), ("1.35", True)),
    "OpportunisticBatching": (("1.35", True),),
    "PodLevelResources": (("1.32", False), ("1.34", True)),
    "SchedulerAsyncAPICalls": (("1.34", False),),
    "SchedulerAsyncPreemption": (("1.32", False), ("1.33", True)),
    "SchedulerPopFromBackoffQ": (("1.33", True),),
    "SchedulerQueueingHints": (("1.28", False), ("1.32", True)),
    "SidecarContainers": (("1.0", True),),
    "StorageCapacityScoring": (("1.33", False),),
    "TaintTolerationComparisonOperators": (("1.35", False),),
    "TopologyAwareWorkloadScheduling": (("1.36", False),),
    "VolumeLimitScaling": (("1.35", False),),
    "WorkloadAwarePreemption": (("1.36", False),),
    "WorkloadWithJob": (("1.36", False),),
}
"""Name -> from which release on it is on or off by default; before the first it did not exist."""

SWITCHABLE: Final = (
    "DRAExtendedResource",
    "DRANodeAllocatableResources",
    "DRASchedulerFilterTimeout",
    "InPlacePodVerticalScalingSchedulerPreemption",
    "MatchLabelKeysInPodTopologySpread",
    "NodeDeclaredFeatures",
    "NominatedNodeNameForExpectation",
    "OpportunisticBatching",
    "SchedulerAsyncAPICalls",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
    "SchedulerQueueingHints",
    "TaintTolerationComparisonOperators",
)
"""Gates that are emulated both ways."""

OF_RELEASE: Final = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DynamicResourceAllocation",
)
"""Gates that are as the release had them: the API server has all fields of devices, so they cannot be switched."""

SERVED: Final = (
    "CBORServingAndStorage",
    "DRADeviceTaintRules",
    "DRAWorkloadResourceClaims",
    "GangScheduling",
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
    "WorkloadWithJob",
)
"""Gates that are off by default and that some component acts on when they are on."""

NEEDS: Final[Mapping[str, str]] = {
    "DRAWorkloadResourceClaims": "GenericWorkload",
    "GangScheduling": "GenericWorkload",
    "TopologyAwareWorkloadScheduling": "GenericWorkload",
    "WorkloadAwarePreemption": "GangScheduling",
    "WorkloadWithJob": "GenericWorkload",
}
"""Gate -> the gate without which it cannot be on."""

ALIASES: Final[Mapping[str, str]] = {
    "SchedulerPreemptionForPodResize": "InPlacePodVerticalScalingSchedulerPreemption",
}
"""Names that a proposal has for a gate, with the one that its code has (KEP-5836)."""


def defaults(release: str = LATEST) -> dict[str, bool]:
    """Every gate as the release had it. Raises UsageError."""
    return dict(_defaults(release))


@cache
def _defaults(release: str) -> dict[str, bool]:
    wanted = minor_of(release)
    found = {}
    for name, history in _HISTORY.items():
        states = [on for since, on in history if minor_of(since) <= wanted]
        found[name] = states[-1] if states else False
    return found


def of_release(release: str) -> dict[str, bool]:
    """The gates that are emulated both ways, and those that go with the release, as it had them.

    Before 1.34 claims of devices are served in no version that is emulated, whatever the gate was.
    """
    had = defaults(release)
    return {name: had[name] for name in (*SWITCHABLE, *OF_RELEASE)}


def unknown(features: Mapping[str, bool]) -> str:
    """Return why the wanted gates cannot be had, "" if all can."""
    latest = defaults()
    for name, on in features.items():
        if name in SWITCHABLE or name in SERVED or latest.get(name) is on:
            continue
        return f"feature gate {name}={str(on).lower()} is not emulated"
    return ""


def parse(texts: Iterable[str]) -> dict[str, bool]:
    """`A=true,B=false`, several times. Raises UsageError."""
    found: dict[str, bool] = {}
    for pair in (pair for text in texts for pair in text.split(",")):
        name, equals, value = pair.partition("=")
        if not name or not equals or value not in ("true", "false"):
            raise UsageError(f"--feature-gates {shown(pair)}: expected NAME=true or NAME=false")
        found[ALIASES.get(name, name)] = value == "true"
    problem = unknown(found)
    if problem:
        known = defaults()
        for name in found:
            if name not in known:
                raise UsageError(f"--feature-gates: {unknown_name('feature gate', name, known)}")
        raise UsageError(
            f"--feature-gates: {problem}; those that are: {', '.join(sorted((*SWITCHABLE, *SERVED)))}"
        )
    for name, needed in NEEDS.items():
        if found.get(name) and not found.get(needed):
            raise UsageError(f"--feature-gates {name}=true needs {needed}=true")
    return found
