"""The scenario of a session with an operator: a served cluster whose containers may be processes of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from controlplane.operators.loops import runtime
from controlplane.serving import scenario
from controlplane.serving.session import ServedCluster

if TYPE_CHECKING:
    from controlplane.apiserver.options import ServerOptions
    from controlplane.cluster import Cluster, ClusterConfig

__all__ = ["SCENARIO", "OperatorCluster"]


class OperatorCluster(ServedCluster):
    """A served cluster that keeps its whole history, and whose containers end with their processes."""

    def __init__(self, config: ClusterConfig, **options: Any) -> None:
        super().__init__(config, **options)
        self.world.experimenter(runtime.RUNTIME, runtime.run, self, config.epoch_ns)

    def server_options(self) -> ServerOptions:
        """As of a served cluster, without compaction: history is compared."""
        return evolve(super().server_options(), compaction_ns=0)


def make(config: ClusterConfig, **options: Any) -> Cluster:
    """Return the cluster of one session."""
    return OperatorCluster(config, **options)


SCENARIO = evolve(
    scenario.SCENARIO,
    name="operator",
    title="a cluster with an operator that runs as a process of its own",
    make=make,
)
