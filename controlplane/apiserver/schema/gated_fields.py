"""Fields that a release knows and whose feature gate it has off: they are dropped, without a warning.

The gate of each became a default in a later release. Those of gates that are off in the latest release, too, are in the
strategies of their kinds. Upstream: `dropDisabledFields` of each strategy; stages: pkg/features/kube_features.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.marked_fields import Marked, marked_in, without_marked
from controlplane.apiserver.schema.releases import number

__all__ = ["FIELD_GATES", "FieldGate", "is_off", "without_gated"]


@frozen
class FieldGate:
    """A feature gate: the first release that had it on by default, and its fields, by type."""

    on_since: str
    fields: Mapping[str, tuple[str, ...]]


_CORE: Final = "api.core.v1"
_STATUS: Final = f"{_CORE}.ContainerStatus"
_RESULT: Final = "api.resource.v1.DeviceRequestAllocationResult"
_REQUESTS: Final = ("api.resource.v1.ExactDeviceRequest", "api.resource.v1.DeviceSubRequest")
_DEVICE: Final = "api.resource.v1.Device"

FIELD_GATES: Final[Mapping[str, FieldGate]] = {
    "ContainerRestartRules": FieldGate(
        "1.35",
        {
            f"{_CORE}.Container": ("restartPolicyRules",),
            f"{_CORE}.EphemeralContainer": ("restartPolicyRules",),
        },
    ),
    "DRAConsumableCapacity": FieldGate(
        "1.36",
        {
            "api.resource.v1.AllocatedDeviceStatus": ("shareID",),
            "api.resource.v1.DeviceCapacity": ("requestPolicy",),
            "api.resource.v1.DeviceConstraint": ("distinctAttribute",),
            _DEVICE: ("allowMultipleAllocations",),
            _RESULT: ("consumedCapacity", "shareID"),
            **dict.fromkeys(_REQUESTS, ("capacity",)),
        },
    ),
    "DRADeviceBindingConditions": FieldGate(
        "1.36",
        {
            _DEVICE: ("bindingConditions", "bindingFailureConditions", "bindsToNode"),
            _RESULT: ("bindingConditions", "bindingFailureConditions"),
        },
    ),
    "DRADeviceTaints": FieldGate(
        "1.36", {_DEVICE: ("taints",), **dict.fromkeys(_REQUESTS, ("tolerations",))}
    ),
    "DRAExtendedResource": FieldGate(
        "1.36",
        {
            f"{_CORE}.PodStatus": ("extendedResourceClaimStatus",),
            "api.resource.v1.DeviceClassSpec": ("extendedResourceName",),
        },
    ),
    "DRAPartitionableDevices": FieldGate(
        "1.36",
        {
            _DEVICE: ("allNodes", "consumesCounters", "nodeName", "nodeSelector"),
            "api.resource.v1.ResourceSliceSpec": ("perDeviceNodeSelection", "sharedCounters"),
        },
    ),
    "DeploymentReplicaSetTerminatingReplicas": FieldGate(
        "1.35",
        {
            "api.apps.v1.DeploymentStatus": ("terminatingReplicas",),
            "api.apps.v1.ReplicaSetStatus": ("terminatingReplicas",),
        },
    ),
    "DynamicResourceAllocation": FieldGate(
        "1.34",
        {
            f"{_CORE}.PodSpec": ("resourceClaims",),
            f"{_CORE}.PodStatus": ("resourceClaimStatuses",),
            f"{_CORE}.ResourceRequirements": ("claims",),
        },
    ),
    "EnvFiles": FieldGate("1.35", {f"{_CORE}.EnvVarSource": ("fileKeyRef",)}),
    "HPAConfigurableTolerance": FieldGate(
        "1.35", {"api.autoscaling.v2.HPAScalingRules": ("tolerance",)}
    ),
    "HostnameOverride": FieldGate("1.35", {f"{_CORE}.PodSpec": ("hostnameOverride",)}),
    "ImageVolume": FieldGate("1.35", {}),
    "InPlacePodLevelResourcesVerticalScaling": FieldGate(
        "1.36", {f"{_CORE}.PodStatus": ("allocatedResources", "resources")}
    ),
    "InPlacePodVerticalScaling": FieldGate(
        "1.33",
        {
            f"{_CORE}.Container": ("resizePolicy",),
            f"{_CORE}.EphemeralContainer": ("resizePolicy",),
            _STATUS: ("allocatedResources", "resources"),
        },
    ),
    "MutableCSINodeAllocatableCount": FieldGate(
        "1.35",
        {
            "api.storage.v1.CSIDriverSpec": ("nodeAllocatableUpdatePeriodSeconds",),
            "api.storage.v1.VolumeError": ("errorCode",),
        },
    ),
    "NodeDeclaredFeatures": FieldGate("1.36", {f"{_CORE}.NodeStatus": ("declaredFeatures",)}),
    "PodLevelResources": FieldGate("1.34", {f"{_CORE}.PodSpec": ("resources",)}),
    "PodObservedGenerationTracking": FieldGate(
        "1.34",
        {
            f"{_CORE}.PodCondition": ("observedGeneration",),
            f"{_CORE}.PodStatus": ("observedGeneration",),
        },
    ),
    "PreferSameTrafficDistribution": FieldGate(
        "1.34", {"api.discovery.v1.EndpointHints": ("forNodes",)}
    ),
    "ProcMountType": FieldGate("1.33", {}),
    "ResourceHealthStatus": FieldGate("1.36", {_STATUS: ("allocatedResourcesStatus",)}),
    "SELinuxChangePolicy": FieldGate(
        "1.33", {f"{_CORE}.PodSecurityContext": ("seLinuxChangePolicy",)}
    ),
    "SupplementalGroupsPolicy": FieldGate(
        "1.33",
        {
            f"{_CORE}.NodeStatus": ("features",),
            f"{_CORE}.PodSecurityContext": ("supplementalGroupsPolicy",),
            _STATUS: ("user",),
        },
    ),
    "UserNamespacesSupport": FieldGate("1.33", {f"{_CORE}.PodSpec": ("hostUsers",)}),
    "VolumeAttributesClass": FieldGate(
        "1.34",
        {
            f"{_CORE}.PersistentVolumeClaimSpec": ("volumeAttributesClassName",),
            f"{_CORE}.PersistentVolumeClaimStatus": (
                "currentVolumeAttributesClassName",
                "modifyVolumeStatus",
            ),
            f"{_CORE}.PersistentVolumeSpec": ("volumeAttributesClassName",),
        },
    ),
}
"""Gates of 1.32 and later whose fields one of these releases knew before it had the gate on.

