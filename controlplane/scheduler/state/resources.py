"""Resource requests: effective requests of containers and pods, and their integer form.

Upstream: component-helpers `resource/helpers.go` (1.36), `pkg/scheduler/framework/types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from controlplane.api.meta import ObjectMeta
from controlplane.api.pod import Pod, PodSpec
from controlplane.api.pod_resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Options,
    pod_level_requests_set,
)
from controlplane.api.pod_resources import HUGE_PAGES as HUGE_PAGES_PREFIX
from controlplane.api.pod_resources import pod_requests as effective_requests
from controlplane.api.quantity import Quantity, parse
from controlplane.api.tree import EMPTY_MAP
from controlplane.sharing.memory import by_identity

if TYPE_CHECKING:
    from controlplane.api.containers import Container
    from controlplane.api.pod_status import ContainerStatus

# What a container without a request counts for when nodes are scored.
DEFAULT_MILLI_CPU_REQUEST = 100
DEFAULT_MEMORY_REQUEST = 200 * 1024 * 1024
_DEFAULT_REQUESTS = {
    CPU: parse("100m"),
    MEMORY: parse(str(DEFAULT_MEMORY_REQUEST)),
}

Requests = Mapping[str, Quantity]


@attrs.define
class Resource:
    """Amounts in the scheduler's integer units: millicores, bytes, counts."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    allowed_pod_number: int = 0
    scalars: dict[str, int] = attrs.Factory(dict)

    @classmethod
    def from_requests(cls, requests: Requests) -> Resource:
        """Convert; names that are not resources the scheduler counts are ignored."""
        out = cls()
        for name, quantity in requests.items():
            if name == CPU:
                out.milli_cpu += quantity.milli_value()
            elif name == MEMORY:
                out.memory += quantity.value()
            elif name == PODS:
                out.allowed_pod_number += quantity.value()
            elif name == EPHEMERAL_STORAGE:
                out.ephemeral_storage += quantity.value()
            elif is_scalar_resource(name):
                out.scalars[name] = out.scalars.get(name, 0) + quantity.value()
        return out

    def fixed(self) -> Amounts:
        """The same amounts, for good."""
        return Amounts(
            self.milli_cpu,
            self.memory,
            self.ephemeral_storage,
            self.allowed_pod_number,
            self.scalars,
        )

    def get(self, name: str) -> int:
        """The amount of the named resource, 0 when there is none."""
        return _amount(self, name)

    def clone(self) -> Resource:
        """An independent copy."""
        return Resource(
            self.milli_cpu,
            self.memory,
            self.ephemeral_storage,
            self.allowed_pod_number,
            dict(self.scalars),
        )

    def add(self, other: Resource | Amounts, sign: int) -> None:
        """Add (`sign` 1) or subtract (`sign` -1) `other`, pod numbers excepted."""
        self.milli_cpu += sign * other.milli_cpu
        self.memory += sign * other.memory
        self.ephemeral_storage += sign * other.ephemeral_storage
        if other.scalars:
            scalars = self.scalars
            for name, amount in other.scalars.items():
                scalars[name] = scalars.get(name, 0) + sign * amount


@attrs.frozen
class Amounts:
    """The amounts of a `Resource`, in the same units, as a value that pods share."""

    milli_cpu: int
    memory: int
    ephemeral_storage: int
    allowed_pod_number: int
    scalars: Mapping[str, int]

    def get(self, name: str) -> int:
        """The amount of the named resource, 0 when there is none."""
        return _amount(self, name)


def _amount(resource: Resource | Amounts, name: str) -> int:
    if name == CPU:
        return resource.milli_cpu
    if name == MEMORY:
        return resource.memory
    if name == EPHEMERAL_STORAGE:
        return resource.ephemeral_storage
    return resource.scalars.get(name, 0)


@attrs.frozen
class PodResource:
    """A pod's totals; the non-zero ones replace missing requests by defaults."""

    resource: Amounts
    non_zero_milli_cpu: int
    non_zero_memory: int


def is_extended_resource(name: str) -> bool:
    """Return whether `name` is a resource outside Kubernetes' own namespace that can be requested."""
    if is_native_resource(name) or name.startswith("requests."):
        return False
    return is_qualified_name("requests." + name)


def is_native_resource(name: str) -> bool:
    """Return whether `name` has no prefix or one that contains `kubernetes.io/`."""
    return "/" not in name or "kubernetes.io/" in name


_ALNUM = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_NAME_CHARS = _ALNUM | frozenset("-_.")
_LOWER_ALNUM = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def is_qualified_name(name: str) -> bool:
    """Return whether `name` is a qualified name: optional DNS subdomain, a slash, a label-like name."""
    prefix, slash, rest = name.partition("/")
    if slash:
        if "/" in rest or not _is_dns_subdomain(prefix):
            return False
    else:
        rest = prefix
    return (
        0 < len(rest) <= 63
        and rest[0] in _ALNUM
        and rest[-1] in _ALNUM
        and all(char in _NAME_CHARS for char in rest)
    )


