"""Observations of the reconcilers for the metrics."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.kueue.workload.status_evict import Eviction

__all__ = ["SILENT", "Observer"]


class Observer:
    """Counts nothing; the metrics derive from it."""

    def evicted(self, workload: Tree, eviction: Eviction) -> None:
        """A Workload was evicted."""

    def admitted(self, workload: Tree, cluster_queue: str, waited: int, now: int) -> None:
        """The controller found a Workload admitted, `waited` nanoseconds after its reservation."""

    def unadmitted(self, workload: Tree) -> None:
        """A Workload without quota was reconciled."""

    def gone(self, key: str) -> None:
        """A Workload does not exist any more."""

    def cluster_queue_gone(self, name: str) -> None:
        """A ClusterQueue does not exist any more."""

    def local_queue_gone(self, namespace: str, name: str) -> None:
        """A LocalQueue was deleted or stopped."""

    def workload_created(self, job: Tree, kind: str, workload: Tree) -> None:
        """A job got its Workload."""

    def pods_ready(self, workload: Tree, now: int) -> None:
        """All pods of a Workload are ready for the first time since it was admitted."""

    def finished(self, workload: Tree) -> None:
        """A Workload finished."""

    def pending_after_eviction(self, cluster_queue: str, reason: str, latency: int) -> None:
        """An evicted Workload gave its quota back, `latency` nanoseconds after its eviction."""


@frozen
class _Silent(Observer):
    """Without metrics; processes share it."""


SILENT: Final = _Silent()
