"""Places of a job that grows or shrinks: the pods that run keep theirs.

Only with the gate ElasticJobsViaWorkloadSlicesWithTAS. Follows
`pkg/cache/scheduler/tas_elastic_workloads.go`.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.kueue.topology.assignment import Assignment
from controlplane.kueue.topology.replacement import stale_domain
from controlplane.kueue.topology.requests import PodSetRequest
from controlplane.kueue.topology.tree import TopologyTree


@dataclass(frozen=True)
class ScalePlan:
    """Kept and missing pods of a replacement.

    `workers` stay where they are, `more` of them are new; `kept` takes room before the search;
    `leader_to_place` has no place yet.
    """

    workers: Assignment
    kept: tuple[tuple[PodSetRequest, Assignment], ...]
    more: int = 0
    leader_to_place: PodSetRequest | None = None


def plan(
    tree: TopologyTree, leader: PodSetRequest | None, workers: PodSetRequest
) -> ScalePlan | None:
    """Plan from the assignment before; None if there is none or one of its domains is gone."""
    previous = workers.previous
    if previous is None or stale_domain(tree, previous) is not None:
        return None
    kept_leader: tuple[tuple[PodSetRequest, Assignment], ...] = ()
    if leader is not None and leader.previous is not None:
        if stale_domain(tree, leader.previous) is not None:
            return None
        kept_leader = ((leader, leader.previous),)
    more = workers.count - previous.pods()
    if more > 0:
        return ScalePlan(
            previous, ((workers, previous), *kept_leader), more, None if kept_leader else leader
        )
    own = previous.cut_to(workers.count) if more < 0 else previous
    return ScalePlan(own, ((workers, own), *kept_leader))
