"""Observations of the scheduler for the metrics."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.kueue.workload.status_evict import Eviction


class SchedulerObserver:
    """Counts nothing; the metrics derive from it. Durations are in nanoseconds."""

    def cycle_done(self, *, success: bool, duration: int) -> None:
        """A cycle ended; a success admitted or evicted something."""

    def preemptions_skipped(self, cluster_queue: str, count: int) -> None:
        """Preemptions were put off in the cycle because of another workload."""

    def targets_recomputed(self, cluster_queue: str, result: str) -> None:
        """Overlapping preemptions were computed anew: DeferredFit, NewTargets or Skipped."""

    def quota_reserved(self, workload: Tree, cluster_queue: str, waited: int) -> None:
        """A workload got quota."""

    def admitted(self, workload: Tree, cluster_queue: str, waited: int) -> None:
        """A workload was admitted at once with its quota."""

    def evicted(self, workload: Tree, eviction: Eviction) -> None:
        """A workload was evicted."""

    def preempted(self, preempting: str, reason: str, target: str) -> None:
        """A workload of queue `target` was preempted for one of queue `preempting`."""


@frozen
class _Silent(SchedulerObserver):
    """Without metrics; processes share it."""


SILENT: Final = _Silent()
