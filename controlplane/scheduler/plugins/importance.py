"""Importance of pods: the one of two that is kept when capacity is needed.

Upstream: `pkg/scheduler/util/utils.go` (MoreImportantPod, GetPodStartTime).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.api.pod import Pod


def pod_start_time(pod: Pod, now: int) -> int:
    """Return the time at which the pod started, in nanoseconds; a pod that has not started counts as starting now."""
    started = pod.status.start_time
    return now if started is None else started


def more_important(a: Pod, b: Pod, now: int) -> bool:
    """Return whether `a` is more important: higher priority, else started earlier."""
    mine, theirs = a.spec.priority or 0, b.spec.priority or 0
    if mine != theirs:
        return mine > theirs
    return pod_start_time(a, now) < pod_start_time(b, now)
