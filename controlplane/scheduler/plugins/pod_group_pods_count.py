"""PodGroupPodsCount: placements that hold more pods of the group are better.

Upstream: `pkg/scheduler/framework/plugins/podgrouppodscount/podgroup_pods_count.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.framework import names
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import MAX_NODE_SCORE, Status, StatusError, error
from controlplane.scheduler.framework.placements import PlacementScorePlugin
from controlplane.scheduler.state.pod_groups import not_found

if TYPE_CHECKING:
    from controlplane.scheduler.framework.placements import Assignments
    from controlplane.scheduler.state.pod_groups import Key


class PodGroupPodsCount(PlacementScorePlugin):
    """Counts members that have a node and those that would get one."""

    name = names.POD_GROUP_PODS_COUNT

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def score_placement(self, group: Key, assignments: Assignments) -> int:
        """The number of members. Raises StatusError."""
        state = self._handle.snapshot.pod_groups.get(group)
        if state is None:
            raise StatusError(error(not_found(group)))
        return state.scheduled_count + len(assignments.pods)

    def normalize_placements(self, scores: list[int]) -> Status | None:
        """Scale to the largest count among the placements."""
        most = max(scores, default=0)
        if most <= 0:
            return error("no pods from pod group are assigned to any of the candidate placements")
        scores[:] = [score * MAX_NODE_SCORE // most for score in scores]
        return None
