"""The drain of a node: evictions that are tried again, and the wait until the pods are gone.

With priorities (`drain-priority-config`) pods go in groups, the lowest priorities first, and pods of DaemonSets are
waited for as well. Each eviction is a task (`autoscaler.evict`).
Points: `autoscaler.evict` (the time before the next try), `autoscaler.drain` (that before the next look at the pods).

Upstream: `core/scaledown/actuation/{drain,priority}.go`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from controlplane.api.pod import Pod
from controlplane.api.view import View
from controlplane.autoscaler.options import SECOND
from controlplane.autoscaler.pods import is_daemon_set_pod, is_mirror_pod
from controlplane.autoscaler.process.settings import Settings
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import PODS
from controlplane.controllers.common.controller import NORMAL, WARNING
from controlplane.controllers.common.effects import Reconcile, RequestFailed, together
from controlplane.decisions import Sleep

_RETRY: Final = 10 * SECOND
_HEADROOM: Final = 30 * SECOND
_LOOK: Final = 5 * SECOND
_GRACE: Final = 30
_HIGHEST: Final = (1 << 31) - 1
_DAEMON_SET_EVICTION: Final = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"

Report = Callable[[View, str, str, str], None]


class DrainFailed(Exception):
    """A node could not be drained; the text is upstream's."""


class Drainer:
    """Evicts the pods of nodes."""

    def __init__(self, settings: Settings, clock: Callable[[], int], report: Report) -> None:
        self._settings = settings
        self._clock = clock
        self._report = report
        self.counts = {"succeeded": 0, "failed": 0}
        """Evictions of drains by their outcome."""

    def drain(self, node: str, pods: Sequence[Pod]) -> Reconcile[None]:
        """Evict all pods of a node and wait until they are gone. Raises DrainFailed."""
        daemons, others = _to_evict(pods, self._settings.evicts_daemon_sets_of_occupied)
        if self._settings.drain_priorities:
            daemons, others = [], [*others, *daemons]
        yield from self._drained(node, others, daemons)

    def evict_daemon_sets(self, node: str, pods: Sequence[Pod]) -> Reconcile[None]:
        """Evict the pods of DaemonSets of an empty node, as far as that is wanted and works."""
        daemons, _ = _to_evict(pods, self._settings.evicts_daemon_sets_of_empty)
        yield from self._drained(node, (), daemons)

    def _drained(self, node: str, pods: Sequence[Pod], daemons: Sequence[Pod]) -> Reconcile[None]:
        """Evict group after group; pods of one that are not gone keep the next ones where they are."""
        most = self._settings.max_graceful_termination // SECOND
        limits = self._settings.drain_priorities or ((_HIGHEST, most),)
        for at, (_, seconds) in enumerate(limits):
            group, besides = (
                [pod for pod in each if _group_of(pod, limits) == at] for each in (pods, daemons)
            )
            yield from self._evicted(node, group, besides, seconds)

    def _evicted(
        self, node: str, pods: Sequence[Pod], daemons: Sequence[Pod], seconds: int
    ) -> Reconcile[None]:
        if not pods and not daemons:
            return
        until = self._clock() + self._settings.max_pod_eviction_time
        parts = [self._evict(pod, until, seconds, report=True) for pod in pods]
        parts += [self._evict(pod, until, seconds, report=False) for pod in daemons]
        errors = yield from together("autoscaler.evict", parts)
        told = [error for error in errors[: len(pods)] if error]
        self.counts["failed"] += len(told)
        self.counts["succeeded"] += len(pods) - len(told)
        if told:
            text = f"Failed to drain node /{node}, due to following errors: [{' '.join(told)}]"
            raise DrainFailed(text)
        yield from self._wait(node, pods, seconds)

    def _evict(self, pod: Pod, until: int, most: int, *, report: bool) -> Reconcile[str]:
        """Evict a pod, again and again until a time; return an error or an empty text.

        It gets `most` seconds to end, if that is not 0.
        """
        self._report(pod, NORMAL, "ScaleDown", "deleting pod for node scale down")
        grace = pod.spec.termination_grace_period_seconds
        seconds = min(_GRACE if grace is None else grace, most) if most else grace
        meta = pod.metadata
        tree = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {"gracePeriodSeconds": _GRACE if seconds is None else seconds},
        }
        while True:
            try:
                yield from calls.create(PODS, meta.namespace, tree, meta.name, "eviction")
            except RequestFailed as error:
                if isinstance(error, ApiError) and is_not_found(error):
                    return ""
                last = str(error)
            else:
                return ""
            yield Sleep(_RETRY, "autoscaler.evict")
            if self._clock() >= until:
                break
        if report:
            self._report(pod, WARNING, "ScaleDownFailed", "failed to delete pod for ScaleDown")
        return f"failed to evict pod {pod.key} within allowed timeout (last error: {last})"

    def _wait(self, node: str, pods: Sequence[Pod], seconds: int) -> Reconcile[None]:
        until = self._clock() + seconds * SECOND + _HEADROOM
        while self._clock() < until:
            if (yield from self._gone(node, pods)):
                return
            yield Sleep(_LOOK, "autoscaler.drain")
        raise DrainFailed(f"Failed to drain node /{node}: pods remaining after timeout")

    def _gone(self, node: str, pods: Iterable[Pod]) -> Reconcile[bool]:
        """Return whether no pod of these names is on the node any more; the first that is ends the look."""
        for pod in pods:
            meta = pod.metadata
            try:
                found = yield from calls.get(PODS, meta.namespace, meta.name)
            except RequestFailed as error:
                if isinstance(error, ApiError) and is_not_found(error):
                    continue
                return False
            if found.view.spec.node_name == node:
                return False
        return True


def _group_of(pod: Pod, limits: Sequence[tuple[int, int]]) -> int:
    """Return the index of the group of a pod: the highest priority that is not above its own, else the lowest."""
    return max(0, bisect_right(limits, pod.spec.priority or 0, key=lambda each: each[0]) - 1)


def _to_evict(pods: Iterable[Pod], evicts_daemon_sets: bool) -> tuple[list[Pod], list[Pod]]:
    """Return the pods of DaemonSets that are evicted, and all others."""
    daemons, others = list[Pod](), list[Pod]()
    for pod in pods:
        if is_mirror_pod(pod):
            continue
        if not is_daemon_set_pod(pod):
            others.append(pod)
            continue
        own = pod.metadata.annotations.get(_DAEMON_SET_EVICTION)
        if evicts_daemon_sets if own is None else own == "true":
            daemons.append(pod)
    return daemons, others


def pods_to_evict(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods of a node that have to find another place."""
    return _to_evict(pods, False)[1]
