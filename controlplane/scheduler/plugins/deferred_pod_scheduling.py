"""DeferredPodScheduling: a pod whose resize waits is looked at on its own node, and never bound (KEP-5836).

Upstream: `pkg/scheduler/framework/plugins/deferredpodscheduling` (1.37, gate
InPlacePodVerticalScalingSchedulerPreemption).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from controlplane.api.resize_policy import forbids_preemption, resize_waits
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.deferred_resize import GATE
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    SKIP,
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    PreFilterPlugin,
    PreFilterResult,
    Status,
    unresolvable,
    unschedulable,
)

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

FITS = "pod resize fits, waiting for Kubelet actuation"
_ELSEWHERE = unresolvable("pod assigned to different node").by(names.DEFERRED_POD_SCHEDULING)
_FORBIDDEN = unresolvable("node had resize preemption disabled").by(names.DEFERRED_POD_SCHEDULING)
_PARKED = unresolvable(FITS).by(names.DEFERRED_POD_SCHEDULING)


class DeferredPodScheduling(PreFilterPlugin, FilterPlugin, PermitPlugin, EnqueueExtensions):
    """Refuses other nodes and nodes that forbid it; parks a pod whose resize fits until its kubelet acts."""

    name = names.DEFERRED_POD_SCHEDULING

    def __init__(self, handle: Handle) -> None:
        self._enabled = handle.feature(GATE)

    def _concerns(self, pod: Pod) -> bool:
        return self._enabled and resize_waits(pod)

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Nothing to say about any other pod."""
        return (None, None) if self._concerns(pod) else (None, SKIP)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Only the pod's node, and only if it lets others be preempted for resizes."""
        if pod.spec.node_name != node.name:
            return _ELSEWHERE
        assert node.node is not None
        return _FORBIDDEN if forbids_preemption(node.node) else None

    def permit(self, state: CycleState, pod: Pod, node: str) -> tuple[Status | None, int]:
        """A resize that fits is the kubelet's to grant: the pod waits in the pool."""
        return (_PARKED, 0) if self._concerns(pod) else (None, 0)

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """The node is there again or lets others be preempted; a pod on it asks for more."""
        node = ev.event_of(ev.NODE, ev.ADD | ev.UPDATE_NODE_PREEMPTION_POLICY)
        grown = ev.event_of(ev.POD, ev.UPDATE_POD_SCALE_UP)
        return [
            ev.ClusterEventWithHint(node, _node_changed),
            ev.ClusterEventWithHint(grown, _pod_grew),
        ]

    def sign_pod(self, pod: Pod) -> signers.Fragments | Status:
        """A pod whose resize waits shares its result with none."""
        if self._concerns(pod):
            return unschedulable("pods whose resize waits are not signable")
        return ()


def _node_changed(pod: Pod, old: Node | None, new: Node) -> ev.Hint:
    if new.name != pod.spec.node_name or forbids_preemption(new):
        return ev.Hint.SKIP
    return ev.Hint.QUEUE if old is None or forbids_preemption(old) else ev.Hint.SKIP


def _pod_grew(pod: Pod, _old: Pod, new: Pod) -> ev.Hint:
    return ev.Hint.QUEUE if new.spec.node_name == pod.spec.node_name else ev.Hint.SKIP
