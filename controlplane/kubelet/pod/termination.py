"""The end of a pod: its grace period, and the order in which its containers stop.

Upstream: pkg/kubelet/pod_workers.go (calculateEffectiveGracePeriod), kubelet.go (SyncTerminatingPod) and
kuberuntime (killContainersWithSyncResult).
"""

from __future__ import annotations

from typing import Final

from controlplane.api.times import SECOND
from controlplane.kubelet.pod import container_runtime as runtime
from controlplane.kubelet.pod.actions import Action, Event
from controlplane.kubelet.pod.container_runtime import LIVENESS, STARTUP
from controlplane.kubelet.pod.pod_state import SYNC, TERMINATING, ContainerState, PodState
from controlplane.kubelet.pod.status import SIDECAR

MINIMUM_GRACE: Final = SECOND
DEFAULT_GRACE_SECONDS: Final = 30


class Termination:
    """Stops the containers of one pod: all of them for good, or one so that it starts anew."""

    __slots__ = ("_grace", "_state")

    def __init__(self, state: PodState) -> None:
        self._state = state
        self._grace: int | None = None

    def begin(self, now: int, grace_ns: int | None) -> bool:
        """Begin to stop, or shorten the time that is left to stop; return whether anything changed."""
        state = self._state
        if state.phase not in (SYNC, TERMINATING):
            return False
        grace = self._grace_period(grace_ns)
        if state.phase == TERMINATING and grace >= (self._grace or 0):
            return False
        state.phase = TERMINATING
        self._grace = grace
        for each in state.containers.values():
            each.stage = ""
            each.due = None
            each.waits_until = None
            if each.asked_to_stop:
                self._stop(each, now, grace)
        return True

    def _grace_period(self, override: int | None) -> int:
        """Deletion and kill may lower it; the spec's value counts when neither says anything."""
        pod = self._state.pod
        given = [] if self._grace is None else [self._grace]
        seconds = pod.metadata.deletion_grace_period_seconds
        if seconds is not None:
            given.append(seconds * SECOND)
        if override is not None:
            given.append(override)
        if not given:
            spec = pod.spec.termination_grace_period_seconds
            given.append((DEFAULT_GRACE_SECONDS if spec is None else spec) * SECOND)
        return max(MINIMUM_GRACE, min(given))

    def _stop(self, each: ContainerState, now: int, grace: int) -> None:
        takes = self._state.services.durations(runtime.STOP, each.spec.name)
        each.container.stop(now, grace, takes)

    def advance(self, now: int, actions: list[Action]) -> bool:
        """Stop containers, sidecars last and in reverse order; return whether all have stopped."""
        assert self._grace is not None
        for each in self._state.containers.values():
            each.container.settle(now)
            each.take_truth(actions)
        running = [each for each in self._state.containers.values() if each.runs]
        others = [each for each in running if each.role != SIDECAR]
        for each in others or running[-1:]:
            if not each.asked_to_stop:
                each.asked_to_stop = True
                message = f"Stopping container {each.spec.name}"
                actions.append(Event("Normal", "Killing", message, each.spec.name))
                self._stop(each, now, self._grace)
        return not running

    # -- restarts of one container -----------------------------------------------------------------

    def restart(self, each: ContainerState, message: str, now: int, actions: list[Action]) -> None:
        """Kill a container so that it starts anew."""
        each.restarts = True
        actions.append(Event("Normal", "Killing", message, each.spec.name))
        self._stop(each, now, self._grace_period(None))

    def restart_unhealthy(self, now: int, actions: list[Action]) -> None:
        """Kill containers that a probe gave up on, to be started anew."""
        probes = self._state.services.probes
        for name, each in self._state.containers.items():
            if not each.running or each.restarts:
                continue
            for kind in (LIVENESS, STARTUP):
                if probes.get(kind, each.seen.container_id) is False:
                    message = f"Container {name} failed {kind} probe, will be restarted"
                    self.restart(each, message, now, actions)
                    break

    def killed(self, now: int, actions: list[Action]) -> bool:
        """Return whether containers that are to start anew have stopped; the runtime says so at once."""
        for each in self._state.containers.values():
            if each.restarts:
                each.container.settle(now)
                if each.runs:
                    return False
                each.take_truth(actions)
        return True
