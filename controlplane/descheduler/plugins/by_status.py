"""Plugins that judge a pod by its age and status: PodLifeTime, RemoveFailedPods, too many restarts.

Follows `pkg/framework/plugins/podlifetime`, `removefailedpods` and `removepodshavingtoomanyrestarts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.api.go_sort import sort_slice
from controlplane.api.pod import Pod
from controlplane.api.pod_status import ContainerStatus, PodCondition
from controlplane.descheduler.default_evictor import age_seconds
from controlplane.descheduler.evictions import Evicting, EvictionError, TotalLimitReached
from controlplane.descheduler.handle import Handle, Nodes


def pod_life_time(handle: Handle, args: dict[str, Any], nodes: Nodes) -> Evicting:
    """Evict pods that are too old or in a given state, the oldest first."""
    evictable, now = handle.evictable(args), handle.world.now
    chosen = [
        pod
        for node in nodes
        for pod in handle.world.pods_on(node.metadata.name)
        if evictable(pod) and _life_time_matches(pod, args, now)
    ]
    sort_slice(chosen, _older)
    for pod in chosen:
        try:
            yield from handle.evict(pod, "PodLifeTime")
        except TotalLimitReached:
            return
        except EvictionError:
            continue


def remove_failed_pods(handle: Handle, args: dict[str, Any], nodes: Nodes) -> Evicting:
    """Evict failed pods."""
    evictable, now = handle.evictable(args), handle.world.now
    for node in nodes:
        pods = [
            pod
            for pod in handle.world.pods_on(node.metadata.name)
            if evictable(pod) and pod.status.phase == "Failed"
        ]
        yield from handle.evict_each(
            (pod for pod in pods if _failed_matches(pod, args, now)), "RemoveFailedPods"
        )


def too_many_restarts(handle: Handle, args: dict[str, Any], nodes: Nodes) -> Evicting:
    """Evict pods whose containers were restarted too often."""
    evictable = handle.evictable(args)
    init = bool(args.get("includingInitContainers"))
    for node in nodes:
        pods = [
            pod
            for pod in handle.world.pods_on(node.metadata.name)
            if evictable(pod) and _restarts_match(pod, args)
        ]
        sort_slice(pods, lambda left, right: _restarts(left, init) > _restarts(right, init))
        yield from handle.evict_each(pods, "RemovePodsHavingTooManyRestarts")


def _older(left: Pod, right: Pod) -> bool:
    return (left.metadata.creation_timestamp or 0) < (right.metadata.creation_timestamp or 0)


def _statuses(pod: Pod, args: dict[str, Any]) -> Iterator[ContainerStatus]:
    yield from pod.status.container_statuses
    if args.get("includingInitContainers"):
        yield from pod.status.init_container_statuses
    if args.get("includingEphemeralContainers"):
        yield from pod.status.ephemeral_container_statuses


def _reasons(statuses: Iterator[ContainerStatus]) -> Iterator[str]:
    for each in statuses:
        if each.state.waiting is not None:
            yield each.state.waiting.reason
        if each.state.terminated is not None:
            yield each.state.terminated.reason


def _exit_codes(statuses: Iterator[ContainerStatus]) -> Iterator[int]:
    for each in statuses:
        if each.state.terminated is not None:
            yield each.state.terminated.exit_code


def _life_time_matches(pod: Pod, args: dict[str, Any], now: int) -> bool:
    limit = args.get("maxPodLifeTimeSeconds")
    if limit is not None:
        age = age_seconds(pod.metadata.creation_timestamp, now)
        if age < 0 or age <= limit:
            return False
    if not _owner_kinds_match(pod, args.get("ownerKinds") or {}):
        return False
    states = args.get("states")
    if states:
        found = [pod.status.phase, pod.status.reason, *_reasons(_statuses(pod, args))]
        if not any(each in states for each in found if each):
            return False
    conditions = args.get("conditions")
    if conditions and not any(
        _condition_matches(each, wanted, now)
        for wanted in conditions
        for each in pod.status.conditions
    ):
        return False
    codes = args.get("exitCodes")
    return not codes or any(code in codes for code in _exit_codes(_statuses(pod, args)))


def _owner_kinds_match(pod: Pod, kinds: dict[str, Any]) -> bool:
    owners = [owner.kind for owner in pod.metadata.owner_references]
    if include := kinds.get("include"):
        return any(kind in include for kind in owners)
    return not any(kind in (kinds.get("exclude") or ()) for kind in owners)


def _condition_matches(condition: PodCondition, wanted: dict[str, Any], now: int) -> bool:
    for field in ("type", "status", "reason"):
        if wanted.get(field) and getattr(condition, field) != wanted[field]:
            return False
    shortest = wanted.get("minTimeSinceLastTransitionSeconds")
    if shortest is None:
        return True
    since = condition.last_transition_time
    return since is not None and age_seconds(since, now) >= shortest


def _failed_matches(pod: Pod, args: dict[str, Any], now: int) -> bool:
    shortest = args.get("minPodLifetimeSeconds")
    if shortest is not None:
        age = age_seconds(pod.metadata.creation_timestamp, now)
        if 0 <= age < shortest:
            return False
    excluded = args.get("excludeOwnerKinds") or ()
    if any(owner.kind in excluded for owner in pod.metadata.owner_references):
        return False
    if reasons := args.get("reasons"):
        found = [pod.status.reason, *_reasons(_statuses(pod, args))]
        if not any(each in reasons for each in found):
            return False
    codes = args.get("exitCodes")
    return not codes or any(code in codes for code in _exit_codes(_statuses(pod, args)))


def _restarts(pod: Pod, init: bool) -> int:
    count = sum(each.restart_count for each in pod.status.container_statuses)
    if init:
        count += sum(each.restart_count for each in pod.status.init_container_statuses)
    return count


def _restarts_match(pod: Pod, args: dict[str, Any]) -> bool:
    if _restarts(pod, bool(args.get("includingInitContainers"))) < args["podRestartThreshold"]:
        return False
    states = args.get("states")
    if not states or pod.status.phase in states:
        return True
    return any(
        each.state.waiting is not None and each.state.waiting.reason in states
        for each in _statuses(pod, {**args, "includingEphemeralContainers": False})
    )
