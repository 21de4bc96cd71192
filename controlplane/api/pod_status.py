"""The reports of the kubelet and the scheduler about a pod."""

from __future__ import annotations

import attrs

from controlplane.api.containers import ResourceRequirements
from controlplane.api.quantity import Quantity
from controlplane.api.times import Time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.sharing.quick_init import quick_init


@attrs.frozen
class PodCondition:
    """A condition of a pod."""

    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    message: str = ""
    observed_generation: int = 0
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class ContainerStateRunning:
    """Since when a container runs."""

    started_at: Time | None = None


@attrs.frozen
class ContainerStateTerminated:
    """The end of a container."""

    container_id: str = ""
    exit_code: int = 0
    finished_at: Time | None = None
    message: str = ""
    reason: str = ""
    signal: int = 0
    started_at: Time | None = None


@attrs.frozen
class ContainerStateWaiting:
    """The reason why a container does not run yet."""

    message: str = ""
    reason: str = ""


@attrs.frozen
class ContainerState:
    """Exactly one member is set; none at all means waiting."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


@quick_init
@attrs.frozen(weakref_slot=False)
class ContainerStatus:
    """One container of a pod as the kubelet sees it."""

    allocated_resources: dict[str, Quantity] = EMPTY_MAP
    allocated_resources_status: tuple[Tree, ...] = ()
    container_id: str = ""
    image: str = ""
    image_id: str = ""
    last_state: ContainerState = attrs.field(factory=ContainerState)
    name: str = ""
    ready: bool = False
    resources: ResourceRequirements | None = None
    restart_count: int = 0
    started: bool | None = None
    state: ContainerState = attrs.field(factory=ContainerState)
    stop_signal: str = ""
    user: Tree | None = None
    volume_mounts: tuple[Tree, ...] = ()


@attrs.frozen
class PodIP:
    """One address of a pod."""

    ip: str = ""


@attrs.frozen
class HostIP:
    """One address of the node of a pod."""

    ip: str = ""


@attrs.frozen
class PodResourceClaimStatus:
    """The claim that was created for an entry of the spec."""

    name: str = ""
    resource_claim_name: str | None = None


@quick_init
@attrs.frozen(weakref_slot=False)
class PodStatus:
    """Observed state of a pod; `start_time` is when the kubelet acknowledged it."""

    allocated_resources: dict[str, Quantity] = EMPTY_MAP
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    extended_resource_claim_status: Tree | None = None
    host_ip: str = ""
    host_ips: tuple[HostIP, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    message: str = ""
    node_allocatable_resource_claim_statuses: tuple[Tree, ...] = ()
    nominated_node_name: str = ""
    observed_generation: int = 0
    phase: str = ""
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    qos_class: str = ""
    reason: str = ""
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    resources: ResourceRequirements | None = None
    start_time: Time | None = None
