"""Containers of a served cluster, as its API server reaches them: output, files, and programs that wait for input.

Output and files are on the disks of the machines, and are read past the kubelets' messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.container_output import Output, output_of, state_of
from controlplane.shell.files import Hardware

if TYPE_CHECKING:
    from actors import Mailbox
    from controlplane.api.tree import Tree
    from controlplane.cluster import Cluster
    from controlplane.shell.files import Disks
    from controlplane.shell.running import Life

__all__ = ["Containers"]


class Containers(Hardware):
    """The containers on all machines of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def disks(self) -> Disks:
        """The content of volumes, and what containers wrote."""
        return self._cluster.disks

    def output(self, pod: Tree, container: str, now: int, previous: bool) -> Output:
        """Return the output of a container: that of its program, or what annotations of its pod describe."""
        life = self._run_of(pod, container, previous=previous)
        if life is None:
            return output_of(pod, container, now, previous=previous)
        running = "running" in (state_of(pod, container).get("state") or {}) and not previous
        return life.output(now, ended=not running)

    def waits(self, pod: Tree, container: str) -> bool:
        """Return whether the program of a container waits for a client at its standard input."""
        life = self._run_of(pod, container)
        return life is not None and life.waits

    def kubelet(self, node: str) -> Mailbox | None:
        """Return the mailbox in which a kubelet hears of such clients; None while it needs none."""
        machine = self._cluster.machines.get(node)
        return None if machine is None else machine.attached

    def _run_of(self, pod: Tree, container: str, *, previous: bool = False) -> Life | None:
        """The run that a pod's status shows of a program that the emulated shell knows; None for other programs."""
        machine = self._cluster.machines.get(pod["spec"].get("nodeName", ""))
        state = state_of(pod, container)
        now = state.get("state") or {}
        ended = now.get("terminated") or {}
        known = state.get("containerID") if "running" in now else ended.get("containerID")
        if previous or not known:
            known = ((state.get("lastState") or {}).get("terminated") or {}).get("containerID")
        return None if machine is None or not known else machine.lives.get(known)
