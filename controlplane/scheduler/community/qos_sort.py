"""QOSSort: order by priority, then by quality of service, then by time in the queue.

Upstream: pkg/qos/queue_sort.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.pod_resources import compute_qos
from controlplane.scheduler.framework.interface import QueueSortPlugin

if TYPE_CHECKING:
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo

_ORDER: Final = {"BestEffort": 1, "Burstable": 2, "Guaranteed": 3}


class QOSSort(QueueSortPlugin):
    """Guaranteed before Burstable before BestEffort among pods of one priority."""

    name = "QOSSort"

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        pass

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Return whether `a` goes first."""
        mine, theirs = a.pod_info.pod, b.pod_info.pod
        first, second = mine.spec.priority or 0, theirs.spec.priority or 0
        if first != second:
            return first > second
        first, second = (_ORDER[compute_qos(each)] for each in (mine, theirs))
        return first > second or (first == second and a.timestamp < b.timestamp)