What is not dropped field by field is in `kinds.core.pods.earlier_fields`.
"""


def is_off(gate: str, release: str, on: frozenset[str]) -> bool:
    """Return whether a gate is off in a release; `on` are gates that are on although the release has them off."""
    return number(FIELD_GATES[gate].on_since) > number(release) and gate not in on


@cache
def _gated_in(
    type_name: str, minor: int, on: frozenset[str], used: frozenset[str]
) -> Marked | None:
    """Return the fields of a type whose gate a minor release has off, but for those `used`."""
    off = [
        gate
        for name, gate in FIELD_GATES.items()
        if number(gate.on_since) > minor and name not in on
    ]

    def names(short: str) -> frozenset[str]:
        found = {name for gate in off for name in gate.fields.get(short, ())}
        return frozenset(found - used)

    return marked_in(type_name, names)


def without_gated(
    type_name: str, tree: Tree, old: Tree | None, release: str, on: frozenset[str] = frozenset()
) -> Tree:
    """A tree without the fields of gates that the release has off, but for those that the old one uses.

    The same tree when there is nothing of it. `on` are gates that are on although the release has them off.
    """
    minor = number(release)
    kept, places = without_marked(_gated_in(type_name, minor, on, frozenset()), tree)
    if not places or old is None:
        return kept
    _, before = without_marked(_gated_in(type_name, minor, on, frozenset()), old)
    if not before:
        return kept
    used = frozenset(place.rpartition(".")[2] for place in before)
    return without_marked(_gated_in(type_name, minor, on, used), tree)[0]
