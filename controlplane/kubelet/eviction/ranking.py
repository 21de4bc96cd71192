"""Order of eviction, and its messages.

Upstream: the rank functions, evictionMessage and localStorageEviction of pkg/kubelet/eviction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import EPHEMERAL_STORAGE, MEMORY, pod_limits
from controlplane.api.quantity import Quantity, parse
from controlplane.kubelet.eviction.manager import EVICTED, met_info
from controlplane.kubelet.eviction.settings import INODES, PIDS, EvictionThreshold
from controlplane.kubelet.eviction.stats import Observations, PodStats
from controlplane.kubelet.pod.preemption import is_critical, request_of
from controlplane.kubelet.pod.status import Condition

Stats = Callable[[Pod], PodStats | None]
_BYTES = (MEMORY, EPHEMERAL_STORAGE)
_NOTHING = parse("0")
POD_LIMIT = "ephemeralpodfs.limit"
CONTAINER_LIMIT = "ephemeralcontainerfs.limit"


@attrs.frozen
class Eviction:
    """A pod goes: for what, with which grace period at most, and what is said."""

    pod: Pod
    signal: str
    message: str
    grace_s: int
    condition: Condition | None = None

    @property
    def status(self) -> dict[str, str]:
        """Return the pod's status after the eviction."""
        return {"phase": "Failed", "reason": EVICTED, "message": self.message}


HARD_GRACE_S = 1


def candidates(pods: Iterable[Pod], resource: str, stats: Stats) -> list[Pod]:
    """The pods of which one goes for this resource: those that rank first. Critical ones never go.

    Upstream sorts them without keeping the order of equals, which come out of a map.
    """
    best: list[Pod] = []
    least: tuple[int, ...] | None = None
    for pod in pods:
        if is_critical(pod):
            continue
        rank = _rank(pod, resource, stats(pod))
        if least is None or rank < least:
            best, least = [pod], rank
        elif rank == least:
            best.append(pod)
    return best


def _rank(pod: Pod, resource: str, found: PodStats | None) -> tuple[int, ...]:
    """Pods without statistics go first, then those above their request, of low priority, far above it.

    Processes have no request: priority counts first. Inodes are compared with the request for bytes, as upstream
    does.
    """
    priority = pod.spec.priority or 0
    if resource == PIDS:
        return (priority, 0, 0) if found is None else (priority, 1, -found.used(PIDS))
    if found is None:
        return 0, 0, priority, 0
    used = found.used(resource)
    exceeds = used > (0 if resource == INODES else request_of(pod, resource))
    request = request_of(pod, EPHEMERAL_STORAGE if resource == INODES else resource)
    return 1, 0 if exceeds else 1, priority, request - used


def eviction(
    pod: Pod,
    reason: EvictionThreshold,
    thresholds: Sequence[EvictionThreshold],
    observed: Observations,
    stats: PodStats | None,
    max_grace_s: int,
) -> Eviction:
    """The eviction of a pod for a threshold that is met."""
    message = _message(pod, reason.resource, thresholds, observed, stats)
    grace = HARD_GRACE_S
    if not reason.hard:
        spec = pod.spec.termination_grace_period_seconds
        grace = max_grace_s if spec is None else min(max_grace_s, spec)
    condition = Condition("DisruptionTarget", "True", "TerminationByKubelet", message)
    return Eviction(pod, reason.signal, message, grace, condition)


def _message(
    pod: Pod,
    resource: str,
    thresholds: Sequence[EvictionThreshold],
    observed: Observations,
    stats: PodStats | None,
) -> str:
    text = f"The node was low on resource: {resource}. "
    info = met_info(resource, thresholds, observed)
    if info is not None:
        threshold, seen = info
        # A part of a capacity is shown as bytes are, whatever it counts.
        wanted = threshold.value.amount
        if wanted is None:
            wanted = Quantity.new(threshold.value.of_whole(seen.capacity), "BinarySI")
        left = Quantity.new(seen.available, "BinarySI" if resource in _BYTES else "DecimalSI")
        text += f"Threshold quantity: {wanted.canonical()}, available: {left.canonical()}. "
    if stats is None or resource not in _BYTES:
        return text
    whole = pod.spec.resources
    if resource == MEMORY and whole is not None and resource in whole.requests:
        used = Quantity.new(stats.used(resource), "BinarySI")
        text += _consumption("Pod", pod.name, used, whole.requests[resource], resource)
    for each in (*pod.spec.containers, *pod.spec.init_containers):
        if each.name in stats.containers:
            used = Quantity.new(stats.containers[each.name][resource], "BinarySI")
            request = each.resources.requests.get(resource, _NOTHING)
            if used.value() > request.value():
                text += _consumption("Container", each.name, used, request, resource)
    return text


def _consumption(what: str, name: str, used: Quantity, request: Quantity, resource: str) -> str:
    return (
        f"{what} {name} was using {used.canonical()}, request is {request.canonical()}, "
        f"has larger consumption of {resource}. "
    )


def over_limit(pods: Iterable[Pod], stats: Stats) -> list[Eviction]:
    """Pods that use more local storage than they, or their containers, may."""
    found = []
    for pod in pods:
        seen = stats(pod)
        if seen is None or is_critical(pod):
            continue
        limit = pod_limits(pod).get(EPHEMERAL_STORAGE)
        if limit is not None and seen.used(EPHEMERAL_STORAGE) > limit.value():
            text = (
                "Pod ephemeral local storage usage exceeds the total limit of containers "
                f"{limit.canonical()}. "
            )
            found.append(Eviction(pod, POD_LIMIT, text, HARD_GRACE_S))
            continue
        for each in pod.spec.containers:
            own = each.resources.limits.get(EPHEMERAL_STORAGE)
            used = seen.containers.get(each.name)
            if own is not None and own.value() and used and used[EPHEMERAL_STORAGE] > own.value():
                text = (
                    f"Container {each.name} exceeded its local ephemeral storage limit "
                    f'"{own.canonical()}". '
                )
                found.append(Eviction(pod, CONTAINER_LIMIT, text, HARD_GRACE_S))
                break
    return found
