"""Workloads of the apps group."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.claims import PersistentVolumeClaim
from controlplane.api.meta import LabelSelector
from controlplane.api.pod import PodTemplateSpec
from controlplane.api.times import Time
from controlplane.api.tree import Tree
from controlplane.api.view import View


@attrs.frozen
class RollingUpdateDeployment:
    """The number of pods that a rolling update may add or miss."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


@attrs.frozen
class DeploymentStrategy:
    """The strategy for replacing pods."""

    rolling_update: RollingUpdateDeployment | None = None
    type: str = ""


@attrs.frozen
class DeploymentSpec:
    """Wanted pods of a deployment."""

    min_ready_seconds: int = 0
    paused: bool = False
    progress_deadline_seconds: int | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector | None = None
    strategy: DeploymentStrategy = attrs.field(factory=DeploymentStrategy)
    template: PodTemplateSpec = attrs.field(factory=PodTemplateSpec)


@attrs.frozen
class DeploymentCondition:
    """A condition of a deployment."""

    last_transition_time: Time | None = None
    last_update_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class DeploymentStatus:
    """Pods counted by a deployment."""

    available_replicas: int = 0
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    observed_generation: int = 0
    ready_replicas: int = 0
    replicas: int = 0
    terminating_replicas: int | None = None
    unavailable_replicas: int = 0
    updated_replicas: int = 0


@attrs.frozen(eq=False)
class Deployment(View):
    """A deployment."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "Deployment"

    spec: DeploymentSpec = attrs.field(factory=DeploymentSpec)
    status: DeploymentStatus = attrs.field(factory=DeploymentStatus)


@attrs.frozen
class ReplicaSetSpec:
    """Wanted pods of a replica set."""

    min_ready_seconds: int = 0
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = attrs.field(factory=PodTemplateSpec)


@attrs.frozen
class ReplicaSetCondition:
    """A condition of a replica set."""

    last_transition_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class ReplicaSetStatus:
    """Pods counted by a replica set."""

    available_replicas: int = 0
    conditions: tuple[ReplicaSetCondition, ...] = ()
    fully_labeled_replicas: int = 0
    observed_generation: int = 0
    ready_replicas: int = 0
    replicas: int = 0
    terminating_replicas: int | None = None


@attrs.frozen(eq=False)
class ReplicaSet(View):
    """A replica set."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "ReplicaSet"

    spec: ReplicaSetSpec = attrs.field(factory=ReplicaSetSpec)
    status: ReplicaSetStatus = attrs.field(factory=ReplicaSetStatus)


@attrs.frozen
class StatefulSetOrdinals:
    """The first ordinal."""

    start: int = 0


@attrs.frozen
class StatefulSetPersistentVolumeClaimRetentionPolicy:
    """The retention of the claims of removed pods."""

    when_deleted: str = ""
    when_scaled: str = ""


@attrs.frozen
class RollingUpdateStatefulSetStrategy:
    """The ordinals that a rolling update may change."""

    max_unavailable: int | str | None = None
    partition: int | None = None


@attrs.frozen
class StatefulSetUpdateStrategy:
    """The strategy for replacing pods."""

    rolling_update: RollingUpdateStatefulSetStrategy | None = None
    type: str = ""


@attrs.frozen
class StatefulSetSpec:
    """Wanted pods and claims of a stateful set."""

    min_ready_seconds: int = 0
    ordinals: StatefulSetOrdinals | None = None
    persistent_volume_claim_retention_policy: (
        StatefulSetPersistentVolumeClaimRetentionPolicy | None
    ) = None
    pod_management_policy: str = ""
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector | None = None
    service_name: str = ""
    template: PodTemplateSpec = attrs.field(factory=PodTemplateSpec)
    update_strategy: StatefulSetUpdateStrategy = attrs.field(factory=StatefulSetUpdateStrategy)
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()


@attrs.frozen
class StatefulSetCondition:
    """A condition of a stateful set."""

    last_transition_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class StatefulSetStatus:
    """Pods counted by a stateful set."""

    available_replicas: int = 0
    collision_count: int | None = None
    conditions: tuple[StatefulSetCondition, ...] = ()
    current_replicas: int = 0
    current_revision: str = ""
    observed_generation: int = 0
    ready_replicas: int = 0
    replicas: int = 0
    update_revision: str = ""
    updated_replicas: int = 0


@attrs.frozen(eq=False)
class StatefulSet(View):
    """A stateful set."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "StatefulSet"

    spec: StatefulSetSpec = attrs.field(factory=StatefulSetSpec)
    status: StatefulSetStatus = attrs.field(factory=StatefulSetStatus)


@attrs.frozen
class RollingUpdateDaemonSet:
    """The number of pods that a rolling update may add or miss."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


@attrs.frozen
class DaemonSetUpdateStrategy:
    """The strategy for replacing pods."""

    rolling_update: RollingUpdateDaemonSet | None = None
    type: str = ""


@attrs.frozen
class DaemonSetSpec:
    """The pod that every node is to run."""

    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = attrs.field(factory=PodTemplateSpec)
    update_strategy: DaemonSetUpdateStrategy = attrs.field(factory=DaemonSetUpdateStrategy)


@attrs.frozen
class DaemonSetCondition:
    """A condition of a daemon set."""

    last_transition_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class DaemonSetStatus:
    """Nodes counted by a daemon set."""

    collision_count: int | None = None
    conditions: tuple[DaemonSetCondition, ...] = ()
    current_number_scheduled: int = 0
    desired_number_scheduled: int = 0
    number_available: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    number_unavailable: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0


@attrs.frozen(eq=False)
class DaemonSet(View):
    """A daemon set."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "DaemonSet"

    spec: DaemonSetSpec = attrs.field(factory=DaemonSetSpec)
    status: DaemonSetStatus = attrs.field(factory=DaemonSetStatus)


@attrs.frozen(eq=False)
class ControllerRevision(View):
    """A stored revision of a template."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "ControllerRevision"

    data: Tree | None = None
    revision: int = 0
