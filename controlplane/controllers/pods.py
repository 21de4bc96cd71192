"""What controllers ask about pods. Upstream: pkg/api/v1/pod/util.go, pkg/controller/controller_utils.go."""

from __future__ import annotations

from math import frexp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.api.pod import Pod
    from controlplane.api.pod_status import PodCondition

SECOND = 1_000_000_000
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


def condition(pod: Pod, kind: str) -> PodCondition | None:
    """The pod's condition of that type."""
    for found in pod.status.conditions:
        if found.type == kind:
            return found
    return None


def is_active(pod: Pod) -> bool:
    """Neither finished nor being deleted."""
    return (
        pod.status.phase not in {"Succeeded", "Failed"} and pod.metadata.deletion_timestamp is None
    )


def is_ready(pod: Pod) -> bool:
    """Its Ready condition is True."""
    ready = condition(pod, "Ready")
    return ready is not None and ready.status == "True"


def is_available(pod: Pod, min_ready_seconds: int, now: int) -> bool:
    """Ready, and for `min_ready_seconds` at least; `now` in nanoseconds since the epoch."""
    if not is_ready(pod):
        return False
    return min_ready_seconds == 0 or available_at(pod, min_ready_seconds) <= now


def available_at(pod: Pod, min_ready_seconds: int) -> int:
    """When a ready pod counts as available, in nanoseconds since the epoch."""
    ready = condition(pod, "Ready")
    since = ready.last_transition_time if ready is not None else None
    return (since or 0) + min_ready_seconds * SECOND


def _log_rank(age_ns: int) -> int:
    return -1 if age_ns <= 0 else frexp(age_ns)[1] - 1


def _deletion_cost(pod: Pod) -> int:
    text = pod.annotations.get(DELETION_COST, "0")
    try:
        cost = int(text)
    except ValueError:
        return 0
    return cost if -(2**31) <= cost < 2**31 else 0


def _restarts(pod: Pod) -> int:
    return max((status.restart_count for status in pod.status.container_statuses), default=0)


def _init_restarts(pod: Pod) -> int:
    return max((status.restart_count for status in pod.status.init_container_statuses), default=0)


def deletion_rank(pod: Pod, related_on_node: Mapping[str, int], now: int) -> tuple[object, ...]:
    """Sort key of pods to delete: smallest first.

    `related_on_node` counts, per node, active pods of all replica sets with the same owner. Ages
    are compared by their binary logarithm, so that pods of about the same age are chosen by uid.
    Upstream: ActivePodsWithRanks.
    """
    ready = is_ready(pod)
    ready_condition = condition(pod, "Ready")
    ready_since = (ready_condition.last_transition_time or 0) if ready and ready_condition else 0
    created = pod.metadata.creation_timestamp or 0
    return (
        0 if not pod.spec.node_name else 1,
        _PHASE_RANK.get(pod.status.phase, 2),
        1 if ready else 0,
        _deletion_cost(pod),
        -related_on_node.get(pod.spec.node_name, 0),
        _log_rank(now - ready_since) if ready_since else 0,
        -_restarts(pod),
        -_init_restarts(pod),
        _log_rank(now - created),
        pod.uid,
    )
