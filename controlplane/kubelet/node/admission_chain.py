"""The handlers that are asked before a pod is admitted, or resized, in upstream's order: the first rejection counts.

Upstream: the list of admit handlers of pkg/kubelet/kubelet.go. A handler that hands something out does so
when it is asked; what a later one refuses comes back when stale state is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import attrs

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.kubelet.allocation.conditions import INFEASIBLE
from controlplane.kubelet.allocation.feasibility import Feasibility
from controlplane.kubelet.allocation.manager import RESIZE, Verdict
from controlplane.kubelet.allocation.state import PodResources
from controlplane.kubelet.cm.container_manager import ContainerManager
from controlplane.kubelet.effects import FetchNode, Kill, Steps
from controlplane.kubelet.eviction.manager import EVICTED
from controlplane.kubelet.node import admission
from controlplane.kubelet.node.admission import ADMITTED, Admission, Amounts, requested
from controlplane.sharing.alike import alike

SPARE: Final = 16
"""The number of pods that are gone and remembered, besides as many as there are."""


def _no_pressure(_pod: Pod) -> str:
    return ""


@attrs.frozen
class AdmissionChain:
    """`node` is the node as it is known, `allocation` returns what is allocated to a pod."""

    node: Callable[[], Node]
    feasibility: Feasibility
    allocation: Callable[[str], PodResources | None]
    containers: ContainerManager | None = None
    scheduler_makes_room: bool = False
    """Only the scheduler makes room for resizes (KEP-5836)."""
    pressure: Callable[[Pod], str] = _no_pressure
    """Returns why the node's pressure forbids to admit a pod; "" if it does not."""
    _known: dict[str, tuple[Pod, Amounts]] = attrs.field(factory=dict)
    """The amounts that each pod counts for, by uid, with the object from which they were computed."""

    def _requested(self, pod: Pod) -> Amounts:
        """Return the amounts that another pod counts for, computed once for each object."""
        known = self._known.get(pod.uid)
        if known is None or known[0] is not pod:
            known = self._known[pod.uid] = (pod, alike(requested(pod)))
        return known[1]

    def _sanitized(self, pod: Pod) -> Node:
        """Return the node: for a pod with devices, as many are allocatable at least as are allocated."""
        node = self.node()
        devices = None if self.containers is None else self.containers.devices
        least = {} if devices is None else devices.at_least(pod)
        if not least:
            return node
        allocatable = dict(node.status.allocatable)
        for name, count in least.items():
            if name not in allocatable or allocatable[name].value() < count:
                allocatable[name] = parse(str(count))
        return attrs.evolve(node, status=attrs.evolve(node.status, allocatable=allocatable))

    def _forget_all_but(self, pods: Sequence[Pod]) -> None:
        """Now and then: what is known of pods that are gone."""
        if len(self._known) > 2 * len(pods) + SPARE:
            there = [pod.uid for pod in pods]
            kept = {uid: self._known[uid] for uid in there if uid in self._known}
            self._known.clear()
            self._known.update(kept)

    def admit(self, pod: Pod, others: Sequence[Pod], operation: str) -> Steps[Verdict]:
        """Ask about a pod beside the others."""
        if operation == RESIZE:
            promised = self.allocation(pod.uid)
            objection = "" if promised is None else self.feasibility.objection(pod, promised)
            if objection:
                return Admission(False, INFEASIBLE, objection)
        pressure = self.pressure(pod)
        if pressure:
            return Admission(False, EVICTED, pressure)
        if self.containers is not None:
            decided = yield from self.containers.admit(pod)
            if not decided.admitted:
                return decided
        self._forget_all_but(others)
        handlers = admission.HANDLERS
        if operation == RESIZE and self.scheduler_makes_room:
            handlers = admission.WITHOUT_PREEMPTION
        ask = partial(admission.admit, pod, handlers=handlers, requested=self._requested)
        found = ask(self._sanitized(pod), others)
        if found.reason == admission.NODE_AFFINITY:
            yield FetchNode()
            found = ask(self._sanitized(pod), others)
        if not found.admitted:
            return found
        for victim in found.victims:
            yield Kill(victim)
        return ADMITTED
