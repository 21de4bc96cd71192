"""Common part of the CPU and the memory manager: stale state is removed before each query and allocation.

Upstream: HintProvider of pkg/kubelet/cm/topologymanager, and the managers that implement it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

from controlplane.api.containers import Container
from controlplane.api.pod import Pod
from controlplane.decisions import Point
from controlplane.kubelet.cm.topologymanager.hints import Hints
from controlplane.kubelet.effects import Steps


class Policy(Protocol):
    """A policy of assignment."""

    def allocate(self, pod: Pod, container: Container) -> Steps[None]:
        """Give a container what it asks for."""

    def allocate_pod(self, pod: Pod) -> Steps[None]:
        """Give a pod with resources of its own what it asks for."""

    def topology_hints(self, pod: Pod, container: Container) -> Hints:
        """Return the NUMA nodes from which a container could get its resources."""

    def pod_topology_hints(self, pod: Pod) -> Hints:
        """Return the NUMA nodes from which a pod could get its resources."""


class HintProvider(ABC):
    """Operations are generators: see `controlplane.decisions`."""

    STALE_REMOVED: ClassVar[str]
    """The point between removing stale state, under the lock, and taking the lock again."""

    @property
    @abstractmethod
    def decides(self) -> Policy:
        """The policy."""

    @abstractmethod
    def remove_stale_state(self) -> Steps[None]:
        """Take back what containers of inactive pods have."""

    def allocate(self, pod: Pod, container: Container) -> Steps[None]:
        """Give a container what it asks for, after taking back what containers have that are gone."""
        yield from self.remove_stale_state()
        yield Point(self.STALE_REMOVED)
        yield from self.decides.allocate(pod, container)

    def allocate_pod(self, pod: Pod) -> Steps[None]:
        """Give a pod with resources of its own what it asks for."""
        yield from self.remove_stale_state()
        yield Point(self.STALE_REMOVED)
        yield from self.decides.allocate_pod(pod)

    def topology_hints(self, pod: Pod, container: Container) -> Steps[Hints]:
        """Return the NUMA nodes from which a container could get its resources; the state is read without the lock."""
        yield from self.remove_stale_state()
        yield Point(self.STALE_REMOVED)
        return self.decides.topology_hints(pod, container)

    def pod_topology_hints(self, pod: Pod) -> Steps[Hints]:
        """Return the NUMA nodes from which a pod could get its resources; the state is read without the lock."""
        yield from self.remove_stale_state()
        yield Point(self.STALE_REMOVED)
        return self.decides.pod_topology_hints(pod)


class HandsOutNothing:
    """The part of a policy "none" that is the same whatever is not handed out."""

    def allocate(self, pod: Pod, container: Container) -> Steps[None]:
        """Nothing to do."""
        yield from ()

    def allocate_pod(self, pod: Pod) -> Steps[None]:
        """Nothing to do."""
        yield from ()

    def remove(self, pod_uid: str, container: str) -> Steps[None]:
        """Nothing to do."""
        yield from ()

    def topology_hints(self, pod: Pod, container: Container) -> Hints:
        """No preference."""
        return None

    def pod_topology_hints(self, pod: Pod) -> Hints:
        """No preference."""
        return None
