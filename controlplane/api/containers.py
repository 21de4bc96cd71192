"""Containers of a pod: image, resources, ports, probes, and what happens when they end."""

from __future__ import annotations

import attrs

from controlplane.api.quantity import Quantity
from controlplane.api.tree import EMPTY_MAP, Tree


@attrs.frozen
class ResourceClaim:
    """Use of a resource claim of the pod by a container."""

    name: str = ""
    request: str = ""


@attrs.frozen
class ResourceRequirements:
    """Requests and limits by resource name."""

    claims: tuple[ResourceClaim, ...] = ()
    limits: dict[str, Quantity] = EMPTY_MAP
    requests: dict[str, Quantity] = EMPTY_MAP


@attrs.frozen
class ContainerPort:
    """A port that a container listens on; `host_port` 0 means none."""

    container_port: int = 0
    host_ip: str = ""
    host_port: int = 0
    name: str = ""
    protocol: str = ""


@attrs.frozen
class EnvVar:
    """An environment variable."""

    name: str = ""
    value: str = ""
    value_from: Tree | None = None


@attrs.frozen
class VolumeMount:
    """The mount of a volume in a container."""

    mount_path: str = ""
    mount_propagation: str = ""
    name: str = ""
    read_only: bool = False
    recursive_read_only: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


@attrs.frozen
class VolumeDevice:
    """The block device of a volume in a container."""

    device_path: str = ""
    name: str = ""


@attrs.frozen
class ContainerResizePolicy:
    """Whether a change of one resource restarts the container."""

    resource_name: str = ""
    restart_policy: str = ""


@attrs.frozen
class ContainerRestartRuleOnExitCodes:
    """Exit codes that a restart rule applies to."""

    operator: str = ""
    values: tuple[int, ...] = ()


@attrs.frozen
class ContainerRestartRule:
    """An exception from the restart policy of a container."""

    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


@attrs.frozen
class Probe:
    """A health check; all durations are in seconds."""

    exec: Tree | None = None
    failure_threshold: int = 0
    grpc: Tree | None = None
    http_get: Tree | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 0
    success_threshold: int = 0
    tcp_socket: Tree | None = None
    termination_grace_period_seconds: int | None = None
    timeout_seconds: int = 0


@attrs.frozen
class Lifecycle:
    """Hooks after start and before stop."""

    post_start: Tree | None = None
    pre_stop: Tree | None = None
    stop_signal: str = ""


@attrs.frozen
class Container:
    """A container or init container; `restart_policy` Always makes an init one a sidecar."""

    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[Tree, ...] = ()
    image: str = ""
    image_pull_policy: str = ""
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str = ""
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements = attrs.field(factory=ResourceRequirements)
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: Tree | None = None
    startup_probe: Probe | None = None
    stdin: bool = False
    stdin_once: bool = False
    termination_message_path: str = ""
    termination_message_policy: str = ""
    tty: bool = False
    volume_devices: tuple[VolumeDevice, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    working_dir: str = ""


@attrs.frozen
class EphemeralContainer:
    """A container added to a running pod for debugging."""

    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    image: str = ""
    image_pull_policy: str = ""
    name: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = attrs.field(factory=ResourceRequirements)
    restart_policy: str = ""
    target_container_name: str = ""
    volume_devices: tuple[VolumeDevice, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
