"""The scenario of a session with an operator: a served cluster whose containers may be processes of this machine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve

from controlplane.api.container_output import Output, state_of
from controlplane.operators.loops import runtime
from controlplane.serving import scenario
from controlplane.serving.session import ServedCluster

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.apiserver.options import ContainerLog, ServerOptions
    from controlplane.cluster import Cluster, ClusterConfig

__all__ = ["SCENARIO", "OperatorCluster"]


class OperatorCluster(ServedCluster):
    """A served cluster that keeps its whole history, and whose containers end with their processes."""

    def __init__(self, config: ClusterConfig, **options: Any) -> None:
        self._outputs: runtime.Outputs = {}
        super().__init__(config, **options)
        self.world.experimenter(runtime.RUNTIME, runtime.run, self, config.epoch_ns, self._outputs)

    def server_options(self) -> ServerOptions:
        """As of a served cluster, without compaction: history is compared. Processes' output is their containers'."""
        options = super().server_options()
        log = partial(_output, self._outputs, options.container_log)
        return evolve(options, compaction_ns=0, container_log=log)


def _output(
    outputs: runtime.Outputs,
    emulated: ContainerLog | None,
    pod: Tree,
    container: str,
    now: int,
    previous: bool,
) -> Output:
    """Return the output of a container: that of its process, if it is one."""
    state = state_of(pod, container)
    life, last = state.get("state") or {}, (state.get("lastState") or {}).get("terminated") or {}
    running = "running" in life and not previous
    known = (
        state.get("containerID") if running else (life.get("terminated") or last).get("containerID")
    )
    if previous:
        known = last.get("containerID")
    lines = outputs.get((pod["metadata"]["uid"], str(known)))
    if lines is None:
        return Output() if emulated is None else emulated(pod, container, now, previous)
    whole = lines if lines[-1].text else lines[:-1]
    return Output(0, tuple(whole), ended=not running)


def make(config: ClusterConfig, **options: Any) -> Cluster:
    """Return the cluster of one session."""
    return OperatorCluster(config, **options)


SCENARIO = evolve(
    scenario.SCENARIO,
    name="operator",
    title="a cluster with an operator that runs as a process of its own",
    make=make,
)
