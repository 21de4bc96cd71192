"""The evictor: limits of a pass, the requests to the API server, and the events about them.

Follows `pkg/descheduler/evictions/evictions.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from attrs import define, field, frozen

from controlplane.api.pod import Pod
from controlplane.api.tree import Tree
from controlplane.decisions import Decision
from controlplane.descheduler.world import key_of
from controlplane.metrics.family import Family, Series

TOTAL_LIMIT: Final = "maximum number of evicted pods per a descheduling cycle reached"
NODE_LIMIT: Final = "maximum number of evicted pods per node reached"
NAMESPACE_LIMIT: Final = "maximum number of evicted pods per namespace reached"
_LABELS: Final = ("result", "strategy", "profile", "namespace", "node")
_EVICTED: Final = "Evictions by their result."
PODS_EVICTED: Final = Series("descheduler_pods_evicted", "counter", _EVICTED, _LABELS)
PODS_EVICTED_TOTAL: Final = Series("descheduler_pods_evicted_total", "counter", _EVICTED, _LABELS)
REQUESTED_BY: Final = "sigs.k8s.io/descheduler"


@frozen
class Eviction:
    """An eviction that the API server is to carry out; answered by None or a Refusal."""

    pod: Pod
    by: str
    grace_period_seconds: int | None

    def tree(self) -> Tree:
        """The Eviction object of the request."""
        options = {}
        if self.grace_period_seconds is not None:
            options = {"gracePeriodSeconds": self.grace_period_seconds}
        return {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {
                "name": self.pod.metadata.name,
                "namespace": self.pod.metadata.namespace,
                "annotations": {
                    "requested-by": REQUESTED_BY,
                    "reason": f"triggered by {self.by}",
                },
            },
            "deleteOptions": options,
        }


@frozen
class Refusal:
    """The error of an eviction: status code and message of the API server."""

    code: int
    message: str


@frozen
class Note:
    """An event about a pod."""

    pod: Pod
    type: str
    reason: str
    note: str
    action: str = "Descheduled"


class EvictionError(Exception):
    """A pod was not evicted."""


class TotalLimitReached(EvictionError):
    """The pass has evicted as many pods as it may."""


class NodeLimitReached(EvictionError):
    """The pass has evicted as many pods of a node as it may."""


Evicting = Decision[Eviction, None]


@define
class Limits:
    """Limits of a pass; None is no limit."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


@define
class PodEvictor:
    """Evicts pods within the limits of a pass. `record` takes the events."""

    limits: Limits
    record: Callable[[Note], None]
    grace_period_seconds: int | None = None
    notify_failures: bool = False
    dry_run: bool = False
    total: int = 0
    _per_node: dict[str, int] = field(factory=dict)
    _per_namespace: dict[str, int] = field(factory=dict)
    outcomes: dict[tuple[str, ...], int] = field(factory=dict)
    """The number of evictions by the labels of `PODS_EVICTED`. `reset` keeps it."""

    def reset(self) -> None:
        """Begin a pass: forget what was evicted."""
        self.total = 0
        self._per_node = {}
        self._per_namespace = {}

    def evict(self, pod: Pod, profile: str, plugin: str) -> Evicting:
        """Evict a pod for a plugin of a profile. EvictionError if it was not evicted."""
        try:
            yield from self._evict(pod, profile, plugin)
        except EvictionError as error:
            limited = str(error) in (TOTAL_LIMIT, NODE_LIMIT, NAMESPACE_LIMIT)
            self._count(str(error) if limited else "error", pod, profile, plugin)
            raise
        self._count("success", pod, profile, plugin)

    def _count(self, result: str, pod: Pod, profile: str, plugin: str) -> None:
        key = (result, plugin, profile, pod.metadata.namespace, pod.spec.node_name)
        self.outcomes[key] = self.outcomes.get(key, 0) + 1

    def families(self) -> Iterable[Family]:
        """Return the metrics, under both names that upstream has."""
        return (each.family(self.outcomes) for each in (PODS_EVICTED, PODS_EVICTED_TOTAL))

    def _evict(self, pod: Pod, profile: str, plugin: str) -> Evicting:
        if not pod.metadata.uid:
            raise EvictionError(f"pod {key_of(pod)} is missing UID")
        self._check_limits(pod, plugin)
        refused = yield Eviction(pod, f"{profile}/{plugin}: ", self.grace_period_seconds)
        if refused is not None:
            self._fail(pod, plugin, refused)
        node, namespace = pod.spec.node_name, pod.metadata.namespace
        self.total += 1
        if node:
            self._per_node[node] = self._per_node.get(node, 0) + 1
        self._per_namespace[namespace] = self._per_namespace.get(namespace, 0) + 1
        if not self.dry_run:
            self.record(Note(pod, "Normal", plugin or "NotSet", _note(pod)))

    def _check_limits(self, pod: Pod, plugin: str) -> None:
        limits, node = self.limits, pod.spec.node_name
        if limits.total is not None and self.total + 1 > limits.total:
            self._warn(pod, plugin, f"total eviction limit exceeded ({limits.total})")
            raise TotalLimitReached(TOTAL_LIMIT)
        if node and limits.per_node is not None:
            if self._per_node.get(node, 0) + 1 > limits.per_node:
                self._warn(pod, plugin, f"node eviction limit exceeded ({limits.per_node})")
                raise NodeLimitReached(NODE_LIMIT)
        if limits.per_namespace is not None:
            taken = self._per_namespace.get(pod.metadata.namespace, 0)
            if taken + 1 > limits.per_namespace:
                text = f"namespace eviction limit exceeded ({limits.per_namespace})"
                self._warn(pod, plugin, text)
                raise EvictionError(NAMESPACE_LIMIT)

    def _fail(self, pod: Pod, plugin: str, refused: Refusal) -> None:
        text, name = refused.message, pod.metadata.name
        if refused.code == 429:
            text = f'error when evicting pod (ignoring) "{name}": {text}'
        elif refused.code == 404:
            text = f'pod not found when evicting "{name}": {text}'
        self._warn(pod, plugin, text)
        raise EvictionError(text)

    def _warn(self, pod: Pod, plugin: str, text: str) -> None:
        if self.notify_failures:
            self.record(Note(pod, "Warning", "EvictionFailed", f"{_note(pod)} failed: {text}"))


def _note(pod: Pod) -> str:
    return f"pod eviction from {pod.spec.node_name} node by {REQUESTED_BY}"
