"""NodeUnschedulable: a cordoned node takes only pods that tolerate it.

Upstream: `pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go`. It looks at
`spec.unschedulable` alone; the taint of the same name is TaintToleration's business.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from controlplane.api.constraints import Taint
from controlplane.api.taints import NO_SCHEDULE, tolerated
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.column_forms import NodeLocalFilter, StatusTable
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    EnqueueExtensions,
    Status,
    unresolvable,
)

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.framework.column_forms import StatusIds
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
_CORDONED = unresolvable("node(s) were unschedulable").by(names.NODE_UNSCHEDULABLE)


class NodeUnschedulable(NodeLocalFilter, EnqueueExtensions):
    """Refuses cordoned nodes."""

    name = names.NODE_UNSCHEDULABLE
    keyed_by_spec = True

    def __init__(self, handle: Handle) -> None:
        self._comparison = handle.feature("TaintTolerationComparisonOperators")

    def tolerates(self, pod: Pod) -> bool:
        """Return whether the pod may run on cordoned nodes."""
        return tolerated(pod.spec.tolerations, UNSCHEDULABLE_TAINT, comparison=self._comparison)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse a cordoned node unless the pod tolerates it."""
        assert node.node is not None
        return _CORDONED if node.node.spec.unschedulable and not self.tolerates(pod) else None

    def filter_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Return whether cordoned nodes are refused for the pod."""
        return self.tolerates(pod)

    def filter_all(
        self, state: CycleState, pod: Pod, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """All cordoned nodes at once."""
        if self.tolerates(pod) or not columns.unschedulable.any():
            return None
        return columns.unschedulable.astype("int32") * table.id_of(_CORDONED)

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """A node comes or is uncordoned; the pod's tolerations change."""
        return [
            ev.ClusterEventWithHint(
                ev.event_of(ev.NODE, ev.ADD | ev.UPDATE_NODE_TAINT), _node_changed
            ),
            ev.ClusterEventWithHint(
                ev.event_of(ev.POD, ev.UPDATE_POD_TOLERATION), self._toleration_changed
            ),
        ]

    def _toleration_changed(self, pod: Pod, _old: Pod, new: Pod) -> ev.Hint:
        return ev.Hint.QUEUE if new.uid == pod.uid and self.tolerates(new) else ev.Hint.SKIP

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """The pod's tolerations."""
        return ((signers.TOLERATIONS, signers.tolerations(pod)),)


def _node_changed(_pod: Pod, old: Node | None, new: Node) -> ev.Hint:
    if old is not None and old.spec.unschedulable and not new.spec.unschedulable:
        return ev.Hint.QUEUE
    if old is None and not new.spec.unschedulable:
        return ev.Hint.QUEUE
    return ev.Hint.SKIP
