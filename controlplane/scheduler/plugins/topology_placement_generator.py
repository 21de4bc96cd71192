"""TopologyPlacementGenerator: a placement for each domain of the topology that a group asks for.

Upstream: `pkg/scheduler/framework/plugins/topologyaware/topology_placement.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.framework import names
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import StatusError, error
from controlplane.scheduler.framework.placements import Placement, PlacementGeneratePlugin
from controlplane.scheduler.state.pod_groups import not_found

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.pod import Pod
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_groups import Key


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """Members that have a node already decide about the domain of the others."""

    name = names.TOPOLOGY_PLACEMENT_GENERATOR
    reads = ("pod_groups",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def generate_placements(self, group: Key, parent: Placement) -> list[Placement]:
        """One placement for each value of the topology key; all nodes for a group without one. Raises StatusError."""
        handle = self._handle
        found = handle.listers.pod_groups.get(*group)
        if found is None:
            raise StatusError(error(f'podgroup.scheduling.k8s.io "{group[1]}" not found'))
        constraints = found.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return [parent]
        topology = constraints.topology[0].key
        state = handle.snapshot.pod_groups.get(group)
        if state is None:
            raise StatusError(error(not_found(group)))
        required: str | None = None
        if state.scheduled_count:
            scheduled = list(state.scheduled_pods())
            if len(scheduled) > 1:
                scheduled = handle.choose_order("scheduler.group.scheduled", scheduled)
            required = self._domain_of(scheduled, topology)
        domains: dict[str, list[NodeInfo]] = {}
        for node in parent.nodes:
            assert node.node is not None
            domain = node.node.labels.get(topology)
            if domain is not None and required in (None, domain):
                domains.setdefault(domain, []).append(node)
        placements = [Placement(nodes, domain) for domain, nodes in domains.items()]
        if len(placements) > 1:
            placements = handle.choose_order("scheduler.group.placements", placements)
        return placements

    def _domain_of(self, pods: Iterable[Pod], topology: str) -> str:
        """The domain in which all these pods run. Raises StatusError."""
        found = ""
        for pod in pods:
            node = self._handle.snapshot.get(pod.spec.node_name)
            if node is None or node.node is None:
                missing = f'nodeinfo not found for node name "{pod.spec.node_name}"'
                raise _undetermined(f"getting node for pod {pod.key}: {missing}")
            domain = node.node.labels.get(topology)
            if domain is None:
                raise _undetermined(f"no topology domain found for pod {pod.key}")
            if found and found != domain:
                raise _undetermined(f"more than 1 domain found for pod group: {found}, {domain}")
            found = domain
        return found


def _undetermined(text: str) -> StatusError:
    return StatusError(error(f"cannot determine domain for already scheduled pods: {text}"))
