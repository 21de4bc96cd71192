"""DynamicResources: pods without resource claims pass; others are refused, clearly.

Upstream: `pkg/scheduler/framework/plugins/dynamicresources`. Allocation of devices is not
emulated.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names
from controlplane.scheduler.framework.column_forms import NodeLocalScore
from controlplane.scheduler.framework.interface import (
    SKIP,
    EnqueueExtensions,
    FilterPlugin,
    Filters,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    Status,
    unresolvable,
    unschedulable,
)

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.framework.column_forms import Scores
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.interface import ApiWrite, NodeToStatus
    from controlplane.scheduler.state.node_info import NodeInfo

NOT_EMULATED = "pod uses resource claims: dynamic resource allocation is not emulated"


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    NodeLocalScore,
    ReservePlugin,
    PreBindPlugin,
    EnqueueExtensions,
):
    """Keeps its place in every extension point and skips pods without claims."""

    name = names.DYNAMIC_RESOURCES
    keyed_by_spec = True

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Every pod may be looked at."""
        return None

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Skip pods without claims."""
        if pod.spec.resource_claims:
            return None, unresolvable(NOT_EMULATED)
        return None, SKIP

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """Claims are in the spec."""
        return True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Nothing to refuse: PreFilter has skipped or rejected."""
        return None

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> tuple[PostFilterResult | None, Status | None]:
        """There is no claim that could be given back."""
        return None, unschedulable()

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """No claim, no points."""
        return 0

    def score_key(self, state: CycleState, pod: Pod) -> Hashable:
        """All pods are alike."""
        return ()

    def score_all(self, state: CycleState, pod: Pod, columns: Columns) -> Scores:
        """Nothing for any node."""
        return columns.alloc_pods * 0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Nothing to reserve."""
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Nothing to give back."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Nothing to prepare."""
        return SKIP

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Sequence[ApiWrite]:
        """Nothing to write."""
        return ()

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """As upstream registers them."""
        nodes = ev.ADD | ev.UPDATE_NODE_LABEL | ev.UPDATE_NODE_ALLOCATABLE
        claims = ev.event_of(ev.POD, ev.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
        changed = ev.ADD | ev.UPDATE
        return [
            ev.ClusterEventWithHint(ev.event_of(ev.NODE, nodes)),
            ev.ClusterEventWithHint(ev.event_of(ev.RESOURCE_CLAIM, changed), _claim_changed),
            ev.ClusterEventWithHint(claims, _generated_claim),
            ev.ClusterEventWithHint(ev.event_of(ev.DEVICE_CLASS, changed)),
            ev.ClusterEventWithHint(ev.event_of(ev.RESOURCE_SLICE, changed)),
        ]

    def sign_pod(self, pod: Pod) -> Sequence[tuple[str, Hashable]] | None:
        """Pods with claims cannot share results."""
        return None if pod.spec.resource_claims else ()


def _claim_changed(pod: Pod, _old: Any, _new: Any) -> ev.Hint:
    return ev.Hint.QUEUE if pod.spec.resource_claims else ev.Hint.SKIP


def _generated_claim(pod: Pod, _old: Pod, new: Pod) -> ev.Hint:
    return ev.Hint.QUEUE if new.uid == pod.uid else ev.Hint.SKIP
