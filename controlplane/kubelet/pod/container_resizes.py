"""Resizes of running containers, as a sync of their pod carries them out.

Upstream: kuberuntime (doPodResizeAction, updatePodContainerResources).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from controlplane.kubelet.allocation.actuation import (
    ContainerStep,
    PodStep,
    Step,
    memory_objection,
    restart_message,
)
from controlplane.kubelet.pod import container_runtime as runtime
from controlplane.kubelet.pod.actions import Action, Resize
from controlplane.kubelet.pod.pod_state import RETRY, SYNC, PodState
from controlplane.kubelet.pod.termination import Termination

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.kubelet.allocation.state import PodResources


class ContainerResizes:
    """Gives the running containers of one pod the resources that are allocated to it."""

    __slots__ = ("_even", "_state", "_termination", "again_at")

    def __init__(self, state: PodState, termination: Termination) -> None:
        self._state = state
        self._termination = termination
        self.again_at: int | None = None
        """The time of the next try after one that failed."""
        # The pod, its allocation and its running containers, when there was nothing to do.
        self._even: tuple[Pod | None, PodResources | None, tuple[str, ...]] = (None, None, ())

    def begin(self, now: int, actions: list[Action]) -> None:
        """Restart the containers that cannot be resized as they run, and ask for the resize of the others."""
        state, resizing = self._state, self._state.services.resizing
        if resizing is None or (self.again_at is not None and now < self.again_at):
            return
        self.again_at = None
        actuated = resizing.actuated.get(state.uid)
        running = tuple(name for name, each in state.containers.items() if each.running)
        even = self._even
        if even[0] is state.pod and even[1] is actuated and even[2] == running:
            return
        plan = resizing.plan(state.pod, state.runs)
        if not (plan.steps or plan.restarts):
            self._even = (state.pod, actuated, running)
        for name in plan.restarts:
            each = state.containers[name]
            if not each.restarts:
                self._termination.restart(each, restart_message(name), now, actions)
        if not plan.steps:
            return
        objection = memory_objection(plan, self._usage)
        if objection:
            resizing.failed(state.pod, objection, now)
            self.again_at = now + RETRY
            return
        # Upstream sets the status before it changes anything, and looks again afterwards.
        actions.append(Resize(state.pod, plan))

    def apply(self, pod: Pod, step: Step, now: int, happens: Callable[[], bool]) -> bool:
        """Take one step of a resize; False when it failed, or the pod is to end: the others are not taken then.

        A failure is reported in the condition PodResizeInProgress, and the whole is tried again later;
        steps that were taken stay taken. `happens` decides where the pod leaves it open whether the runtime
        refuses (see `container_runtime.refuses_update`).
        """
        state, resizing = self._state, self._state.services.resizing
        if resizing is None or state.phase != SYNC:
            return False
        name = step.container if isinstance(step, ContainerStep) else ""
        if name and not state.runs(name):
            return False
        refused = state.sandbox.refusals(name)
        if runtime.refuses_update(pod, name, refused, happens):
            state.sandbox.refused = {**(state.sandbox.refused or {}), name: refused + 1}
            error = "the emulated runtime refuses the update"
            if isinstance(step, PodStep):
                error = (
                    "failed to notify runtime for UpdatePodSandboxResources "
                    f"(resource={step.resource}); resize rejected: {error}"
                )
            resizing.failed(pod, error, now)
            self.again_at = now + RETRY
            return False
        if isinstance(step, ContainerStep):
            state.containers[name].container.resources = resizing.updated(pod, step)
        return True

    def _usage(self, name: str) -> int:
        """The memory that a container uses, or ("") the pod, in bytes."""
        state = self._state
        if name:
            return runtime.memory_usage(state.pod, name)
        return sum(
            runtime.memory_usage(state.pod, each.spec.name)
            for each in state.containers.values()
            if each.running
        )
