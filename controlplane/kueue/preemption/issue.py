"""Ask for preemptions: the texts, and the status of a preempted workload.

Follows `IssuePreemptions` of `pkg/scheduler/preemption/preemption.go`.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.tree import Tree
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import JOB_UID
from controlplane.kueue.preemption.candidates import (
    IN_CLUSTER_QUEUE,
    IN_COHORT_FAIR_SHARING,
    IN_COHORT_RECLAIM_WHILE_BORROWING,
    IN_COHORT_RECLAMATION,
    Target,
)
from controlplane.kueue.workload.info import Info
from controlplane.kueue.workload.priority import base_priority, effective_priority

TEXTS: Final = {
    IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    IN_COHORT_RECLAMATION: "reclamation within the cohort",
    IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
    "": "UNKNOWN",
}


def path_of(name: str, queue: ClusterQueueSnapshot | None) -> str:
    """A cluster queue below its cohorts: `/root/team/queue`."""
    above = [] if queue is None else [cohort.name for cohort in queue.path()]
    return "/" + "/".join([*reversed(above), name])


def message(info: Info, queue: ClusterQueueSnapshot, target: Target) -> str:
    """The message of the conditions Preempted and Evicted."""
    labels = info.obj["metadata"].get("labels") or {}
    return (
        f"Preempted to accommodate a workload (UID: {info.uid or 'UNKNOWN'}, "
        f"JobUID: {labels.get(JOB_UID) or 'UNKNOWN'}) due to {TEXTS.get(target.reason, '')}; "
        f"preemptor path: {path_of(info.cluster_queue, queue)}; "
        f"preemptee path: {path_of(target.info.cluster_queue, target.queue)}"
    )


def event_texts(info: Info, target: Target, text: str, gates: Gates) -> tuple[str, str]:
    """The messages of the events of the preempted workload and of the preemptor."""
    priorities = (
        f"; preemptor effective priority: {_priorities(info.obj, gates)}"
        f"; preemptee effective priority: {_priorities(target.info.obj, gates)}"
    )
    other = (
        f"Preempted workload {target.info.key} (UID: {target.info.uid}) "
        f"in ClusterQueue {target.info.cluster_queue}"
    )
    return text + priorities, other + priorities


def _priorities(workload: Tree, gates: Gates) -> str:
    base, effective = base_priority(workload), effective_priority(workload, gates)
    return f"{effective} (base: {base}, boost: {effective - base})"
