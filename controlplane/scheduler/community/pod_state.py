"""PodState: prefer nodes whose pods end, and avoid those that pods are nominated to.

Upstream: pkg/podstate/pod_state.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from controlplane.scheduler.community.scores import spread
from controlplane.scheduler.framework.interface import NormalizeScorePlugin

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.interface import Status
    from controlplane.scheduler.state.node_info import NodeInfo


class PodState(NormalizeScorePlugin):
    """The number of terminating pods less the number of nominated ones."""

    name = "PodState"

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        self._handle = handle

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """A number of any size; it is normalised."""
        assert node.node is not None
        ending = sum(each.pod.metadata.deletion_timestamp is not None for each in node.pods)
        return ending - len(self._handle.nominated_pods(node.node.name))

    def normalize(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> Status | None:
        """The lowest is 0, the highest 100."""
        spread(scores)
        return None
