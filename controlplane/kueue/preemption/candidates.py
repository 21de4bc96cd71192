"""Candidates for preemption: who may be preempted by whom, and in which order.

Follows `pkg/scheduler/preemption/common`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from controlplane.api.go_sort import sort
from controlplane.kueue.amounts import FlavorResource
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.gates import Gates
from controlplane.kueue.workload.info import Info
from controlplane.kueue.workload.status import (
    QUOTA_RESERVED,
    find,
    is_evicted,
    queue_order_time,
    time_of,
)

LOWER_PRIORITY: Final = "LowerPriority"
LOWER_OR_NEWER: Final = "LowerOrNewerEqualPriority"
ANY: Final = "Any"

IN_CLUSTER_QUEUE: Final = "InClusterQueue"
IN_COHORT_RECLAMATION: Final = "InCohortReclamation"
IN_COHORT_FAIR_SHARING: Final = "InCohortFairSharing"
IN_COHORT_RECLAIM_WHILE_BORROWING: Final = "InCohortReclaimWhileBorrowing"


@dataclass(frozen=True)
class Target:
    """A workload to preempt, why, and its queue in the snapshot."""

    info: Info
    reason: str
    queue: ClusterQueueSnapshot


@dataclass(frozen=True)
class Rules:
    """The settings that decide about preemption.

    Args:
        gates: Kueue's feature gates.
        strategies: Strategies of fair sharing, None without fair sharing.
        by_eviction: True if workloads evicted for lack of ready pods queue from that time on.
        admission_fair_sharing: True if past usage of local queues counts.
    """

    gates: Gates
    strategies: tuple[str, ...] | None = None
    by_eviction: bool = True
    admission_fair_sharing: bool = False


def satisfies_policy(preemptor: Info, candidate: Info, policy: str, rules: Rules) -> bool:
    """Return whether a policy lets the preemptor take the candidate's place."""
    if policy == ANY:
        return True
    lower = preemptor.priority > candidate.priority
    if policy == LOWER_PRIORITY or (policy == LOWER_OR_NEWER and lower):
        return lower
    if policy != LOWER_OR_NEWER or preemptor.priority != candidate.priority:
        return False
    times = [
        queue_order_time(each.obj, rules.gates, by_eviction=rules.by_eviction)
        for each in (preemptor, candidate)
    ]
    return times[0] < times[1]


def uses_any(info: Info, pairs: Collection[FlavorResource]) -> bool:
    """Return whether a workload was assigned one of the flavors for the resource."""
    return any(
        FlavorResource(flavor, resource) in pairs
        for pod_set in info.total_requests
        for resource, flavor in pod_set.flavors.items()
    )


def reserved_at(info: Info, now: int) -> int:
    """When the workload got its quota; now if it has none."""
    found = find(info.obj, QUOTA_RESERVED)
    return now if found is None or found["status"] != "True" else time_of(found)


def order_key(info: Info, queue: str, now: int) -> tuple[bool, bool, int, int, str]:
    """The order without past usage: evicted, of other queues, low priority, latest reservation."""
    return (
        not is_evicted(info.obj),
        info.cluster_queue == queue,
        info.priority,
        -reserved_at(info, now),
        info.uid,
    )


def ordered(infos: Iterable[Info], queue: str, now: int, rules: Rules) -> list[Info]:
    """Candidates in the order in which they are tried."""
    found = sorted(infos, key=lambda info: order_key(info, queue, now))
    if rules.admission_fair_sharing:
        keys = {info.key: order_key(info, queue, now) for info in found}
        sort(found, lambda a, b: _compare(a, b, keys))
    return found


def _compare(a: Info, b: Info, keys: dict[str, tuple[bool, bool, int, int, str]]) -> int:
    left, right = keys[a.key], keys[b.key]
    if left[:2] == right[:2] and _usage_counts(a, b):
        one, other = a.local_queue_usage or 0.0, b.local_queue_usage or 0.0
        if one != other:
            return 1 if one < other else -1
    return (left > right) - (left < right)


def _usage_counts(a: Info, b: Info) -> bool:
    return (
        a.cluster_queue == b.cluster_queue
        and a.queue_name != b.queue_name
        and a.local_queue_usage is not None
        and b.local_queue_usage is not None
    )
