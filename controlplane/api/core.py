"""The core group: re-exports its larger kinds and defines the small ones."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.claims import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
)
from controlplane.api.constraints import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from controlplane.api.containers import (
    Container,
    ContainerPort,
    EphemeralContainer,
    Probe,
    ResourceRequirements,
)
from controlplane.api.events import Event, EventSeries, EventSource
from controlplane.api.node import (
    ContainerImage,
    Node,
    NodeAddress,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
)
from controlplane.api.pod import Pod, PodSpec, PodTemplateSpec
from controlplane.api.pod_status import ContainerState, ContainerStatus, PodCondition, PodStatus
from controlplane.api.quantity import Quantity
from controlplane.api.references import LocalObjectReference, ObjectReference
from controlplane.api.service import Service, ServicePort, ServiceSpec, ServiceStatus
from controlplane.api.times import Time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.view import View
from controlplane.api.volumes import Volume

__all__ = [
    "Affinity",
    "ConfigMap",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerState",
    "ContainerStatus",
    "EphemeralContainer",
    "Event",
    "EventSeries",
    "EventSource",
    "LimitRange",
    "LimitRangeItem",
    "LimitRangeSpec",
    "LocalObjectReference",
    "Namespace",
    "NamespaceCondition",
    "NamespaceSpec",
    "NamespaceStatus",
    "Node",
    "NodeAddress",
    "NodeAffinity",
    "NodeCondition",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "NodeSystemInfo",
    "ObjectReference",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodCondition",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "PreferredSchedulingTerm",
    "Probe",
    "ReplicationController",
    "ReplicationControllerCondition",
    "ReplicationControllerSpec",
    "ReplicationControllerStatus",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ResourceRequirements",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "WeightedPodAffinityTerm",
]


@attrs.frozen
class NamespaceSpec:
    """Finalizers that hold a namespace."""

    finalizers: tuple[str, ...] = ()


@attrs.frozen
class NamespaceCondition:
    """A condition met while a namespace is deleted."""

    last_transition_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class NamespaceStatus:
    """Phase of a namespace."""

    conditions: tuple[NamespaceCondition, ...] = ()
    phase: str = ""


@attrs.frozen(eq=False)
class Namespace(View):
    """A namespace."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Namespace"

    spec: NamespaceSpec = attrs.field(factory=NamespaceSpec)
    status: NamespaceStatus = attrs.field(factory=NamespaceStatus)


@attrs.frozen(eq=False)
class ConfigMap(View):
    """Configuration data."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ConfigMap"

    binary_data: dict[str, str] = EMPTY_MAP
    data: dict[str, str] = EMPTY_MAP
    immutable: bool | None = None


@attrs.frozen(eq=False)
class Secret(View):
    """Secret data, base64 as on the wire."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Secret"

    data: dict[str, str] = EMPTY_MAP
    immutable: bool | None = None
    string_data: dict[str, str] = EMPTY_MAP
    type: str = ""


@attrs.frozen(eq=False)
class ServiceAccount(View):
    """An identity for pods."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ServiceAccount"

    automount_service_account_token: bool | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    secrets: tuple[ObjectReference, ...] = ()


@attrs.frozen
class ReplicationControllerSpec:
    """Wanted pods of a replication controller."""

    min_ready_seconds: int = 0
    replicas: int | None = None
    selector: dict[str, str] = EMPTY_MAP
    template: PodTemplateSpec | None = None


@attrs.frozen
class ReplicationControllerCondition:
    """A condition of a replication controller."""

    last_transition_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class ReplicationControllerStatus:
    """Pods counted by a replication controller."""

    available_replicas: int = 0
    conditions: tuple[ReplicationControllerCondition, ...] = ()
    fully_labeled_replicas: int = 0
    observed_generation: int = 0
    ready_replicas: int = 0
    replicas: int = 0


@attrs.frozen(eq=False)
class ReplicationController(View):
    """A replication controller."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ReplicationController"

    spec: ReplicationControllerSpec = attrs.field(factory=ReplicationControllerSpec)
    status: ReplicationControllerStatus = attrs.field(factory=ReplicationControllerStatus)


@attrs.frozen
class ResourceQuotaSpec:
    """Limits of a namespace."""

    hard: dict[str, Quantity] = EMPTY_MAP
    scope_selector: Tree | None = None
    scopes: tuple[str, ...] = ()


@attrs.frozen
class ResourceQuotaStatus:
    """Limits and use of a namespace."""

    hard: dict[str, Quantity] = EMPTY_MAP
    used: dict[str, Quantity] = EMPTY_MAP


@attrs.frozen(eq=False)
class ResourceQuota(View):
    """A quota."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ResourceQuota"

    spec: ResourceQuotaSpec = attrs.field(factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = attrs.field(factory=ResourceQuotaStatus)


@attrs.frozen
class LimitRangeItem:
    """Limits and defaults of one type of object."""

    default: dict[str, Quantity] = EMPTY_MAP
    default_request: dict[str, Quantity] = EMPTY_MAP
    max: dict[str, Quantity] = EMPTY_MAP
    max_limit_request_ratio: dict[str, Quantity] = EMPTY_MAP
    min: dict[str, Quantity] = EMPTY_MAP
    type: str = ""


@attrs.frozen
class LimitRangeSpec:
    """All limits of a limit range."""

    limits: tuple[LimitRangeItem, ...] = ()


@attrs.frozen(eq=False)
class LimitRange(View):
    """A limit range."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "LimitRange"

    spec: LimitRangeSpec = attrs.field(factory=LimitRangeSpec)
