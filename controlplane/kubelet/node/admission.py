"""Admission of a pod that was bound to the node: the kubelet's own predicates.

Upstream: pkg/kubelet/lifecycle/predicate.go and pkg/scheduler `AdmissionCheck`. The scheduler has
decided already; this check is what catches races (two schedulers, stale caches, changed labels).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import attrs

from controlplane.api.labels import SelectorError
from controlplane.api.node import Node
from controlplane.api.node_selector import RequiredNodeAffinity
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Options,
    pod_requests,
)
from controlplane.api.quantity import Quantity
from controlplane.api.taints import NO_EXECUTE, untolerated
from controlplane.kubelet.pod.preemption import Victims, is_critical, is_static, victims_for

WITH_STATUS: Final = Options(use_status=True, pod_level_status=True)
_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_WILDCARD: Final = "0.0.0.0"  # noqa: S104 - a host IP of a port, nothing listens here

UNEXPECTED: Final = "UnexpectedAdmissionError"
NODE_AFFINITY: Final = "NodeAffinity"
OS_LABEL: Final = "kubernetes.io/os"


@attrs.frozen
class Insufficient:
    """A resource that does not suffice; CPU in millicores, all else in whole units."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        """The reason a pod fails with."""
        return f"OutOf{self.resource}"

    @property
    def message(self) -> str:
        """The message a pod fails with."""
        return (
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )

    @property
    def missing(self) -> int:
        """Return the amount that must be freed."""
        return self.requested - (self.capacity - self.used)


@attrs.frozen
class Mismatch:
    """A predicate other than resources that failed."""

    predicate: str
    detail: str

    @property
    def reason(self) -> str:
        """The reason a pod fails with."""
        return self.predicate

    @property
    def message(self) -> str:
        """The message a pod fails with."""
        return f"Predicate {self.predicate} failed: {self.detail}"


Failure = Insufficient | Mismatch


@attrs.frozen
class Admission:
    """The decision; `victims` are to be killed before the admitted pod starts."""

    admitted: bool
    reason: str = ""
    message: str = ""
    victims: tuple[Pod, ...] = ()


ADMITTED: Final = Admission(admitted=True)


class Disk(Protocol):
    """Data of a handler on the machine: they are there again after a restart."""

    def read(self, key: str, default: Any = None) -> Any:
        """Return the value that was written last."""

    def write(self, key: str, value: Any) -> None:
        """Keep it."""


Amounts = dict[str, int]
"""Millicores of CPU, whole units of everything else, by resource."""


def requested(pod: Pod) -> Amounts:
    """Return the amounts that a running pod counts for: its allocation, or its actual resources."""
    found = pod_requests(pod, WITH_STATUS)
    return {name: amount(name, quantity) for name, quantity in found.items()}


@attrs.frozen
class NodeState:
    """Input of the handlers: the node, its other active pods in the order of their admission, and the disk.

    `requested` tells the amounts that another pod counts for; a frequent caller caches them.
    """

    node: Node
    active: Sequence[Pod]
    disk: Disk | None = None
    requested: Callable[[Pod], Amounts] = requested


class AdmitHandler(Protocol):
    """A handler of pod admission. Upstream: pkg/kubelet/lifecycle/interfaces.go (PodAdmitHandler)."""

    def admit(self, pod: Pod, state: NodeState) -> Admission:
        """Refuse it, or admit it, perhaps at the cost of others."""


class OperatingSystem:
    """Refuses pods for another operating system."""

    def admit(self, pod: Pod, state: NodeState) -> Admission:
        """By the label first, then by the field."""
        return _operating_system(pod, state.node) or ADMITTED


@attrs.frozen
class Predicates:
    """The scheduler's predicates once more; critical pods may be admitted at the cost of less important ones."""

    preempts: bool = True
    """A critical pod may preempt: not for its resize where the scheduler makes room for resizes (KEP-5836)."""

    def admit(self, pod: Pod, state: NodeState) -> Admission:
        """Refuse with the first predicate that fails and that killing others does not help."""
        failures = predicates(pod, state.node, state.active, state.requested)
        victims: Victims = ()
        if failures and self.preempts and is_critical(pod):
            others: list[Failure] = [item for item in failures if isinstance(item, Mismatch)]
            if not others:
                missing = {
                    item.resource: item.missing
                    for item in failures
                    if isinstance(item, Insufficient)
                }
                found = victims_for(pod, state.active, missing)
                if isinstance(found, str):
                    message = (
                        "Unexpected error while attempting to recover from admission failure: "
                        f"preemption: error finding a set of pods to preempt: {found}"
                    )
                    return Admission(False, UNEXPECTED, message)
                victims = found
            failures = others
        if failures:
            return Admission(False, failures[0].reason, failures[0].message)
        return Admission(True, victims=victims) if victims else ADMITTED


HANDLERS: Final[tuple[AdmitHandler, ...]] = (OperatingSystem(), Predicates())
"""The handlers in upstream's order. A new one is one more entry here."""
WITHOUT_PREEMPTION: Final[tuple[AdmitHandler, ...]] = (
    OperatingSystem(),
    Predicates(preempts=False),
)


