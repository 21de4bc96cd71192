"""Sources of an autoscaler's metrics. Values are in thousandths, times in nanoseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from controlplane.api import usage
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.controllers.common.effects import Reconcile, Retry
from controlplane.decisions import Point

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.api.autoscaling import CrossVersionObjectReference, MetricIdentifier
    from controlplane.api.labels import Selector
    from controlplane.api.pod import Pod
    from controlplane.client.indexer import Indexer
    from controlplane.controllers.common.controller import Host
    from controlplane.controllers.common.pod_usage import PodUsage

WINDOW_NS = usage.WINDOW_S * SECOND
NO_RESOURCE = "no metrics returned from resource metrics API"
NO_CUSTOM = "no metrics returned from custom metrics API"
NO_OBJECT = "unable to fetch metrics from custom metrics API: not found"
NO_EXTERNAL = "no metrics returned from external metrics API"


class PodMetric(NamedTuple):
    """The measured usage of a pod, its window, and its time."""

    value: int
    window: int = 0
    timestamp: int = 0


class Metrics(Protocol):
    """The metrics APIs. What is not there raises Retry with the text of the API."""

    def resource(
        self, name: str, namespace: str, selector: Selector, container: str
    ) -> Reconcile[dict[str, PodMetric]]:
        """The use of a resource by pods, by their names; of one container if it is named."""

    def pods(
        self, metric: MetricIdentifier, namespace: str, selector: Selector
    ) -> Reconcile[dict[str, PodMetric]]:
        """A custom metric of pods, by their names."""

    def of_object(
        self, metric: MetricIdentifier, namespace: str, about: CrossVersionObjectReference
    ) -> Reconcile[int]:
        """A custom metric of one object."""

    def external(self, metric: MetricIdentifier, namespace: str) -> Reconcile[list[int]]:
        """A metric from outside, one value per series."""


class EmulatedMetrics:
    """Metrics by annotations of running pods: those that `metrics.k8s.io` serves (`controlplane.api.usage`).

    `emulate.controlplane/metric-NAME` is a custom metric of the pod. Objects and the outside have no
    metrics here. Point: `metrics.read`.
    """

    def __init__(self, host: Host, pods: Indexer[Pod], used: PodUsage) -> None:
        self._host = host
        self._pods = pods
        self._used = used

    def _read(
        self, namespace: str, selector: Selector, value: Callable[[Tree], int | None]
    ) -> dict[str, PodMetric]:
        found: dict[str, PodMetric] = {}
        for obj in self._pods.by_index("namespace", namespace):
            pod = obj.view
            if pod.status.phase != "Running" or not selector.matches(pod.labels):
                continue
            amount = value(obj.tree)
            if amount is not None:
                found[pod.name] = PodMetric(amount, WINDOW_NS, self._host.now)
        return found

    def resource(
        self, name: str, namespace: str, selector: Selector, container: str
    ) -> Reconcile[dict[str, PodMetric]]:
        """The use that running pods are annotated with."""
        yield Point("metrics.read")
        read = self._used.reading()
        found = self._read(namespace, selector, lambda pod: _use(pod, name, container, read))
        if not found:
            raise Retry(NO_RESOURCE)
        return found

    def pods(
        self, metric: MetricIdentifier, namespace: str, selector: Selector
    ) -> Reconcile[dict[str, PodMetric]]:
        """The metric that running pods are annotated with."""
        yield Point("metrics.read")
        found = self._read(
            namespace, selector, lambda pod: usage.annotated(pod, f"metric-{metric.name}")
        )
        if not found:
            raise Retry(NO_CUSTOM)
        return found

    def of_object(
        self, metric: MetricIdentifier, namespace: str, about: CrossVersionObjectReference
    ) -> Reconcile[int]:
        """Nothing: objects have no metrics here."""
        yield Point("metrics.read")
        raise Retry(NO_OBJECT)

    def external(self, metric: MetricIdentifier, namespace: str) -> Reconcile[list[int]]:
        """Nothing: there is no outside."""
        yield Point("metrics.read")
        raise Retry(NO_EXTERNAL)


def _use(pod: Tree, name: str, container: str, read: usage.Reading) -> int | None:
    """Return the usage of the running containers of a pod, or of one of them; None where nothing is known."""
    known = [
        amount
        for each in usage.running_containers(pod)
        if container in ("", each)
        for amount in [read(pod, each, name)]
        if amount is not None
    ]
    return sum(known) if known else None
