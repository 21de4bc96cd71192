"""NodeResourcesBalancedAllocation: prefer nodes whose resources are used evenly.

Upstream: `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from controlplane.api.go_integers import divide
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.args import NodeResourcesBalancedAllocationArgs
from controlplane.scheduler.framework.column_forms import NodeLocalScore
from controlplane.scheduler.framework.interface import (
    SKIP,
    PreScorePlugin,
    Status,
    unschedulable,
)
from controlplane.scheduler.plugins.allocation_columns import balance_scores
from controlplane.scheduler.plugins.device_totals import DeviceTotals, scores_devices
from controlplane.scheduler.plugins.resource_allocation import (
    balance,
    node_vectors,
    request_amounts,
)
from controlplane.scheduler.state.resources import containers_tell_requests, pod_requests

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.columns.rows import Rows
    from controlplane.scheduler.framework.column_forms import Scores
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.state.node_info import NodeInfo

_KEY = "PreScoreNodeResourcesBalancedAllocation"
_DEVICES_KEY = "PreScoreNodeResourcesBalancedAllocation.devices"


class NodeResourcesBalancedAllocation(PreScorePlugin, NodeLocalScore):
    """Rates by how the pod changes the balance between resources: 50..100, 75 for no change."""

    name = names.NODE_RESOURCES_BALANCED_ALLOCATION
    keyed_by_spec = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self.args = args
        self._dra = handle.dra

    def score_requests(self, pod: Pod) -> list[int]:
        """Plain requests of the scored resources, without defaults."""
        return request_amounts(pod_requests(pod, use_status=True), self.args.resources)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Rows) -> Status | None:
        """Add up the requests; a pod without any changes no balance."""
        amounts = self.score_requests(pod)
        if not any(amounts):
            return SKIP
        state.write(_KEY, amounts)
        if self._dra.extended.classes and scores_devices(self._dra, self.args.resources, amounts):
            state.anew = state.anew | {self.name}
            state.write(_DEVICES_KEY, DeviceTotals(self._dra))
        return None

    def pre_score_by_spec(self, pod: Pod) -> bool:
        """Requests are in the spec, unless containers have a status already, or devices meet them."""
        if not containers_tell_requests(pod):
            return False
        if not self._dra.extended.classes:
            return True
        return not scores_devices(self._dra, self.args.resources, self.score_requests(pod))

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Points by the change of balance."""
        devices: DeviceTotals | None = state.read(_DEVICES_KEY) if state.anew else None
        return self.score_amounts(state.data[_KEY], node, devices)

    def score_amounts(
        self, amounts: Sequence[int], node: NodeInfo, devices: DeviceTotals | None = None
    ) -> int:
        """Points of a node for a pod that requests `amounts`."""
        requested, before, allocatable = node_vectors(
            node, self.args.resources, amounts, plain=True, devices=devices
        )
        gain = balance(requested, allocatable) - balance(before, allocatable)
        return 50 + divide(50 + gain, 2)

    def score_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Return the requests of the pod."""
        return tuple(state.data[_KEY])

    def score_all(self, state: CycleState, pod: Pod, columns: Columns) -> Scores:
        """Points of all nodes at once."""
        requests = state.data[_KEY]
        if columns.holds(requests):
            scores = balance_scores(self.args.resources, requests, columns)
            if columns.exact:
                return scores
        return super().score_all(state, pod, columns)

    def sign_pod(self, pod: Pod) -> signers.Fragments | Status:
        """Requests of the pod; a pod with requests that devices meet cannot share results."""
        if self._dra.extended.classes and any(
            not amount.is_zero() and self._dra.delegates(name)
            for name, amount in pod_requests(pod).items()
        ):
            return unschedulable(signers.BY_DEVICES)
        return ((signers.RESOURCES, signers.resources(pod)),)