def admit(
    pod: Pod,
    node: Node,
    active: Sequence[Pod],
    *,
    disk: Disk | None = None,
    handlers: Sequence[AdmitHandler] = HANDLERS,
    requested: Callable[[Pod], Amounts] = requested,
) -> Admission:
    """Ask one handler after the other: the first refusal counts, and victims add up."""
    state = NodeState(node, active, disk, requested)
    victims: Victims = ()
    for handler in handlers:
        decided = handler.admit(pod, state)
        if not decided.admitted:
            return decided
        victims = (*victims, *(each for each in decided.victims if each not in victims))
    return Admission(True, victims=victims) if victims else ADMITTED


def rejection_status(pod: Pod, reason: str, message: str) -> dict[str, str]:
    """The status fields of a rejected pod: it fails for good, controllers make another."""
    status = {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
    }
    if pod.status.qos_class:
        status["qosClass"] = pod.status.qos_class
    return status


def _operating_system(pod: Pod, node: Node) -> Admission | None:
    wanted = pod.labels.get(OS_LABEL)
    actual = node.labels.get(OS_LABEL, "linux")
    if wanted is not None and wanted != actual:
        return Admission(
            False,
            "PodOSSelectorNodeLabelDoesNotMatch",
            f"Failed to admit pod as the `{OS_LABEL}` label doesn't match node label",
        )
    if pod.spec.os is not None and pod.spec.os.name != actual:
        return Admission(
            False,
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        )
    return None


def predicates(
    pod: Pod,
    node: Node,
    active: Sequence[Pod],
    requested: Callable[[Pod], Amounts] = requested,
) -> list[Failure]:
    """All failed predicates in upstream's order: resources, affinity, name, ports, taints."""
    failures: list[Failure] = list(insufficient_resources(pod, node, active, requested))
    try:
        fits = RequiredNodeAffinity(pod).match(node)
    except SelectorError:
        fits = False
    if not fits:
        failures.append(
            Mismatch(NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
        )
    if pod.spec.node_name and pod.spec.node_name != node.name:
        failures.append(Mismatch("NodeName", "node(s) didn't match the requested node name"))
    if _ports_clash(pod, active):
        failures.append(
            Mismatch("NodePorts", "node(s) didn't have free ports for the requested pod ports")
        )
    if not is_static(pod):
        taint = untolerated(
            node.spec.taints, pod.spec.tolerations, lambda item: item.effect == NO_EXECUTE
        )
        if taint is not None:
            failures.append(
                Mismatch("TaintToleration", "node(s) had taints that the pod didn't tolerate")
            )
    return failures


def insufficient_resources(
    pod: Pod,
    node: Node,
    active: Sequence[Pod],
    requested: Callable[[Pod], Amounts] = requested,
) -> list[Insufficient]:
    """Resources that the node lacks: pods, CPU, memory, ephemeral storage, then the others.

    Other pods count with what they actually have (in-place resize), the pod itself with its spec.
    Extended resources that the node does not know are left to their providers.
    """
    allocatable = {name: amount(name, q) for name, q in node.status.allocatable.items()}
    found: list[Insufficient] = []
    allowed = allocatable.get(PODS, 0)
    if len(active) + 1 > allowed:
        found.append(Insufficient(PODS, 1, len(active), allowed))
    requests = {name: amount(name, q) for name, q in pod_requests(pod).items()}
    used: dict[str, int] = {}
    for other in active:
        for name, value in requested(other).items():
            used[name] = used.get(name, 0) + value
    others = [name for name in requests if name not in _NATIVE]
    for name in (*_NATIVE, *others):
        wanted = requests.get(name, 0)
        if name not in _NATIVE and name not in allocatable:
            continue
        capacity = allocatable.get(name, 0)
        if wanted > 0 and wanted > capacity - used.get(name, 0):
            found.append(Insufficient(name, wanted, used.get(name, 0), capacity))
    return found


def amount(name: str, quantity: Quantity) -> int:
    """A quantity as the predicates count it: millicores for CPU, else whole units."""
    return quantity.milli_value() if name == CPU else quantity.value()


def together(pods: Sequence[Pod]) -> Amounts:
    """Return the CPU and memory requests of pods, and their number."""
    found = dict.fromkeys((CPU, MEMORY), 0)
    for pod in pods:
        for name, quantity in pod_requests(pod).items():
            if name in found:
                found[name] += amount(name, quantity)
    return {**found, PODS: len(pods)}


def _host_ports(pod: Pod, *, running: bool) -> list[tuple[str, str, int]]:
    """(IP, protocol, port) of the host ports; `running` counts all init containers too."""
    spec = pod.spec
    sidecars = [c for c in spec.init_containers if running or c.restart_policy == "Always"]
    return [
        (port.host_ip or _WILDCARD, port.protocol or "TCP", port.host_port)
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    ]


def _ports_clash(pod: Pod, active: Sequence[Pod]) -> bool:
    wanted = _host_ports(pod, running=False)
    if not wanted:
        return False
    taken = [port for other in active for port in _host_ports(other, running=True)]
    return any(
        protocol == other_protocol
        and port == other_port
        and (ip == other_ip or _WILDCARD in (ip, other_ip))
        for ip, protocol, port in wanted
        for other_ip, other_protocol, other_port in taken
    )
