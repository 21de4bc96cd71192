"""Sources of the usage of nodes and pods.

Follows `pkg/descheduler/metricscollector/metricscollector.go` and
`pkg/framework/plugins/nodeutilization/usageclients.go`.
Amounts are milli-CPU, and whole units of all else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.go_numbers import shown_float
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import pod_requests
from controlplane.api.quantity import Quantity
from controlplane.api.validation import quote
from controlplane.descheduler.node import requested_by
from controlplane.descheduler.plugins.own import PluginError

if TYPE_CHECKING:
    from controlplane.descheduler.world import World

__all__ = [
    "COLLECTION_NS",
    "KUBERNETES",
    "METRIC",
    "PROMETHEUS",
    "Amounts",
    "Collector",
    "Measured",
    "MetricsError",
    "Requested",
    "Sampled",
    "UnknownUsage",
    "amount_of",
    "collects_usage",
]

Amounts = dict[str, int]
KUBERNETES: Final = "KubernetesMetrics"
PROMETHEUS: Final = "Prometheus"
METRIC: Final = "MetricResource"
"""The one resource of a Prometheus query, in hundredths."""
COLLECTION_NS: Final = 5_000_000_000
"""How often the use of nodes is collected."""
COLLECTED: Final = ("cpu", "memory")
_BETA: Final = 0.9


class MetricsError(PluginError):
    """The use of the nodes is not known; the plugin ends with this error."""


class UnknownUsage(Exception):
    """The use of a pod is not known; it is not evicted."""


def collects_usage(policy: Mapping[str, Any]) -> bool:
    """Return whether a policy asks for the collection of what nodes use."""
    if (policy.get("metricsCollector") or {}).get("enabled"):
        return True
    return any(each.get("source") == KUBERNETES for each in policy.get("metricsProviders") or ())


def amount_of(name: str, quantity: Quantity | None) -> int:
    """Return an amount of a resource."""
    if quantity is None:
        return 0
    return quantity.milli_value() if name == "cpu" else quantity.value()


class Collector:
    """The moving averages of what nodes use: nine tenths of the last value, one of the new one."""

    def __init__(self) -> None:
        self.nodes: dict[str, Amounts] = {}

    def collect(self, used: Mapping[str, Amounts]) -> None:
        """Take in one round; a node that is missing keeps its last value."""
        for node, amounts in used.items():
            last = self.nodes.get(node)
            if last is not None:
                amounts = {name: _average(last[name], amounts[name]) for name in COLLECTED}
            self.nodes[node] = {name: amounts[name] for name in COLLECTED}


def _average(last: int, value: int) -> int:
    found = _BETA * last + (1 - _BETA) * value
    return math.floor(found + 0.5)  # amounts are not negative


class Requested:
    """Usage by the requests of pods."""

    def __init__(self, world: World, names: list[str]) -> None:
        self._world = world
        self._names = names

    def of_nodes(self, nodes: Iterable[Node]) -> dict[str, Amounts]:
        """The usage of each node."""
        found = {}
        for node in nodes:
            pods = self._world.running_on(node.metadata.name)
            total = requested_by(pods)
            found[node.metadata.name] = {
                name: len(pods) if name == "pods" else amount_of(name, total.get(name))
                for name in self._names
            }
        return found

    def of_pod(self, pod: Pod) -> Amounts | None:
        """The usage that an eviction of the pod frees: its requests."""
        requests = pod_requests(pod)
        return {name: amount_of(name, requests.get(name)) for name in self._names}


class Measured:
    """Usage by `metrics.k8s.io`: averages of the nodes, and the figures of a pod as they are now."""

    def __init__(self, world: World, names: list[str]) -> None:
        self._world = world
        self._names = names

    def of_nodes(self, nodes: Iterable[Node]) -> dict[str, Amounts]:
        """The usage of each node. Raises MetricsError."""
        collected = self._world.collected
        if collected is None:
            raise MetricsError("error initializing usage client: metrics client not initialized")
        found = {}
        for node in nodes:
            of_node = node.metadata.name
            if of_node not in collected:
                raise _unknown(f"unable to find node {quote(of_node)} in the collected metrics")
            used = {**collected[of_node], "pods": len(self._world.running_on(of_node))}
            for name in self._names:
                if name not in used:
                    raise _unknown(
                        f"unable to find {quote(name)} resource for collected {quote(of_node)} node metric"
                    )
            found[of_node] = {name: used[name] for name in self._names}
        return found

    def of_pod(self, pod: Pod) -> Amounts | None:
        """The usage that an eviction of the pod frees: its metrics. Raises UnknownUsage."""
        containers = self._world.pod_usage(pod)
        if containers is None:
            raise UnknownUsage("there are no metrics of the pod")
        total: Amounts = {}
        for container, used in containers.items():
            for name in self._names:
                if name == "pods":
                    continue
                if name not in used:
                    raise UnknownUsage(
                        f"container {quote(container)} is missing {quote(name)} resource"
                    )
                total[name] = total.get(name, 0) + used[name]
        return total


class Sampled:
    """Usage by a Prometheus query, one sample for each node in [0, 1]. What a pod uses is not known."""

    def __init__(self, world: World) -> None:
        self._world = world

    def of_nodes(self, nodes: Iterable[Node]) -> dict[str, Amounts]:
        """The usage of each node. Raises MetricsError."""
        answer = self._world.prometheus()
        if answer is None:
            raise MetricsError("error initializing usage client: prometheus client not initialized")
        samples = _samples(answer)
        for node in nodes:
            if node.metadata.name not in samples:
                raise _unknown(f"unable to find metric entry for {node.metadata.name}")
        return samples

    def of_pod(self, _pod: Pod) -> Amounts | None:
        """None: evictions are bounded by their number alone."""
        return None


def _samples(answer: Mapping[str, Any]) -> dict[str, Amounts]:
    """Read the answer of an instant query, the JSON of Prometheus' HTTP API."""
    if answer.get("status") != "success":
        text = f"{answer.get('errorType', '')}: {answer.get('error', '')}"
        raise _unknown(f"unable to capture prometheus metrics: {text}")
    data = answer.get("data") or {}
    kind = data.get("resultType", "")
    if kind != "vector":
        raise _unknown(f'expected query results to be of type "vector", got {quote(kind)} instead')
    found = {}
    for sample in data.get("result") or ():
        node = (sample.get("metric") or {}).get("instance")
        if node is None:
            raise _unknown("the collected metrics sample is missing 'instance' key")
        value = float(sample["value"][1])
        if value < 0 or value > 1:
            shown = f"{quote(node)} has value {shown_float(value)}"
            raise _unknown(f"the collected metrics sample for {shown} outside of <0; 1> interval")
        found[node] = {METRIC: int(value * 100)}
    return found


def _unknown(text: str) -> MetricsError:
    return MetricsError(f"error getting node usage: {text}")
