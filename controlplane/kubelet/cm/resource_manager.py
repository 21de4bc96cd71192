"""Common part of the CPU and the memory manager: a policy with its state, and the active pods.

Upstream: pkg/kubelet/cm/cpumanager/cpu_manager.go and memorymanager/memory_manager.go, which are made alike, and
HintProvider of pkg/kubelet/cm/topologymanager. Each manager has a mutex of its own: removing stale state holds
it, allocating takes it again, so another task may run between the two (`STALE_REMOVED`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import attrs

from controlplane.api.containers import Container
from controlplane.api.pod import Pod
from controlplane.decisions import Point
from controlplane.kubelet.cm.active import ContainerMap
from controlplane.kubelet.cm.fixes import AS_RELEASED, ManagerFixes
from controlplane.kubelet.cm.topologymanager.hints import Hints
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.features import DEFAULTS, Features
from controlplane.metrics.numbers import Metrics

S = TypeVar("S")


@attrs.frozen
class KubeletView:
    """The kubelet as its resource managers see it.

    Args:
        active_pods: the pods that keep their resources.
        sources_ready: whether all sources of pods were heard; until then the active pods are not known.
        features: feature gates.
        metrics: counters, shared by all managers.
        fixes: forms of published fixes.
    """

    active_pods: Callable[[], Sequence[Pod]] = tuple
    sources_ready: Callable[[], bool] = lambda: True
    features: Features = DEFAULTS
    metrics: Metrics = attrs.field(factory=Metrics)
    fixes: ManagerFixes = AS_RELEASED


class Policy(Protocol[S]):
    """A policy of assignment with its state."""

    name: str
    state: S

    def start(self, state: S) -> Steps[None]:
        """Take over a restored state. Raises ManagerError if the machine has changed."""

    def allocate(self, pod: Pod, container: Container) -> Steps[None]:
        """Give a container what it asks for."""

    def allocate_pod(self, pod: Pod) -> Steps[None]:
        """Give a pod with resources of its own what it asks for."""

    def remove(self, pod_uid: str, container: str) -> Steps[None]:
        """Take a container's resources back."""

    def topology_hints(self, pod: Pod, container: Container) -> Hints:
        """Return the NUMA nodes from which a container could get its resources."""

    def pod_topology_hints(self, pod: Pod) -> Hints:
        """Return the NUMA nodes from which a pod could get its resources."""


class ResourceManager(ABC, Generic[S]):
    """Operations are decisions: see `controlplane.decisions`."""

    STALE_REMOVED: ClassVar[str]
    """The point between removing stale state, under the lock, and taking the lock again."""

    policy: Policy[S]

    def __init__(self, view: KubeletView) -> None:
        self.view = view
        self.containers = ContainerMap()

    @property
    def state(self) -> S:
        """The assigned resources."""
        return self.policy.state

    @property
    def features(self) -> Features:
        """The feature gates."""
        return self.view.features

    @property
    @abstractmethod
    def assigned(self) -> Mapping[str, Mapping[str, Any]]:
        """The assigned resources by pod uid and container."""

    def remove(self, pod_uid: str, container: str) -> Steps[None]:
        """Take a container's resources back."""
        yield from self.policy.remove(pod_uid, container)
        self.containers.remove(pod_uid, container)

    def remove_stale_state(self) -> Steps[None]:
        """Take back the resources of containers of pods that are not active. Nothing else frees them.

        Until all sources of pods are ready, the active pods are not known.
        """
        view = self.view
        if view.fixes.sources_first and not view.sources_ready():
            return
        for pod_uid, name in self.containers.stale(self.assigned, view.active_pods):
            yield from self.remove(pod_uid, name)

    def _without_stale_state(self) -> Steps[None]:
        """Remove stale state, and let go of the lock."""
        yield from self.remove_stale_state()
        yield Point(self.STALE_REMOVED)

    def allocate(self, pod: Pod, container: Container) -> Steps[None]:
        """Give a container what it asks for, after taking back what containers have that are gone."""
        yield from self._without_stale_state()
        yield from self.policy.allocate(pod, container)

    def allocate_pod(self, pod: Pod) -> Steps[None]:
        """Give a pod with resources of its own what it asks for."""
        yield from self._without_stale_state()
        yield from self.policy.allocate_pod(pod)

    def topology_hints(self, pod: Pod, container: Container) -> Steps[Hints]:
        """Return the NUMA nodes from which a container could get its resources; the state is read without the lock."""
        yield from self._without_stale_state()
        return self.policy.topology_hints(pod, container)

    def pod_topology_hints(self, pod: Pod) -> Steps[Hints]:
        """Return the NUMA nodes from which a pod could get its resources; the state is read without the lock."""
        yield from self._without_stale_state()
        return self.policy.pod_topology_hints(pod)


class NonePolicy(Generic[S]):
    """A policy "none": no resources of a particular container."""

    def __init__(self, name: str, state: S) -> None:
        self.name = name
        self.state = state

    def start(self, state: S) -> Steps[None]:
        """Take over a restored state, whatever it says."""
        self.state = state
        yield from ()

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
