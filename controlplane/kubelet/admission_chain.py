"""Who is asked before a pod is taken, or resized, in upstream's order: the first refusal counts.

Upstream: the list of admit handlers of pkg/kubelet/kubelet.go. A handler that hands something out does so
when it is asked; what a later one refuses comes back when stale state is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.kubelet import admission
from controlplane.kubelet.admission import ADMITTED, Admission
from controlplane.kubelet.allocation.conditions import INFEASIBLE
from controlplane.kubelet.allocation.feasibility import Feasibility
from controlplane.kubelet.allocation.manager import RESIZE, Verdict
from controlplane.kubelet.allocation.state import PodResources
from controlplane.kubelet.cm.container_manager import ContainerManager
from controlplane.kubelet.steps import FetchNode, Kill, Steps


@attrs.frozen
class AdmissionChain:
    """`node` is the node as it is known, `allocation` what a pod was promised."""

    node: Callable[[], Node]
    feasibility: Feasibility
    allocation: Callable[[str], PodResources | None]
    containers: ContainerManager | None = None

    def admit(self, pod: Pod, others: Sequence[Pod], operation: str) -> Steps[Verdict]:
        """Ask about a pod beside the others."""
        if operation == RESIZE:
            promised = self.allocation(pod.uid)
            objection = "" if promised is None else self.feasibility.objection(pod, promised)
            if objection:
                return Admission(False, INFEASIBLE, objection)
        if self.containers is not None:
            decided = yield from self.containers.admit(pod)
            if not decided.admitted:
                return decided
        found = admission.admit(pod, self.node(), others)
        if found.reason == admission.NODE_AFFINITY:
            yield FetchNode()
            found = admission.admit(pod, self.node(), others)
        if not found.admitted:
            return found
        for victim in found.victims:
            yield Kill(victim)
        return ADMITTED
