"""Nodes."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.constraints import Taint
from controlplane.api.quantity import Quantity
from controlplane.api.times import Time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.view import View


@attrs.frozen
class NodeSpec:
    """The desired state of a node."""

    pod_cidr: str = ""
    pod_cidrs: tuple[str, ...] = ()
    provider_id: str = ""
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


@attrs.frozen
class NodeAddress:
    """One address of a node."""

    address: str = ""
    type: str = ""


@attrs.frozen
class NodeCondition:
    """A condition of a node; heartbeat and transition are in nanoseconds."""

    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class ContainerImage:
    """An image on a node under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


@attrs.frozen
class AttachedVolume:
    """A volume attached to a node."""

    device_path: str = ""
    name: str = ""


@attrs.frozen
class NodeSystemInfo:
    """Facts about the machine."""

    architecture: str = ""
    boot_id: str = ""
    container_runtime_version: str = ""
    kernel_version: str = ""
    kube_proxy_version: str = ""
    kubelet_version: str = ""
    machine_id: str = ""
    operating_system: str = ""
    os_image: str = ""
    swap: Tree | None = None
    system_uuid: str = ""


@attrs.frozen
class NodeStatus:
    """The kubelet's report about its node."""

    addresses: tuple[NodeAddress, ...] = ()
    allocatable: dict[str, Quantity] = EMPTY_MAP
    capacity: dict[str, Quantity] = EMPTY_MAP
    conditions: tuple[NodeCondition, ...] = ()
    config: Tree | None = None
    daemon_endpoints: Tree | None = None
    declared_features: tuple[str, ...] = ()
    features: Tree | None = None
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo = attrs.field(factory=NodeSystemInfo)
    phase: str = ""
    runtime_handlers: tuple[Tree, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()


@attrs.frozen(eq=False)
class Node(View):
    """A node."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Node"

    spec: NodeSpec = attrs.field(factory=NodeSpec)
    status: NodeStatus = attrs.field(factory=NodeStatus)
