"""LowNodeUtilization and HighNodeUtilization, by the requests of pods or by what is measured.

Follows `pkg/framework/plugins/nodeutilization`. Amounts are milli-CPU, and whole units of all else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from attrs import define

from controlplane.api.go_sort import sort_slice
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.taints import tolerated
from controlplane.descheduler.evictions import (
    Evicting,
    EvictionError,
    NodeLimitReached,
    TotalLimitReached,
)
from controlplane.descheduler.handle import Handle, Nodes
from controlplane.descheduler.metrics import (
    KUBERNETES,
    METRIC,
    PROMETHEUS,
    Amounts,
    Measured,
    MetricsError,
    Requested,
    Sampled,
    UnknownUsage,
    amount_of,
)
from controlplane.descheduler.node import sort_low_priority_first

Percents = Mapping[str, float]
ALWAYS_TRACKED = ("cpu", "memory", "pods")


class Usage(Protocol):
    """Where the usage of nodes and pods comes from."""

    def of_nodes(self, nodes: Iterable[Node]) -> dict[str, Amounts]:
        """The usage of each node. Raises MetricsError."""

    def of_pod(self, pod: Pod) -> Amounts | None:
        """The usage that an eviction of the pod frees; None if the source never knows it. Raises UnknownUsage."""


@define
class _Used:
    node: Node
    pods: list[Pod]
    usage: Amounts
    share: Amounts


def low_node_utilization(handle: Handle, args: dict[str, Any], nodes: Nodes) -> Evicting:
    """Evict pods from over-utilised nodes while under-utilised nodes have room."""
    usage = _usage_of(handle, args)
    usages = usage.of_nodes(nodes)
    bounds = _bounds(args, nodes, usages)
    low, high = [], []
    for node in nodes:
        percents = _percents(node, usages[node.metadata.name])
        under, over = bounds
        used = _used(handle, node, usages[node.metadata.name], over)
        if not node.spec.unschedulable and _is_below(percents, under):
            low.append(used)
        elif any(percents[name] > over[name] for name in over):
            high.append(used)
    if not low or len(low) <= (args.get("numberOfNodes") or 0) or len(low) == len(nodes):
        return
    sort_slice(high, lambda left, right: _sum(left) > _sum(right))
    most = (args.get("evictionLimits") or {}).get("node")
    rule = _Rule(usage, _above_share, most)
    yield from _drain(handle, "LowNodeUtilization", args, high, low, rule)


def check_low_node_utilization(args: dict[str, Any]) -> None:
    """Raise ValueError for arguments that the plugin cannot be built with."""
    if (args.get("metricsUtilization") or {}).get("source") != PROMETHEUS:
        return
    for field in ("thresholds", "targetThresholds"):
        names = sorted(args.get(field) or ())
        if names != [METRIC]:
            wanted = f'a single instance of "{METRIC}" resource'
            raise ValueError(
                f"{field} are expected to specify {wanted}, got [{' '.join(names)}] instead"
            )


def _usage_of(handle: Handle, args: dict[str, Any]) -> Usage:
    metrics = args.get("metricsUtilization")
    names = _names(args["thresholds"])
    if metrics is None:
        return Requested(handle.world, names)
    source = metrics.get("source")
    if metrics.get("metricsServer") or source == KUBERNETES:
        return Measured(handle.world, names)
    if source == PROMETHEUS:
        return Sampled(handle.world)
    why = "unrecognized metrics source" if source else "metrics source is empty"
    raise MetricsError(f"error initializing usage client: {why}")


def high_node_utilization(handle: Handle, args: dict[str, Any], nodes: Nodes) -> Evicting:
    """Evict the pods of under-utilised nodes, so that other nodes are filled."""
    thresholds = args["thresholds"]
    requested = Requested(handle.world, _names(thresholds))
    usages = requested.of_nodes(nodes)
    full = dict.fromkeys(thresholds, 100.0)
    sources, others = [], []
    for node in nodes:
        usage = usages[node.metadata.name]
        used = _used(handle, node, usage, full)
        if _is_below(_percents(node, usage), thresholds):
            sources.append(used)
        elif not node.spec.unschedulable:
            others.append(used)
    few = len(sources) <= (args.get("numberOfNodes") or 0)
    if not sources or few or len(sources) == len(nodes) or not others:
        return
    sort_slice(sources, lambda left, right: _sum(left) < _sum(right))
    only_listed = "OnlyThresholdingResources" in (args.get("evictionModes") or ())
    rule = _Rule(requested, lambda _: True, None, thresholds if only_listed else None)
    yield from _drain(handle, "HighNodeUtilization", args, sources, others, rule)


@define
class _Rule:
    usage: Usage
    goes_on: Callable[[_Used], bool]
    most: int | None
    must_request: Iterable[str] | None = None


def _above_share(used: _Used) -> bool:
    return any(amount > used.share.get(name, 0) for name, amount in used.usage.items())


def _drain(
    handle: Handle,
    plugin: str,
    args: dict[str, Any],
    sources: list[_Used],
    targets: list[_Used],
    rule: _Rule,
) -> Evicting:
    room: Amounts = {}
    for target in targets:
        for name, amount in target.usage.items():
            room[name] = room.get(name, 0) + target.share.get(name, 0) - amount
    excluded = (args.get("evictableNamespaces") or {}).get("exclude") or ()
    for source in sources:
        pods = [pod for pod in source.pods if handle.filter(pod) and _requests(pod, rule)]
        sort_low_priority_first(pods)
        eligible = (
            pod
            for pod in pods
            if _tolerates_some(pod, targets)
            and pod.metadata.namespace not in excluded
            and handle.pre_eviction_filter(pod)
        )
        try:
            yield from _drain_one(handle, plugin, source, eligible, room, rule)
        except NodeLimitReached:
            continue
        except TotalLimitReached:
            return


def _drain_one(
    handle: Handle,
    plugin: str,
    source: _Used,
    pods: Iterable[Pod],
    room: Amounts,
    rule: _Rule,
) -> Evicting:
    def goes_on() -> bool:
        return rule.goes_on(source) and all(amount > 0 for amount in room.values())

    if not goes_on() or rule.most == 0:
        return
    count = 0
    for pod in pods:
        try:
            leaving = rule.usage.of_pod(pod)
            yield from handle.evict(pod, plugin)
        except (NodeLimitReached, TotalLimitReached):
            raise
        except (EvictionError, UnknownUsage):
            continue
        count += 1
        if leaving is None:  # how far the usage has come down is not known
            if count >= (1 if rule.most is None else rule.most):
                return
            continue
        for name in room:
            amount = 1 if name == "pods" else leaving[name]
            source.usage[name] -= amount
            room[name] -= amount
        if not goes_on() or (rule.most is not None and count >= rule.most):
            return


def _requests(pod: Pod, rule: _Rule) -> bool:
    if rule.must_request is None:
        return True
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any(
        name in each.resources.requests
        for each in containers
        if each.resources is not None
        for name in rule.must_request
    )


def _tolerates_some(pod: Pod, targets: list[_Used]) -> bool:
    given = pod.spec.tolerations
    return any(
        len(given) >= len(target.node.spec.taints)
        and all(tolerated(given, taint) for taint in target.node.spec.taints)
        for target in targets
    )


def _names(thresholds: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*thresholds, *ALWAYS_TRACKED]))


def _capacity(node: Node) -> Amounts:
    given = node.status.allocatable or node.status.capacity
    return {METRIC: 100, **{name: amount_of(name, quantity) for name, quantity in given.items()}}


def _percents(node: Node, usage: Amounts) -> dict[str, float]:
    capacity = _capacity(node)
    return {
        name: amount / capacity[name] * 100.0 if capacity.get(name, 0) > 0 else 0.0
        for name, amount in usage.items()
    }


def _is_below(percents: Percents, bounds: Percents) -> bool:
    return all(percents[name] <= bound for name, bound in bounds.items())


def _bounds(
    args: dict[str, Any], nodes: Nodes, usages: dict[str, Amounts]
) -> tuple[Percents, Percents]:
    low, high = args["thresholds"], args["targetThresholds"]
    if not args.get("useDeviationThresholds"):
        return low, high
    percents = [_percents(node, usages[node.metadata.name]) for node in nodes]
    average = {name: sum(each[name] for each in percents) / len(percents) for name in low}
    return (
        {name: min(100.0, max(0.0, average[name] - low[name])) for name in low},
        {name: min(100.0, max(0.0, average[name] + high[name])) for name in high},
    )


def _used(handle: Handle, node: Node, usage: Amounts, bounds: Percents) -> _Used:
    share = {}
    for name, amount in _capacity(node).items():
        share[name] = int(bounds[name] * 0.01 * amount) if name in bounds else amount
    pods = handle.world.running_on(node.metadata.name)
    return _Used(node, pods, dict(usage), share)


def _sum(used: _Used) -> int:
    return sum(used.usage.values())
