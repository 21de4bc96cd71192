"""NodeName: a pod that names its node fits only there.

Upstream: `pkg/scheduler/framework/plugins/nodename/node_name.go`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.column_forms import NodeLocalFilter, StatusTable
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
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.state.node_info import NodeInfo

_MISMATCH = unresolvable("node(s) didn't match the requested node name").by(names.NODE_NAME)


class NodeName(NodeLocalFilter, EnqueueExtensions):
    """Compares spec.nodeName, when set, with the node."""

    name = names.NODE_NAME
    keyed_by_spec = True

    def __init__(self, handle: Handle) -> None:
        self._added = _node_added if handle.preempts_for_resizes else None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse other nodes than the requested one."""
        wanted = pod.spec.node_name
        return None if not wanted or wanted == node.name else _MISMATCH

    def filter_key(self, state: CycleState, pod: Pod) -> Hashable:
        """The requested node."""
        return pod.spec.node_name

    def filter_all(
        self, state: CycleState, pod: Pod, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """All nodes at once."""
        if not pod.spec.node_name:
            return None
        return super().filter_all(state, pod, columns, table)

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """A new node may be the one."""
        return [ev.ClusterEventWithHint(ev.NODE_ADD, self._added)]

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """The requested node."""
        return ((signers.NODE_NAME, signers.text(pod.spec.node_name)),)


def _node_added(pod: Pod, _old: Node | None, new: Node) -> ev.Hint:
    """Only a pod whose resize waits has a node and is queued (KEP-5836): no other node helps it."""
    wanted = pod.spec.node_name
    return ev.Hint.QUEUE if not wanted or wanted == new.name else ev.Hint.SKIP
