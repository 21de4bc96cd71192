"""Preemption on a node: the pods that make room for a critical pod.

Upstream: pkg/kubelet/preemption/preemption.go and pkg/kubelet/types/pod_update.go. The kubelet
prefers BestEffort victims, then Burstable, then Guaranteed, and as few and as fitting as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controlplane.api.pod import CONFIG_MIRROR, CONFIG_SOURCE, SYSTEM_CRITICAL, Pod
from controlplane.api.pod_resources import (
    BEST_EFFORT,
    BURSTABLE,
    CPU,
    GUARANTEED,
    MEMORY,
    PODS,
    pod_qos,
    pod_requests,
)

PREEMPTED_STATUS: Final = {
    "phase": "Failed",
    "reason": "Preempting",
    "message": "Preempted in order to admit critical pod",
}
PREEMPTED_CONDITION: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "TerminationByKubelet",
    "message": "Pod was preempted by Kubelet to accommodate a critical pod.",
}

Victims = tuple[Pod, ...]
Requirements = dict[str, int]


def is_static(pod: Pod) -> bool:
    """Return whether a pod comes from a file of the node and not from the API server."""
    source = pod.annotations.get(CONFIG_SOURCE)
    return source is not None and source != "api"


def is_critical(pod: Pod) -> bool:
    """Static and mirror pods, and those of the system's priority classes."""
    if is_static(pod) or CONFIG_MIRROR in pod.annotations:
        return True
    return pod.spec.priority is not None and pod.spec.priority >= SYSTEM_CRITICAL


def preemptable(preemptor: Pod, pod: Pod) -> bool:
    """Return whether a pod may be killed for another."""
    if is_critical(preemptor) and not is_critical(pod):
        return True
    mine, theirs = preemptor.spec.priority, pod.spec.priority
    return mine is not None and theirs is not None and mine > theirs


def request_of(pod: Pod, resource: str) -> int:
    """Return a pod's request: CPU in millicores, one of `pods`, else whole units."""
    if resource == PODS:
        return 1
    quantity = pod_requests(pod).get(resource)
    if quantity is None:
        return 0
    return quantity.milli_value() if resource == CPU else quantity.value()


def victims_for(preemptor: Pod, active: Sequence[Pod], missing: Mapping[str, int]) -> Victims | str:
    """The pods to kill, in order, so that `missing` amounts become free; text when none suffice."""
    classes: dict[str, list[Pod]] = {BEST_EFFORT: [], BURSTABLE: [], GUARANTEED: []}
    for pod in active:
        if preemptable(preemptor, pod):
            classes[pod_qos(pod)].append(pod)
    best_effort, burstable, guaranteed = classes.values()
    wanted = dict(missing)
    short = _subtract(wanted, [*best_effort, *burstable, *guaranteed])
    if short:
        return _nothing_found(short)
    chosen_guaranteed = _choose(guaranteed, _subtract(wanted, [*best_effort, *burstable]))
    chosen_burstable = _choose(burstable, _subtract(wanted, [*best_effort, *chosen_guaranteed]))
    chosen_best_effort = _choose(
        best_effort, _subtract(wanted, [*chosen_burstable, *chosen_guaranteed])
    )
    return (*chosen_best_effort, *chosen_burstable, *chosen_guaranteed)


def _nothing_found(short: Requirements) -> str:
    listed = "".join(f"(res: {name}, q: {amount}), " for name, amount in short.items())
    return f"no set of running pods found to reclaim resources: [{listed}]"


def _subtract(requirements: Requirements, pods: Iterable[Pod]) -> Requirements:
    """Return the amounts that are still missing once these pods are gone."""
    left = {}
    for name, amount in requirements.items():
        for pod in pods:
            amount -= request_of(pod, name)
            if amount <= 0:
                break
        if amount > 0:
            left[name] = amount
    return left


def _choose(candidates: list[Pod], requirements: Requirements) -> list[Pod]:
    """Pods of one class, each time the one nearest to what is still missing.

    Distances are floats as upstream; they only rank and are never kept.
    """
    pods = list(candidates)
    chosen: list[Pod] = []
    while requirements and pods:
        best, best_distance = 0, float(len(requirements) + 1)
        for i, pod in enumerate(pods):
            distance = _distance(pod, requirements)
            if distance < best_distance or (
                distance == best_distance and _not_larger(pod, pods[best])
            ):
                best, best_distance = i, distance
        requirements = _subtract(requirements, [pods[best]])
        chosen.append(pods[best])
        pods[best] = pods[-1]
        pods.pop()
    return chosen


def _distance(pod: Pod, requirements: Requirements) -> float:
    total = 0.0
    for name, amount in requirements.items():
        left = float(amount - request_of(pod, name))
        if left > 0:
            total += (left / float(amount)) ** 2
    return total


def _not_larger(pod: Pod, other: Pod) -> bool:
    mine = [request_of(pod, name) for name in (MEMORY, CPU)]
    return mine <= [request_of(other, name) for name in (MEMORY, CPU)]
