"""Services."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.meta import Condition
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.view import View


@attrs.frozen
class ServicePort:
    """One port of a service."""

    app_protocol: str = ""
    name: str = ""
    node_port: int = 0
    port: int = 0
    protocol: str = ""
    target_port: int | str | None = None


@attrs.frozen
class ServiceSpec:
    """The pods behind a service, and its addresses."""

    allocate_load_balancer_node_ports: bool | None = None
    cluster_ip: str = ""
    cluster_ips: tuple[str, ...] = ()
    external_ips: tuple[str, ...] = ()
    external_name: str = ""
    external_traffic_policy: str = ""
    health_check_node_port: int = 0
    internal_traffic_policy: str = ""
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str = ""
    load_balancer_class: str = ""
    load_balancer_ip: str = ""
    load_balancer_source_ranges: tuple[str, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    selector: dict[str, str] = EMPTY_MAP
    session_affinity: str = ""
    session_affinity_config: Tree | None = None
    traffic_distribution: str = ""
    type: str = ""


@attrs.frozen
class ServiceStatus:
    """Addresses of load balancers and conditions."""

    conditions: tuple[Condition, ...] = ()
    load_balancer: Tree | None = None


@attrs.frozen(eq=False)
class Service(View):
    """A service."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Service"

    spec: ServiceSpec = attrs.field(factory=ServiceSpec)
    status: ServiceStatus = attrs.field(factory=ServiceStatus)