def _is_dns_subdomain(text: str) -> bool:
    if not text or len(text) > 253:
        return False
    for part in text.split("."):
        if not part or part[0] not in _LOWER_ALNUM or part[-1] not in _LOWER_ALNUM:
            return False
        if not all(char in _LOWER_ALNUM or char == "-" for char in part):
            return False
    return True


_scalar_names: dict[str, bool] = {}


def is_scalar_resource(name: str) -> bool:
    """Return whether the scheduler counts `name`: extended, huge pages, prefixed native, attachable."""
    known = _scalar_names.get(name)
    if known is None:
        known = _scalar_names[name] = (
            is_extended_resource(name)
            or name.startswith((HUGE_PAGES_PREFIX, "attachable-volumes-"))
            or "kubernetes.io/" in name
        )
    return known


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = False,
    pod_level: bool = True,
    non_missing: Requests | None = None,
    pod_level_status: bool | None = None,
    allocated: bool = True,
    by_devices: bool = False,
) -> dict[str, Quantity]:
    """Effective requests of the whole pod.

    `use_status` takes into account what the kubelet allocated and actuated (in-place resize);
    `non_missing` are substituted in containers that lack a request for the name; `by_devices` adds
    what the pod's devices stand for, as its status says.
    """
    options = Options(
        use_status=use_status,
        pod_level_status=use_status if pod_level_status is None else pod_level_status,
        skip_pod_level=not pod_level,
        non_missing=non_missing,
        allocated=allocated,
        node_allocatable=by_devices,
    )
    return effective_requests(pod, options)


def containers_tell_requests(pod: Pod) -> bool:
    """Return whether the pod's requests are those of its containers: nothing pod-wide, no init containers.

    The status of such a container says the same as its spec: it is not being resized.
    """
    spec, status = pod.spec, pod.status
    if spec.init_containers or spec.overhead or pod_level_requests_set(pod):
        return False
    if status.node_allocatable_resource_claim_statuses:
        return False
    return not status.container_statuses or _repeated(spec.containers, status.container_statuses)


def _repeated(containers: Sequence[Container], statuses: Sequence[ContainerStatus]) -> bool:
    asked = {each.name: each.resources.requests for each in containers}
    for status in statuses:
        own = asked.get(status.name)
        if own is not None and status.resources is not None:
            has, promised = status.resources.requests, status.allocated_resources
            if has != own or (promised and promised != own):
                return False
    return True


def pod_resource(pod: Pod, *, use_status: bool = True, allocated: bool = True) -> PodResource:
    """Integer totals of a pod, with and without defaults for missing requests."""
    if containers_tell_requests(pod):
        return _plain_resource(pod.spec.containers)
    return _pod_resource(pod, use_status=use_status, allocated=allocated)


@by_identity
def _plain_resource(containers: tuple[Container, ...]) -> PodResource:
    """Pods of one template share their containers, and so what these ask for."""
    return _pod_resource(Pod(EMPTY_MAP, ObjectMeta(), PodSpec(containers=containers)))


def _pod_resource(pod: Pod, *, use_status: bool = True, allocated: bool = True) -> PodResource:
    requests = pod_requests(pod, use_status=use_status, allocated=allocated, by_devices=True)
    non_missing = missing_defaults(requests, pod_level_requests_set(pod))
    non_zero = requests
    if non_missing and _any_container_lacks(pod, non_missing):
        non_zero = pod_requests(
            pod,
            use_status=use_status,
            non_missing=non_missing,
            allocated=allocated,
            by_devices=True,
        )
    cpu, memory = non_zero.get(CPU), non_zero.get(MEMORY)
    return PodResource(
        Resource.from_requests(requests).fixed(),
        0 if cpu is None else cpu.milli_value(),
        0 if memory is None else memory.value(),
    )


def missing_defaults(requests: Requests, pod_level: bool) -> Requests:
    """Return the defaults that apply: all, or with pod-level requests only names absent from the total."""
    if not pod_level:
        return _DEFAULT_REQUESTS
    return {name: q for name, q in _DEFAULT_REQUESTS.items() if name not in requests}


def _any_container_lacks(pod: Pod, names: Requests) -> bool:
    # Status can add names that the spec lacks, never remove them, except when a resize is
    # infeasible; looking at the spec alone may only cause a harmless second computation.
    if pod.status.container_statuses or pod.status.init_container_statuses:
        return True
    containers = pod.spec.containers + pod.spec.init_containers
    return any(name not in c.resources.requests for c in containers for name in names)
