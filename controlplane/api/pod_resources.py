"""The resources of a pod as a whole: requests, limits and its quality-of-service class.

Equal to component-helpers' `resource` package and the kubelet's `qos` package, including what an
in-place resize does to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs

from controlplane.api.containers import Container, ResourceRequirements
from controlplane.api.pod import Pod
from controlplane.api.pod_status import ContainerStatus
from controlplane.api.quantity import Quantity, parse

Resources: TypeAlias = Mapping[str, Quantity]

CPU: Final = "cpu"
MEMORY: Final = "memory"
HUGE_PAGES: Final = "hugepages-"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"

_ZERO: Final = parse("0")


@attrs.frozen
class Options:
    """The parts that count.

    `use_status` includes what the kubelet allocated and actuated; `pod_level_status` does the same
    for the resources of the pod itself; `non_missing` stands in for requests a container lacks.
    """

    use_status: bool = False
    pod_level_status: bool = False
    skip_pod_level: bool = False
    skip_containers: bool = False
    exclude_overhead: bool = False
    non_missing: Resources | None = None
    allocated: bool = True
    """True if allocated resources count with `use_status` (not before #129532)."""
    node_allocatable: bool = False
    """True if resources count that the pod's devices stand for (feature DRANodeAllocatableResources)."""


DEFAULT: Final = Options()


def is_pod_level_resource(name: str) -> bool:
    """Return whether a resource may be given for the pod as a whole."""
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES)


def pod_level_requests_set(pod: Pod) -> bool:
    """Return whether the pod as a whole requests anything."""
    resources = pod.spec.resources
    return resources is not None and any(map(is_pod_level_resource, resources.requests))


def pod_level_resources_set(pod: Pod) -> bool:
    """Return whether the pod as a whole has requests or limits."""
    resources = pod.spec.resources
    return pod_level_requests_set(pod) or (
        resources is not None and any(map(is_pod_level_resource, resources.limits))
    )


