"""Requests of a pod's containers, as the resource managers count: one by one, and the pod as a whole.

Upstream: the guaranteed amounts of pkg/kubelet/cm/cpumanager and memorymanager.
"""

from __future__ import annotations

from collections.abc import Callable

from controlplane.api.containers import Container
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import (
    CPU,
    GUARANTEED,
    MEMORY,
    pod_level_resources_set,
    pod_qos,
)
from controlplane.kubelet.features import Features


def containers_of(pod: Pod) -> tuple[Container, ...]:
    """Init containers, then the others: the order of admission."""
    return (*pod.spec.init_containers, *pod.spec.containers)


def is_guaranteed(pod: Pod) -> bool:
    """Return whether the pod's class is Guaranteed."""
    return pod_qos(pod) == GUARANTEED


def is_sidecar(container: Container) -> bool:
    """Return whether an init container goes on running."""
    return container.restart_policy == "Always"


def is_init(pod: Pod, container: Container) -> bool:
    """Return whether a container is an init container that ends before the next begins."""
    return any(
        each.name == container.name and not is_sidecar(each) for each in pod.spec.init_containers
    )


def managed_as_a_whole(pod: Pod, features: Features) -> bool:
    """Return whether the pod has resources of its own that the managers hand out."""
    return (
        features.enabled("PodLevelResources")
        and features.enabled("PodLevelResourceManagers")
        and pod_level_resources_set(pod)
    )


def left_alone(pod: Pod, features: Features) -> bool:
    """Return whether the managers pass a pod over, because it has resources of its own and the gates are off."""
    return pod_level_resources_set(pod) and not managed_as_a_whole(pod, features)


def has_own_guarantee(container: Container) -> bool:
    """Return whether requests and limits of CPU and memory are equal and not zero."""
    resources = container.resources
    return all(
        name in resources.requests
        and name in resources.limits
        and not resources.requests[name].is_zero()
        and resources.requests[name] == resources.limits[name]
        for name in (CPU, MEMORY)
    )


def exclusive_cpus(pod: Pod, container: Container, features: Features) -> int:
    """Return the number of CPUs that a container gets exclusively; 0 means that it shares."""
    if not is_guaranteed(pod):
        return 0
    quantity = container.resources.requests.get(CPU)
    if quantity is None or quantity.value() * 1000 != quantity.milli_value():
        return 0
    if managed_as_a_whole(pod, features) and not has_own_guarantee(container):
        return 0
    return quantity.value()


def exclusive_cpus_of_pod(pod: Pod, features: Features) -> int:
    """Return the largest number of CPUs that a pod needs at any moment; its own request where that counts."""
    if managed_as_a_whole(pod, features):
        if not is_guaranteed(pod) or pod.spec.resources is None:
            return 0
        quantity = pod.spec.resources.requests.get(CPU)
        if quantity is None or quantity.value() * 1000 != quantity.milli_value():
            return 0
        return quantity.value()
    return most_at_once(pod, lambda container: exclusive_cpus(pod, container, features))


def most_at_once(pod: Pod, amount: Callable[[Container], int]) -> int:
    """The largest sum of what runs at the same time: each init container with the sidecars before it."""
    sidecars = largest = 0
    for container in pod.spec.init_containers:
        own = amount(container)
        if is_sidecar(container):
            sidecars += own
        else:
            largest = max(largest, sidecars + own)
    return max(largest, sidecars + sum(amount(container) for container in pod.spec.containers))
