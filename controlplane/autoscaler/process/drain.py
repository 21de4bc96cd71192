"""The drain of a node: evictions that are tried again, and the wait until the pods are gone.

Upstream: `core/scaledown/actuation/drain.go`, without its priorities. Each eviction is a task (`autoscaler.evict`).
Points: `autoscaler.evict` (the time before the next try), `autoscaler.drain` (that before the next look at the pods).
"""

from __future__ import annotations

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
        yield from self._evicted(node, others, daemons)

    def evict_daemon_sets(self, node: str, pods: Sequence[Pod]) -> Reconcile[None]:
        """Evict the pods of DaemonSets of an empty node, as far as that is wanted and works."""
        daemons, _ = _to_evict(pods, self._settings.evicts_daemon_sets_of_empty)
        yield from self._evicted(node, (), daemons)

    def _evicted(self, node: str, pods: Sequence[Pod], daemons: Sequence[Pod]) -> Reconcile[None]:
        if not pods and not daemons:
            return
        until = self._clock() + self._settings.max_pod_eviction_time
        parts = [self._evict(pod, until, report=True) for pod in pods]
        parts += [self._evict(pod, until, report=False) for pod in daemons]
        errors = yield from together("autoscaler.evict", parts)
        told = [error for error in errors[: len(pods)] if error]
        self.counts["failed"] += len(told)
        self.counts["succeeded"] += len(pods) - len(told)
        if told:
            text = f"Failed to drain node /{node}, due to following errors: [{' '.join(told)}]"
            raise DrainFailed(text)
        yield from self._wait(node, pods)

    def _evict(self, pod: Pod, until: int, *, report: bool) -> Reconcile[str]:
        """Evict a pod, again and again until a time; return an error or an empty text."""
        self._report(pod, NORMAL, "ScaleDown", "deleting pod for node scale down")
        grace = pod.spec.termination_grace_period_seconds
        most = self._settings.max_graceful_termination // SECOND
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

    def _wait(self, node: str, pods: Sequence[Pod]) -> Reconcile[None]:
        until = self._clock() + self._settings.max_graceful_termination + _HEADROOM
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