def resize_pending(pod: Pod, reason: str) -> bool:
    """Return whether the kubelet holds a resize back for this reason (Infeasible or Deferred)."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == reason
    return False


def pod_requests(pod: Pod, options: Options = DEFAULT) -> dict[str, Quantity]:
    """Requests of the whole pod with overhead."""
    total = {} if options.skip_containers else aggregate_requests(pod, options)
    if not options.skip_pod_level and pod_level_requests_set(pod):
        _replace(pod, total, options, "requests")
    if not options.exclude_overhead:
        _add(total, pod.spec.overhead)
    return total


def _by_devices(pod: Pod, total: dict[str, Quantity]) -> None:
    for status in pod.status.node_allocatable_resource_claim_statuses:
        resources = status.get("resources") or {}
        _add(total, {name: parse(str(amount)) for name, amount in resources.items()})


def pod_limits(pod: Pod, options: Options = DEFAULT) -> dict[str, Quantity]:
    """Limits of the whole pod; overhead counts only where there is a limit above zero.

    The containers count even with `skip_containers`, as upstream has it.
    """
    total = aggregate_limits(pod, options)
    if not options.skip_pod_level and pod_level_resources_set(pod):
        _replace(pod, total, options, "limits")
    if not options.exclude_overhead:
        for name, quantity in pod.spec.overhead.items():
            if name in total and not total[name].is_zero():
                total[name] = total[name] + quantity
    return total


def aggregate_requests(pod: Pod, options: Options = DEFAULT) -> dict[str, Quantity]:
    """Requests of all containers: the running ones together, or the largest step of the start."""
    total = _aggregate(pod, options, "requests")
    if options.node_allocatable and pod.status.node_allocatable_resource_claim_statuses:
        _by_devices(pod, total)
    return total


def aggregate_limits(pod: Pod, options: Options = DEFAULT) -> dict[str, Quantity]:
    """Limits of all containers, put together like requests."""
    return _aggregate(pod, options, "limits")


def _aggregate(pod: Pod, options: Options, part: str) -> dict[str, Quantity]:
    statuses: dict[str, ContainerStatus] = {}
    if options.use_status:
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            statuses[status.name] = status
    total: dict[str, Quantity] = {}
    for container in pod.spec.containers:
        _add(total, _of_container(pod, container, statuses, options, part))
    sidecars: dict[str, Quantity] = {}
    largest: dict[str, Quantity] = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            own = _of_container(pod, container, statuses, options, part)
            _add(total, own)
            _add(sidecars, own)
            step = sidecars
        else:
            step = dict(_of_container(pod, container, {}, options, part))
            _add(step, sidecars)
        _max(largest, step)
    _max(total, largest)
    return total


def _part(resources: ResourceRequirements | None, part: str) -> Resources:
    if resources is None:
        return {}
    return resources.requests if part == "requests" else resources.limits


def _of_container(
    pod: Pod,
    container: Container,
    statuses: Mapping[str, ContainerStatus],
    options: Options,
    part: str,
) -> Resources:
    own = _part(container.resources, part)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        wanted: dict[str, Quantity] = {}
        if not resize_pending(pod, "Infeasible"):
            _max(wanted, own)
        _max(wanted, _part(status.resources, part))
        if part == "requests" and options.allocated:
            _max(wanted, status.allocated_resources)
        own = wanted
    missing = options.non_missing
    if part == "requests" and missing and any(name not in own for name in missing):
        own = {**missing, **own}
    return own


def _replace(pod: Pod, total: dict[str, Quantity], options: Options, part: str) -> None:
    """Puts the amounts given for the pod as a whole in place of the sums."""
    status = pod.status.resources if options.use_status and options.pod_level_status else None
    infeasible = status is not None and resize_pending(pod, "Infeasible")
    for name, quantity in _part(pod.spec.resources, part).items():
        if not is_pod_level_resource(name):
            continue
        if status is not None:
            effective: dict[str, Quantity] = {} if infeasible else {name: quantity}
            sources = [_part(status, part)]
            if part == "requests":
                sources.append(pod.status.allocated_resources)
            for source in sources:
                if name in source:
                    _max(effective, {name: source[name]})
            quantity = effective.get(name, _ZERO)
        total[name] = quantity


def _add(total: dict[str, Quantity], more: Resources) -> None:
    for name, quantity in more.items():
        have = total.get(name)
        total[name] = quantity if have is None else have + quantity


def _max(total: dict[str, Quantity], other: Resources) -> None:
    for name, quantity in other.items():
        have = total.get(name)
        if have is None or quantity.cmp(have) > 0:
            total[name] = quantity


def compute_qos(pod: Pod) -> str:
    """The quality-of-service class that the spec gives a pod."""
    whole = pod.spec.resources
    if whole is not None:
        return quality_of_service([(whole.requests, whole.limits)])
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return quality_of_service((c.resources.requests, c.resources.limits) for c in containers)


def quality_of_service(parts: Iterable[tuple[Resources, Resources]]) -> str:
    """The class of requests and limits: the pod's own if it has some, else those of each container.

    Upstream: pkg/apis/core/helper/qos, ComputePodQOS.
    """
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for asked, limited in parts:
        _add(requests, _counting(asked))
        counting = _counting(limited)
        _add(limits, counting)
        guaranteed = guaranteed and CPU in counting and MEMORY in counting
    if not requests and not limits:
        return BEST_EFFORT
    if guaranteed and len(requests) == len(limits):
        if all(name in limits and limits[name] == q for name, q in requests.items()):
            return GUARANTEED
    return BURSTABLE


def _counting(resources: Resources) -> dict[str, Quantity]:
    """CPU and memory above zero: what the class depends on."""
    return {
        name: quantity
        for name, quantity in resources.items()
        if name in (CPU, MEMORY) and quantity.sign() > 0
    }


def pod_qos(pod: Pod) -> str:
    """The class recorded in the status, else the computed one."""
    return pod.status.qos_class or compute_qos(pod)
