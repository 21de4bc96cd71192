"""The topology manager: asks all hint providers, decides, and lets them allocate.

Upstream: pkg/kubelet/cm/topologymanager/topology_manager.go, scope*.go. It is the handler of pod
admission through which CPUs and memory are allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import attrs

from controlplane.api.containers import Container
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import pod_level_resources_set
from controlplane.api.validation import quote
from controlplane.decisions import Point
from controlplane.kubelet.cm.errors import TOPOLOGY_AFFINITY, ManagerError, refusal
from controlplane.kubelet.cm.topologymanager.hints import NO_HINT, Hints, TopologyHint
from controlplane.kubelet.cm.topologymanager.options import topology_options
from controlplane.kubelet.cm.topologymanager.policy import NONE, POLICIES, NUMAInfo, Policy
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.machine import NUMANode
from controlplane.metrics.numbers import Metrics

CONTAINER: Final = "container"
POD: Final = "pod"
SCOPES: Final = (CONTAINER, POD)

NO_LOCALITY: Final = "Resources cannot be allocated with Topology locality"
_WHOLE_POD: Final = "Pod Scope pod with pod-level resources failed admission "
_WHOLE_POD_IN_SCOPE: Final = {
    CONTAINER: _WHOLE_POD + "with a container-level topology manager",
    POD: _WHOLE_POD + "under pod-scope topology manager",
}
COLLECTED: Final = "kubelet.topology_manager.hints"
"""The point between one provider's answer and the next call."""


class HintProvider(Protocol):
    """A manager that assigns resources. Upstream: HintProvider."""

    def topology_hints(self, pod: Pod, container: Container) -> Steps[Hints]:
        """Return the NUMA nodes from which a container could get its resources."""

    def pod_topology_hints(self, pod: Pod) -> Steps[Hints]:
        """Return the NUMA nodes from which all containers of a pod could get their resources."""

    def allocate(self, pod: Pod, container: Container) -> Steps[None]:
        """Give a container what it asks for. Raises ManagerError."""

    def allocate_pod(self, pod: Pod) -> Steps[None]:
        """Give a pod with resources of its own what it asks for. Raises ManagerError."""


@attrs.frozen
class Decision:
    """The admission of a pod, and the reason for a rejection."""

    admitted: bool
    reason: str = ""
    message: str = ""


ADMITTED: Final = Decision(True)


class TopologyManager:
    """Keeps the hint that each container was admitted with; memory only, lost with the process."""

    def __init__(
        self,
        nodes: Sequence[NUMANode],
        policy: str = NONE,
        scope: str = CONTAINER,
        options: Mapping[str, str] | None = None,
        *,
        pod_level_managers: bool = False,
        metrics: Metrics | None = None,
    ) -> None:
        """Raises ManagerError for a configuration that the machine or the kubelet does not take.

        `pod_level_managers` is the feature gate PodLevelResourceManagers.
        """
        self.providers: list[HintProvider] = []
        self.metrics = metrics or Metrics()
        self.policy = _policy(nodes, policy, options or {})
        if self.policy is not None and scope not in SCOPES:
            raise ManagerError(f"unknown scope: {quote(scope)}")
        self.scope = NONE if self.policy is None else scope
        self._pod_level = pod_level_managers
        self._affinity: dict[str, dict[str, TopologyHint]] = {}
        self._containers: dict[str, tuple[str, str]] = {}

    @property
    def policy_name(self) -> str:
        """The policy in effect."""
        return NONE if self.policy is None else self.policy.name

    def affinity(self, pod_uid: str, container: str) -> TopologyHint:
        """Return the decided hint of a container; neither mask nor preference when nothing was decided."""
        return self._affinity.get(pod_uid, {}).get(container, NO_HINT)

    def merge(self, given: Sequence[Hints]) -> tuple[TopologyHint, bool]:
        """The best hint, and whether it is good enough; without a policy everything is."""
        return (NO_HINT, True) if self.policy is None else self.policy.merge(given)

    def add_container(self, pod_uid: str, container: str, container_id: str) -> None:
        """A container was made."""
        self._containers[container_id] = (pod_uid, container)

    def remove_container(self, container_id: str) -> None:
        """A container is gone: forget its hint, unless another was made in its place already."""
        known = self._containers.pop(container_id, None)
        if known is None or known in self._containers.values():
            return
        hints = self._affinity.get(known[0])
        if hints is not None:
            hints.pop(known[1], None)
            if not hints:
                del self._affinity[known[0]]

    def admit(self, pod: Pod) -> Steps[Decision]:
        """Decide about a pod and allocate what it asks for, in upstream's order.

        A pod that is refused keeps what its earlier containers got until it counts as inactive.
        """
        self.metrics.add("topology_manager_admission_requests_total")
        by_scope = {CONTAINER: self._by_container, POD: self._by_pod}
        try:
            decision = yield from by_scope.get(self.scope, self._unaligned)(pod)
        except ManagerError as error:
            decision = Decision(False, *refusal(error))
        if not decision.admitted:
            self.metrics.add("topology_manager_admission_errors_total")
        return decision

    def _unaligned(self, pod: Pod) -> Steps[Decision]:
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            yield from self._allocate(pod, container)
        return ADMITTED

    def _by_container(self, pod: Pod) -> Steps[Decision]:
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            hints = []
            for provider in self.providers:
                hints.append((yield from provider.topology_hints(pod, container)))
                yield Point(COLLECTED)
            best, good = self.merge(hints)
            if not good:
                return self._refused(pod)
            self._affinity.setdefault(pod.uid, {})[container.name] = best
            yield from self._allocate(pod, container)
            self._count_alignment(CONTAINER, "")
        return ADMITTED

    def _by_pod(self, pod: Pod) -> Steps[Decision]:
        hints = []
        for provider in self.providers:
            hints.append((yield from provider.pod_topology_hints(pod)))
            yield Point(COLLECTED)
        best, good = self.merge(hints)
        if not good:
            return self._refused(pod)
        whole = self._pod_level and pod_level_resources_set(pod)
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        for container in containers:
            self._affinity.setdefault(pod.uid, {})[container.name] = best
            if not whole:
                yield from self._allocate(pod, container)
        if whole:
            for provider in self.providers:
                yield from provider.allocate_pod(pod)
        self._count_alignment(POD, "")
        return ADMITTED

    def _allocate(self, pod: Pod, container: Container) -> Steps[None]:
        for provider in self.providers:
            yield from provider.allocate(pod, container)

    def _refused(self, pod: Pod) -> Decision:
        self._count_alignment(self.scope, "_failure")
        if self._pod_level and pod_level_resources_set(pod):
            return Decision(False, TOPOLOGY_AFFINITY, _WHOLE_POD_IN_SCOPE[self.scope])
        return Decision(False, TOPOLOGY_AFFINITY, NO_LOCALITY)

    def _count_alignment(self, scope: str, suffix: str) -> None:
        if self.policy is not None and self.policy.guarantees_alignment:
            name = f"container_aligned_compute_resources{suffix}_count"
            self.metrics.add(name, scope=scope, boundary="numa_node")


def _policy(nodes: Sequence[NUMANode], name: str, given: Mapping[str, str]) -> Policy | None:
    if name == NONE:
        return None  # neither scope nor options count
    options = topology_options(given)
    numa = NUMAInfo.of(nodes, options)
    if len(numa.nodes) > options.max_numa_nodes:
        raise ManagerError(
            f"unsupported on machines with more than {options.max_numa_nodes} NUMA Nodes"
        )
    if name not in POLICIES:
        raise ManagerError(f"unknown policy: {quote(name)}")
    return Policy(name, numa, options)
