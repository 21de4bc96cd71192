"""Adds the emulated cloud to a cluster, with machines that outlive its actor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from controlplane.autoscaler.cloud.messages import CLOUD
from controlplane.autoscaler.loops import cloud

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.api.tree import Tree
    from controlplane.autoscaler.cloud.specs import GroupSpec
    from controlplane.client.loops.connection import RestConfig

__all__ = ["cloud_of"]

FIRST_NUMBER: Final = 1 << 14
"""The numbers of machines of the cloud begin here, which keeps their addresses apart from those of other nodes."""


class Cluster(Protocol):
    """The parts of a cluster that a cloud needs."""

    @property
    def config(self) -> Any:
        """Its configuration."""

    @property
    def world(self) -> Any:
        """Its world."""

    @property
    def beside(self) -> dict[str, Any]:
        """The values that systems beside the control plane show to observers, by name."""

    def address(self, process: str) -> RestConfig:
        """Return the transport of a process to the API servers."""

    def start_kubelet(self, tree: Tree, number: int, *, registers: bool = False) -> None:
        """Start a machine with its kubelet."""

    def end_kubelet(self, node: str) -> None:
        """End the kubelet, and forget its machine."""


class _Machines:
    """The machines of the cloud; see `cloud.Machines`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._number = FIRST_NUMBER

    def power_on(self, tree: Tree) -> None:
        self._number += 1
        self._cluster.start_kubelet(tree, self._number, registers=True)

    def power_off(self, name: str) -> None:
        self._cluster.end_kubelet(name)


def cloud_of(groups: Sequence[GroupSpec]) -> Callable[[Cluster], None]:
    """Return what adds a cloud with these groups to a cluster (`ClusterConfig.additions`)."""

    def add(cluster: Cluster) -> None:
        config = cluster.config
        probe = cluster.beside[CLOUD] = cloud.CloudProbe()
        options = cloud.CloudOptions(
            groups,
            _Machines(cluster),
            cluster.address(CLOUD),
            config.epoch_ns,
            config.kubelets,
            config.heartbeats,
            config.stages,
        )
        cluster.world.experimenter(CLOUD, cloud.run, options, probe)

    return add
