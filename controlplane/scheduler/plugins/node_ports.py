"""NodePorts: the host ports a pod wants must be free.

Upstream: `pkg/scheduler/framework/plugins/nodeports/node_ports.go`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.column_forms import NodeLocalFilter, StatusTable
from controlplane.scheduler.framework.interface import (
    SKIP,
    EnqueueExtensions,
    PreFilterPlugin,
    PreFilterResult,
    Status,
    unschedulable,
)
from controlplane.scheduler.state.host_ports import HostPorts, Port, pod_host_ports

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.framework.column_forms import StatusIds
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

_TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports").by(
    names.NODE_PORTS
)
_KEY = "PreFilterNodePorts"


class NodePorts(PreFilterPlugin, NodeLocalFilter, EnqueueExtensions):
    """Looks for conflicts between the pod's host ports and those in use on the node."""

    name = names.NODE_PORTS
    keyed_by_spec = True

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Collect the wanted ports; without any there is nothing to do."""
        wanted = list(pod_host_ports(pod))
        if not wanted:
            return None, SKIP
        state.write(_KEY, wanted)
        return None, None

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """Ports are in the spec."""
        return True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse a node where a wanted port is taken."""
        wanted: list[Port] = state.data[_KEY]
        return _TAKEN if any(node.used_ports.conflicts(*port) for port in wanted) else None

    def filter_key(self, state: CycleState, pod: Pod) -> Hashable:
        """The wanted ports."""
        return tuple(state.data[_KEY])

    def filter_all(
        self, state: CycleState, pod: Pod, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """Only nodes with any host port in use are looked at."""
        rows = np.flatnonzero(columns.has_ports).tolist()
        if not rows:
            return None
        ids = np.zeros(columns.size, np.int32)
        for row in rows:
            ids[row] = table.id_of(self.filter(state, pod, columns.infos[row]))
        return ids

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """A pod with one of the ports goes, or a node comes."""
        return [
            ev.ClusterEventWithHint(ev.event_of(ev.POD, ev.DELETE), _pod_deleted),
            ev.ClusterEventWithHint(ev.NODE_ADD),
        ]

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """The set of port numbers."""
        return ((signers.HOST_PORTS, signers.host_ports(pod)),)


def _pod_deleted(pod: Pod, old: Pod, _new: None) -> ev.Hint:
    if not old.spec.node_name and not old.status.nominated_node_name:
        return ev.Hint.SKIP
    used = HostPorts()
    for port in pod_host_ports(old):
        used.add(*port)
    conflict = any(used.conflicts(*port) for port in pod_host_ports(pod))
    return ev.Hint.QUEUE if conflict else ev.Hint.SKIP
