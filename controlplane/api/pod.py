"""Pods and pod templates."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from controlplane.api.constraints import Affinity, Toleration, TopologySpreadConstraint
from controlplane.api.containers import Container, EphemeralContainer, ResourceRequirements
from controlplane.api.meta import ObjectMeta
from controlplane.api.pod_status import PodStatus
from controlplane.api.quantity import Quantity
from controlplane.api.references import LocalObjectReference
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.view import View
from controlplane.api.volumes import Volume
from controlplane.sharing.quick_init import quick_init

CONFIG_SOURCE: Final = "kubernetes.io/config.source"
"""Annotation of a kubelet's pod: where its manifest comes from, `api` or a file."""
CONFIG_MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of the mirror pod of a static pod."""
SYSTEM_CRITICAL: Final = 2_000_000_000
"""The least priority of system-critical pods."""


@attrs.frozen
class PodResourceClaim:
    """A claim for devices that containers of the pod can use."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


@attrs.frozen
class PodSchedulingGate:
    """A gate; while there is one, the scheduler leaves the pod alone."""

    name: str = ""


@attrs.frozen
class PodReadinessGate:
    """An additional condition that readiness needs."""

    condition_type: str = ""


@attrs.frozen
class PodSchedulingGroup:
    """The pod group that a pod is scheduled with."""

    pod_group_name: str = ""


@attrs.frozen
class PodOS:
    """The operating system a pod is for."""

    name: str = ""


@quick_init
@attrs.frozen(weakref_slot=False)
class PodSpec:
    """The containers of a pod, their placement, and their termination."""

    active_deadline_seconds: int | None = None
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = None
    containers: tuple[Container, ...] = ()
    dns_config: Tree | None = None
    dns_policy: str = ""
    enable_service_links: bool | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    host_aliases: tuple[Tree, ...] = ()
    host_ipc: bool = False
    host_network: bool = False
    host_pid: bool = False
    host_users: bool | None = None
    hostname: str = ""
    hostname_override: str = ""
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = EMPTY_MAP
    os: PodOS | None = None
    overhead: dict[str, Quantity] = EMPTY_MAP
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str = ""
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    restart_policy: str = ""
    runtime_class_name: str | None = None
    scheduler_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    security_context: Tree | None = None
    service_account: str = ""
    service_account_name: str = ""
    set_hostname_as_fqdn: bool | None = None
    share_process_namespace: bool | None = None
    subdomain: str = ""
    termination_grace_period_seconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()


@attrs.frozen
class PodTemplateSpec:
    """The template from which a controller makes pods."""

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: PodSpec = attrs.field(factory=PodSpec)


@attrs.frozen(eq=False)
class Pod(View):
    """A pod."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Pod"

    spec: PodSpec = attrs.field(factory=PodSpec)
    status: PodStatus = attrs.field(factory=PodStatus)
