"""Actuation: bringing a running pod from its actual to its allocated resources.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go (computePodResizeAction, doPodResizeAction,
validateMemoryResizeAction). The caller that carries a plan out does its steps in order and stops at the first that
fails; after each step for a container that worked, the actuated record is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from controlplane.api import quantity
from controlplane.api.containers import Container, ResourceRequirements
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import CPU, MEMORY, pod_limits, pod_requests
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.kubelet.allocation.state import PodResources, resizable, with_resources
from controlplane.kubelet.features import Features
from controlplane.sharing.memory import by_identity

LIMITS: Final = "limits"
REQUESTS: Final = "requests"
RESTART: Final = "RestartContainer"
_ORDER: Final = (MEMORY, CPU)


@attrs.frozen
class ContainerStep:
    """Give a container its new amounts of one resource; those of the other go along unchanged."""

    container: str
    resource: str


@attrs.frozen
class PodStep:
    """Write the pod's cgroup: millicores or bytes. The runtime is asked before and may refuse."""

    resource: str
    part: str
    amount: int


Step = ContainerStep | PodStep


@attrs.frozen
class Plan:
    """Containers to kill, so that they start anew with all new amounts, and steps to take in order.

    `new_limits` are memory limits that shrink or appear, by container ("" for the pod), in bytes.
    """

    restarts: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    new_limits: Mapping[str, int] = attrs.field(factory=dict)


def restart_message(container: str) -> str:
    """Return the reason for killing a container."""
    return f"Container {container} resize requires restart"


def in_progress(
    pod: Pod, actuated: PodResources | None, running: Callable[[str], bool], features: Features
) -> bool:
    """Return whether some running container, or the pod as a whole, has not got its allocated resources."""
    for container in resizable(pod, features):
        if running(container.name) and _changes(container, actuated):
            return True
    if actuated is None:  # no container was made yet: nothing has another size
        return False
    whole = actuated.pod_level
    now = pod.tree["spec"].get("resources")
    return any(
        _amount(now, part, resource) != _amount(whole, part, resource)
        for part in (REQUESTS, LIMITS)
        for resource in (CPU, MEMORY)
    )


def plan(
    pod: Pod, actuated: PodResources | None, running: Callable[[str], bool], features: Features
) -> Plan:
    """Return the actions to take; `pod` holds the allocated resources, a missing record counts as nothing."""
    restarts: list[str] = []
    lists: dict[str, list[tuple[str, int, int]]] = {MEMORY: [], CPU: []}
    new_limits: dict[str, int] = {}
    for container in resizable(pod, features):
        if not running(container.name):
            continue
        changes = _changes(container, actuated)
        policies = {each.resource_name: each.restart_policy for each in container.resize_policy}
        if any(policies.get(resource) == RESTART for resource in changes):
            restarts.append(container.name)
            continue
        for resource, (before, after) in changes.items():
            entry = (container.name, before, after)
            if after < before:
                lists[resource].insert(0, entry)
            else:
                lists[resource].append(entry)
        was, limit = (
            _amount(each, LIMITS, MEMORY)
            for each in (_record(container, actuated), _own(container))
        )
        if MEMORY in changes and limit and (limit < was or not was):
            new_limits[container.name] = limit
    earlier = pod if actuated is None else with_resources(pod, actuated)
    if earlier is pod and not (restarts or lists[MEMORY] or lists[CPU]):
        return Plan()
    steps: list[Step] = []
    for resource in _ORDER:
        old, new = _pod_amounts(earlier, resource), _pod_amounts(pod, resource)
        containers: list[Step] = [ContainerStep(name, resource) for name, _, _ in lists[resource]]
        if not containers and not restarts and old == new:
            continue
        for part in (LIMITS, REQUESTS):
            if _grows(old[part], new[part], part, resource):
                steps.append(PodStep(resource, part, new[part] or 0))
        steps += containers
        for part in (REQUESTS, LIMITS):
            if _shrinks(old[part], new[part], part, resource):
                steps.append(PodStep(resource, part, new[part] or 0))
        if resource == MEMORY:
            was_limit, limit_now = old[LIMITS], new[LIMITS]
            if limit_now is not None and (was_limit is None or limit_now < was_limit):
                new_limits[""] = limit_now
    return Plan(tuple(restarts), tuple(steps), new_limits)


