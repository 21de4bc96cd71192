"""A pod's resources on their way from allocated to actual, as its worker sees them.

Upstream: the resize parts of SyncPod (pkg/kubelet/kubelet.go) and of the runtime manager. What was
actuated is written to a file before a container is made and after each update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from controlplane.api.pod import Pod
from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.decisions import Content
from controlplane.kubelet.allocation import actuation, events
from controlplane.kubelet.allocation.conditions import (
    DEFERRED,
    DISABLED_BY_NODE,
    ERROR,
    PREEMPTION_DISABLED,
    ResizeConditions,
)
from controlplane.kubelet.allocation.events import ResizeEvent
from controlplane.kubelet.allocation.state import (
    ACTUATED,
    PodResources,
    PodResourceState,
    canonical,
    container_trees,
    desired,
    with_resources,
)
from controlplane.kubelet.features import Features

GATE: Final = "132851"
POD_LEVEL_GATE: Final = "InPlacePodLevelResourcesVerticalScaling"
Running = Callable[[str], bool]
"""Returns whether the container with this name runs."""


def _never_forbidden() -> str:
    return ""


@attrs.define
class Resizing:
    """State that the workers of one kubelet share about resizes.

    `allocation` returns what is allocated to a pod by now, `write` leaves a file, `record` reports an event.

    Gate 132851 (open upstream). A worker has the pod with the allocation of the moment at which its
    update was queued. Unfixed, whether a resize is over is judged by that one: it can be reported
    as complete although more was allocated meanwhile. The proposal reads the current allocation for that; since
    an outdated allocation would still be carried out then, here the whole sync goes by it.
    """

    features: Features
    conditions: ResizeConditions
    allocation: Callable[[str], PodResources | None]
    record: Callable[[ResizeEvent], None]
    write: Callable[[str, Content], None]
    asks_again: bool = False
    wanted: Callable[[str], Pod | None] | None = None
    """Without fix 126033: the pod with the resources of its spec, even if others are allocated."""
    forbidden: Callable[[], str] = _never_forbidden
    """The node's name while it wants no preemption for resizes, and the kubelet is to say so (KEP-5836)."""
    actuated: PodResourceState = attrs.field(factory=PodResourceState)

    def at_sync(self, pod: Pod) -> Pod:
        """The pod that a sync goes by: as it was queued, or with its current allocation."""
        return with_resources(pod, self.allocation(pod.uid)) if self.asks_again else pod

    def judge(self, pod: Pod, running: Running, now: int) -> None:
        """At the start of a sync: whether a resize is under way, or over."""
        generation = pod.metadata.generation or 0
        if actuation.in_progress(pod, self.actuated.get(pod.uid), running, self.features):
            self.conditions.set_in_progress(pod.uid, "", "", generation, now)
            return
        cleared = self.conditions.clear_in_progress(pod.uid)
        if cleared is not None:
            self.record(events.completed(pod, cleared.observed_generation, self.features))

    def plan(self, pod: Pod, running: Running) -> actuation.Plan:
        """Return the actions for the pod's running containers."""
        return actuation.plan(pod, self.actuated.get(pod.uid), running, self.features)

    def failed(self, pod: Pod, message: str, now: int) -> None:
        """A step of the actuation failed: it will be tried again."""
        generation = pod.metadata.generation or 0
        if self.conditions.set_in_progress(pod.uid, ERROR, message, generation, now):
            self.record(events.failed(pod, message, generation, self.features))

    def updated(self, pod: Pod, step: actuation.ContainerStep) -> Tree:
        """The runtime took an update: the container's new resources."""
        actuated = actuation.actuated_after(pod, self.actuated.get(pod.uid), step)
        self._actuate(pod, actuated)
        return actuated.containers[step.container]

    def promised_whole(self, pod: Pod) -> Tree | None:
        """Return the allocation of the pod as a whole; None when it has none, or it cannot be resized."""
        if not self.features.enabled(POD_LEVEL_GATE):
            return None
        promised = self.allocation(pod.uid)
        return None if promised is None else promised.pod_level

    def whole(self, pod: Pod) -> Tree | None:
        """Return the resources of the pod as a whole: the allocated ones, until its first container is made."""
        promised = self.promised_whole(pod)
        actuated = self.actuated.get(pod.uid)
        return promised if promised is None or actuated is None else actuated.pod_level

    def finished(self, pod: Pod) -> bool:
        """All steps of a plan were taken: whether the pod as a whole has other resources now."""
        before = self.actuated.get(pod.uid)
        known = self.actuated.get(pod.uid) or PodResources({})
        self._actuate(pod, attrs.evolve(known, pod_level=desired(pod, self.features).pod_level))
        return before is None or before.pod_level != self.actuated.entries[pod.uid].pod_level

    def create(self, pod: Pod, container: str) -> Tree:
        """A container is about to be made with its allocation; return its resources.

        Gate 126033 (in-place resize while it was alpha). Unfixed, it is made with what the pod's spec
        asks for, although that has been deferred or found infeasible, and the kubelet believes that it
        has what it was promised.
        """
        promised = desired(pod, self.features)
        found = promised.containers.get(container)
        if found is None:  # an init container that cannot be resized
            return canonical(container_trees(pod)[container].get("resources"))
        known = self.actuated.get(pod.uid)
        containers = {} if known is None else dict(known.containers)
        level = promised.pod_level if known is None else known.pod_level
        given = PodResources({**containers, container: found}, level)
        self._actuate(pod, promised if given == promised else given)
        asked = None if self.wanted is None else self.wanted(pod.uid)
        if asked is not None:
            return desired(asked, self.features).containers[container]
        return found

    def _actuate(self, pod: Pod, actuated: PodResources) -> None:
        if actuated != self.actuated.get(pod.uid):
            self.actuated = self.actuated.with_pod(pod.uid, actuated)
            self.write(ACTUATED, self.actuated)

    def forget(self, uid: str) -> None:
        """The pod is gone. Only memory: the file catches up with the next write."""
        self.actuated = self.actuated.without(uid)
        self.conditions.forget(uid)

    def trees(self, uid: str) -> list[Tree]:
        """The pod's resize conditions for its status."""
        found = []
        for each in self.conditions.of(uid):
            tree: Tree = {
                "type": each.type,
                "status": "True",
                "lastProbeTime": format_time(each.probe_ns),
                "lastTransitionTime": format_time(each.transition_ns),
            }
            if each.observed_generation:
                tree["observedGeneration"] = each.observed_generation
            if each.reason:
                tree["reason"] = each.reason
            if each.message:
                tree["message"] = each.message
            found.append(tree)
            node = self.forbidden() if each.reason == DEFERRED else ""
            if node:
                message = (
                    "Preemption for in-place pod resize is disabled on node "
                    f"'{node}' by preemption policy."
                )
                found.append(
                    {
                        "type": PREEMPTION_DISABLED,
                        "status": "True",
                        "lastTransitionTime": format_time(each.transition_ns),
                        "reason": DISABLED_BY_NODE,
                        "message": message,
                    }
                )
        return found
