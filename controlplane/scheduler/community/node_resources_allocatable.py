"""NodeResourcesAllocatable: prefer nodes with the least, or the most, allocatable resources.

Upstream: pkg/noderesources/allocatable.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from controlplane.api.go_integers import divide, int64
from controlplane.scheduler.community.args import arguments
from controlplane.scheduler.community.scores import spread
from controlplane.scheduler.framework.interface import NormalizeScorePlugin

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.interface import Status
    from controlplane.scheduler.state.node_info import NodeInfo


class NodeResourcesAllocatable(NormalizeScorePlugin):
    """The weighted mean of allocatable amounts, negative where the least is preferred."""

    name = "NodeResourcesAllocatable"

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        given = arguments(self.name, args)
        self._weights = {each["Name"]: each["Weight"] for each in given["resources"]}
        self._sign = -1 if given["mode"] == "Least" else 1

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """A number of any size; it is normalised."""
        total = 0
        for name, weight in self._weights.items():
            total = int64(total + int64(self._sign * _allocatable(node, name) * weight))
        return divide(total, sum(self._weights.values()))

    def normalize(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> Status | None:
        """The lowest is 0, the highest 100."""
        spread(scores)
        return None


def _allocatable(node: NodeInfo, name: str) -> int:
    found = node.allocatable
    if name == "cpu":
        return found.milli_cpu
    if name == "memory":
        return found.memory
    if name == "ephemeral-storage":
        return found.ephemeral_storage
    return found.scalars.get(name, 0)
