"""Checks of a node alone against a pod, which wake pods when queueing hints are off.

Upstream: preCheckForNode of `pkg/scheduler/eventhandlers.go` (before 1.34 in use).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.labels import SelectorError
from controlplane.api.node_selector import RequiredNodeAffinity
from controlplane.api.taints import NO_SCHEDULE, untolerated
from controlplane.scheduler.state.host_ports import pod_host_ports
from controlplane.scheduler.state.node_info import NodeInfo
from controlplane.scheduler.state.resources import Resource, pod_requests

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod


def admits(pod: Pod, node: Node) -> bool:
    """Resources, node affinity, node name, host ports and taints of an otherwise empty node."""
    info = NodeInfo()
    info.set_node(node)
    request, room = Resource.from_requests(pod_requests(pod)), info.allocatable
    if room.allowed_pod_number < 1:
        return False
    if request.milli_cpu > room.milli_cpu or request.memory > room.memory:
        return False
    if request.ephemeral_storage > room.ephemeral_storage:
        return False
    if any(amount > room.scalars.get(name, 0) for name, amount in request.scalars.items()):
        return False
    try:
        if not RequiredNodeAffinity(pod).match(node):
            return False
    except SelectorError:
        return False
    if pod.spec.node_name and pod.spec.node_name != node.name:
        return False
    if any(info.used_ports.conflicts(*port) for port in pod_host_ports(pod)):
        return False
    taints, tolerations = node.spec.taints, pod.spec.tolerations
    return untolerated(taints, tolerations, lambda t: t.effect == NO_SCHEDULE) is None
