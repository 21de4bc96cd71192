"""The parts of one kubelet's process, for observers outside the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from controlplane.kubelet.loops.pod_workers import PodWorkers
    from controlplane.kubelet.loops.resources import NodeResources
    from controlplane.kubelet.loops.shared import Shared


@frozen(eq=False)
class Process:
    """The shared state of the tasks, the pod workers, and the resource managers of one kubelet process."""

    shared: Shared
    workers: PodWorkers
    resources: NodeResources