def memory_objection(made: Plan, usage: Callable[[str], int]) -> str:
    """Return the reason why the memory limits cannot be set now: "" when there is none.

    `usage` is in bytes, by container, "" for the pod. Of a container upstream prints the pod's usage.
    """
    texts = []
    whole = usage("")
    limit = made.new_limits.get("")
    if limit is not None and whole >= limit:
        texts.append(f"attempting to set pod memory limit ({limit}) below current usage ({whole})")
    for container, wanted in made.new_limits.items():
        if container and usage(container) >= wanted:
            texts.append(
                f"attempting to set container {quote(container)} memory limit ({wanted}) "
                f"below current usage ({whole})"
            )
    if not texts:
        return ""
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return f"cannot decrease memory limits: {joined}"


def actuated_after(pod: Pod, actuated: PodResources | None, step: ContainerStep) -> PodResources:
    """The actuated record once a container has its new amounts of one resource."""
    known = actuated or PodResources({})
    record = known.containers.get(step.container) or {}
    promised = next(
        _own(each)
        for each in (*pod.spec.init_containers, *pod.spec.containers)
        if each.name == step.container
    )
    changed: Tree = {}
    for part in (LIMITS, REQUESTS):
        amounts = {k: v for k, v in (record.get(part) or {}).items() if k != step.resource}
        text = (promised.get(part) or {}).get(step.resource)
        if text is not None:
            amounts[step.resource] = text
        if amounts:
            changed[part] = dict(sorted(amounts.items()))
    return attrs.evolve(known, containers={**known.containers, step.container: changed})


def _own(container: Container) -> Tree:
    return _canonical(container.resources)


@by_identity
def _canonical(resources: ResourceRequirements) -> Tree:
    return {
        LIMITS: {name: each.canonical() for name, each in resources.limits.items()},
        REQUESTS: {name: each.canonical() for name, each in resources.requests.items()},
    }


def _record(container: Container, actuated: PodResources | None) -> Tree:
    return {} if actuated is None else actuated.containers.get(container.name) or {}


def _amount(resources: Tree | None, part: str, resource: str) -> int:
    text = ((resources or {}).get(part) or {}).get(resource)
    if text is None:
        return 0
    amount = quantity.parse(str(text))
    return amount.milli_value() if resource == CPU else amount.value()


def _changes(container: Container, actuated: PodResources | None) -> dict[str, tuple[int, int]]:
    """By resource: before and after, of the limit if that changed, else of the request."""
    found: dict[str, tuple[int, int]] = {}
    record, own = _record(container, actuated), _own(container)
    if all((record.get(part) or {}) == own[part] for part in (LIMITS, REQUESTS)):
        return found
    for resource in _ORDER:
        for part in (LIMITS, REQUESTS):
            before, after = _amount(record, part, resource), _amount(own, part, resource)
            if before != after:
                found[resource] = (before, after)
                break
    return found


def _pod_amounts(pod: Pod, resource: str) -> dict[str, int | None]:
    """The pod's cgroup values; no limit unless every container has one."""
    unit = quantity.Quantity.milli_value if resource == CPU else quantity.Quantity.value
    requests, limits = pod_requests(pod), pod_limits(pod)
    whole = pod.spec.resources
    limited = whole is not None and resource in whole.limits
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    if not limited:
        limited = all(
            resource in each.resources.limits and not each.resources.limits[resource].is_zero()
            for each in containers
        )
    return {
        REQUESTS: unit(requests[resource]) if resource in requests else None,
        LIMITS: unit(limits[resource]) if limited and resource in limits else None,
    }


def _written(part: str, resource: str) -> bool:
    """Memory requests have no counterpart in the cgroup."""
    return part == LIMITS or resource == CPU


def _grows(old: int | None, new: int | None, part: str, resource: str) -> bool:
    if not _written(part, resource) or new is None or old is None:
        return False
    return new > old


def _shrinks(old: int | None, new: int | None, part: str, resource: str) -> bool:
    """A limit that appears shrinks what was unlimited; one that goes leaves the current one in force."""
    if not _written(part, resource) or new is None:
        return False
    if old is None:
        return part == LIMITS
    return new < old
