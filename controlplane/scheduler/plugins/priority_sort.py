"""PrioritySort: higher priority first, then the longer wait in the queue.

Upstream: `pkg/scheduler/framework/plugins/queuesort/priority_sort.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.framework import names
from controlplane.scheduler.framework.interface import QueueSortPlugin

if TYPE_CHECKING:
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo


class PrioritySort(QueueSortPlugin):
    """Orders by priority, then by time of entry into the queue."""

    name = names.PRIORITY_SORT

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Return whether `a` goes first."""
        mine, theirs = a.pod_info.pod.spec.priority or 0, b.pod_info.pod.spec.priority or 0
        return mine > theirs or (mine == theirs and a.timestamp < b.timestamp)
