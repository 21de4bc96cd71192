"""One pod on its node: from the sandbox through restarts to its end.

Upstream: pkg/kubelet/pod_workers.go, kubelet.go (SyncPod, SyncTerminatingPod, SyncTerminatedPod)
and kuberuntime. A worker goes sync -> terminating -> terminated -> finished and never back. It is
notified of changes (`update`, `poke`, `kill`, `remove`) and stepped; each step answers what to do and when
to step it again. It works in syncs: each begins with the content of the pod cache, which must be
newer than the end of the sync before, reports that, and then acts on the runtime, whose present state
it does not see.

The parts of its work are objects of their own: `container_starts`, `container_resizes`, `termination`,
`reporting` and `mounting`, over one `pod_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from controlplane.api.pod import Pod
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.kubelet.allocation.actuation import Step
from controlplane.kubelet.pod import container_runtime as runtime
from controlplane.kubelet.pod import status
from controlplane.kubelet.pod.actions import Action, Event, Finished, ReconcileMirror
from controlplane.kubelet.pod.claims import PodClaims, has_claims
from controlplane.kubelet.pod.container_resizes import ContainerResizes
from controlplane.kubelet.pod.container_runtime import Sandbox
from controlplane.kubelet.pod.container_starts import ContainerStarts
from controlplane.kubelet.pod.mounting import Mounting
from controlplane.kubelet.pod.pod_state import (
    FINISHED,
    SYNC,
    TERMINATED,
    TERMINATING,
    PodServices,
    PodState,
)
from controlplane.kubelet.pod.references import volumes_of
from controlplane.kubelet.pod.reporting import StatusReports
from controlplane.kubelet.pod.status import Condition, ContainerReport
from controlplane.kubelet.pod.termination import Termination

DEADLINE_STATUS: Final = {
    "phase": "Failed",
    "reason": "DeadlineExceeded",
    "message": "Pod was active on the node longer than the specified deadline",
}


class PodWorker:
    """The state machine of one admitted pod.

    `sandbox` is the runtime's part of it that exists already (after a restart of the kubelet), `reported` the
    status that the kubelet has for it already (of a pod that it rejected, say); `ip` is the address the pod gets
    once its sandbox stands.
    """

    __slots__ = (
        "_asked",
        "_busy",
        "_mounting",
        "_newer",
        "_reports",
        "_resizes",
        "_starts",
        "_state",
        "_synced_at",
        "_termination",
        "_unmounting",
        "claims",
        "waits_for_cache",
    )

    def __init__(
        self,
        pod: Pod,
        now: int,
        services: PodServices,
        *,
        ip: str = "",
        sandbox: Sandbox | None = None,
        reported: Tree | None = None,
    ) -> None:
        ip = services.host_ip if pod.spec.host_network else ip
        self._state = state = PodState(pod, sandbox or Sandbox(pod.uid, ip), services)
        self._starts = ContainerStarts(state)
        self._termination = Termination(state)
        self._resizes = ContainerResizes(state, self._termination)
        self._reports = StatusReports(state, pod.status.start_time or now, reported)
        self._mounting: Mounting | None = None
        if volumes_of(pod):
            self._mounting = Mounting(pod, state.find, services.volumes, services.tokens)
        self.claims: PodClaims | None = None
        """The preparing of the claims of the pod; None if it has none."""
        if services.claims is not None and has_claims(pod):
            self.claims = PodClaims(prepared=state.sandbox.ready_at is not None)
        self._unmounting = False
        self._newer: Pod | None = None
        self._asked = True
        self._busy = False
        self._synced_at: int | None = None
        self.waits_for_cache = False
        """The next sync waits for a newer entry of the pod cache."""
        ended = pod.status.phase in status.TERMINAL and not state.sandbox.running()
        if ended and not services.terminal_first:
            state.phase = TERMINATED

    @property
    def pod(self) -> Pod:
        """The object that the worker goes by."""
        return self._state.pod

    @property
    def told(self) -> Pod | None:
        """The object of the last update that was taken."""
        return self._newer

    @property
    def sandbox(self) -> Sandbox:
        """The runtime's part of the pod."""
        return self._state.sandbox

    @property
    def phase(self) -> str:
        """The phase of life: sync, terminating, terminated or finished."""
        return self._state.phase

    @property
    def uid(self) -> str:
        """The pod's uid: workers are known by it, not by name."""
        return self._state.uid

    @property
    def reported(self) -> Tree | None:
        """The status told last."""
        return self._reports.reported

    @property
    def removed(self) -> bool:
        """Return whether the object is gone from the API server."""
        return self._reports.silent

    @property
    def active(self) -> bool:
        """Return whether the pod still counts for admission of others (its containers may run)."""
        return self._state.phase in (SYNC, TERMINATING)

    @property
    def terminating(self) -> bool:
        """Return whether its end was asked for, or has come."""
        return self._state.phase != SYNC

    @property
    def finished(self) -> bool:
        """Return whether nothing of it is left on the node."""
        return self._state.phase == FINISHED and not self._state.sandbox.running()

    def reports(self) -> list[ContainerReport]:
        """Return the containers as the kubelet sees them."""
        return self._reports.containers()

    # -- notifications ---------------------------------------------------------------------------

    def update(self, pod: Pod, now: int) -> None:
        """A newer object of the same uid: the next sync goes by it. A deletion can shorten the grace period.

        A pod that is to be deleted, or of which the API server says that it has ended, is stopped.
        """
        self._newer = pod
        self._asked = True
        if pod.metadata.deletion_timestamp is not None or pod.status.phase in status.TERMINAL:
            self._state.pod = pod
            self._terminate(now, None)

    def agreed(self, told: Tree, shown: Tree) -> None:
        """The API server shows the reported status (`told`): if it is the last one, the equal tree is kept instead."""
        if self._reports.reported is told:
            self._reports.reported = shown

    def resync_due(self, now: int) -> bool:
        """Return True once when it is time for a sync after one that could not prepare the claims.

        The sync loop begins it, with the pod as it is known by then.
        """
        claims = self.claims
        if claims is None or self._state.phase != SYNC or claims.again_at is None:
            return False
        if claims.again_at > now:
            return False
        claims.again_at = None
        return True

    def poke(self) -> None:
        """Something about its containers or probes changed: sync."""
        self._asked = True

    def kill(
        self,
        now: int,
        override: Mapping[str, str],
        *,
        grace_ns: int | None = None,
        condition: Condition | None = None,
    ) -> None:
        """End the pod for the node's own reasons (eviction, preemption, shutdown)."""
        if self.active:
            self._reports.override = override
            if condition is not None:
                self._reports.extra = (condition,)
            self._terminate(now, grace_ns)

    def remove(self, now: int) -> None:
        """The object is gone (grace 0): containers are stopped, nothing is reported any more."""
        self._reports.silent = True
        self._terminate(now, None)

    def apply(self, pod: Pod, step: Step, now: int, happens: Callable[[], bool]) -> bool:
        """Take one step of a resize; see `ContainerResizes.apply`."""
        return self._resizes.apply(pod, step, now, happens)

    def _terminate(self, now: int, grace_ns: int | None) -> None:
        """Begin to stop, or shorten the time that is left to stop. A sync under way is cancelled."""
        syncs = self._busy and self._state.phase == SYNC
        if self.claims is not None and self._state.phase == SYNC:
            self.claims.ends()
        if self._termination.begin(now, grace_ns) and syncs:
            self._end_sync(now)

    # -- syncs -----------------------------------------------------------------------------------

    def step(self, now: int) -> tuple[list[Action], int | None]:
        """Return the actions to take now, in order, and the time of the next step (None: only after a change)."""
        actions: list[Action] = []
        while self._advance(now, actions):
            pass
        return actions, self._next_deadline(now)

    def _advance(self, now: int, actions: list[Action]) -> bool:
        """Do one thing whose time has come; False when there is none."""
        self.waits_for_cache = False
        phase = self._state.phase
        if phase == FINISHED or self._waits_for_unmount():
            return False
        if self._busy:
            return self._go_on(now, actions)
        if phase == SYNC and not self._asked and not self._is_due(now):
            return False
        # A sync decides by the cache. An entry older than the end of the last sync does not have its work yet:
        # deciding by it would start a container twice.
        last = self._synced_at
        if last is not None and not self._state.services.cache.newer_than(self.uid, last, now):
            self.waits_for_cache = True
            return False
        self._begin_sync(now, actions)
        return True

    def _begin_sync(self, now: int, actions: list[Action]) -> None:
        state = self._state
        self._asked = False
        self._starts.look_again_at = None
        state.pod = self._newer or state.pod
        state.take_ephemeral()
        entry = state.services.cache.get(state.uid)
        state.take_in(entry, actions, first=self._synced_at is None)
        if state.phase == TERMINATED:
            self._sync_terminated(now, actions)
            return
        if state.phase == SYNC and not self._sync(now, actions):
            self._end_sync(now)
            self._terminate(now, None)
            return
        if state.phase == TERMINATING:
            self._reports.report(now, actions)
        elif state.is_static:
            actions.append(ReconcileMirror(state.pod))
        self._busy = True

    def _sync(self, now: int, actions: list[Action]) -> bool:
        """Begin SyncPod; return whether there is anything to be done, the pod not having ended.

        The status is told before the sync acts: the containers that it starts show in the next one.
        """
        state, resizing = self._state, self._state.services.resizing
        if resizing is not None:
            state.pod = resizing.at_sync(state.pod)
            resizing.judge(state.pod, state.runs, now)
        deadline = self._deadline()
        if deadline is not None and deadline <= now:
            self._reports.override = DEADLINE_STATUS
            actions.append(Event("Normal", "DeadlineExceeded", DEADLINE_STATUS["message"]))
        self._reports.report(now, actions)
        self._starts.forget()
        return not self._reports.ended

    def _go_on(self, now: int, actions: list[Action]) -> bool:
        """Take the next action of the sync that is under way; False while it waits.

        The order is upstream's: volumes, claims, sandbox, containers to kill, resizes, containers to start.
        """
        state = self._state
        if state.phase == TERMINATING:
            return self._advance_termination(now, actions)
        if self._mounting is not None:
            for message in self._mounting.advance(state.pod, now):
                actions.append(Event("Warning", "FailedMount", message))
            if not self._mounting.done:
                return False
        sandbox = state.sandbox
        if sandbox.ready_at is None and self.claims is not None:
            prepared = self.claims.prepare(state.pod, now, actions)
            if prepared is None:
                return False
            if not prepared:
                self._end_sync(now)
                return True
        if sandbox.ready_at is None:
            sandbox.ready_at = now + state.services.durations(runtime.SANDBOX, state.pod.name)
        if not sandbox.ready(now):
            return False
        if not self._starts.planned:
            self._termination.restart_unhealthy(now, actions)
            self._resizes.begin(now, actions)
            self._starts.plan(now)
        if not self._termination.killed(now, actions) or not self._starts.advance(now, actions):
            return False
        self._end_sync(now)
        return True

    def _advance_termination(self, now: int, actions: list[Action]) -> bool:
        """Stop containers; when none runs any more, report that and be terminated."""
        if not self._termination.advance(now, actions):
            return False
        # Before the end is told: the scheduler may give the devices to others as soon as it is.
        if self.claims is not None and not self.claims.unprepare(self._state.pod, now, actions):
            return False
        self._reports.report(now, actions, stopped=True)
        self._end_sync(now)
        self._state.phase = TERMINATED
        return True

    def _sync_terminated(self, now: int, actions: list[Action]) -> None:
        """Nothing runs any more: the last status, and the object may go once its volumes are unmounted."""
        self._reports.report(now, actions)
        if not self._unmounting and self._state.services.volumes is not None:
            self._unmounting = True
            if self._waits_for_unmount():
                return
        if not self.removed:
            actions.append(Finished(self.uid))
        self._state.phase = FINISHED

    def _waits_for_unmount(self) -> bool:
        """Return whether an ended pod's volumes are still mounted: its object stays until they are not."""
        volumes = self._state.services.volumes
        if not self._unmounting or volumes is None:
            return False
        return not volumes.released(self.uid)

    def _end_sync(self, now: int) -> None:
        self._busy = False
        self._starts.forget()
        self._synced_at = now

    # -- times -----------------------------------------------------------------------------------

    def _deadline(self) -> int | None:
        seconds = self._state.pod.spec.active_deadline_seconds
        return None if seconds is None else self._reports.start_time + seconds * SECOND

    def _timers(self, now: int) -> list[int | None]:
        """Return the times of the next periodic syncs."""
        return [self._resizes.again_at, self._deadline(), *self._starts.timers(now)]

    def _is_due(self, now: int) -> bool:
        """Return whether a periodic sync is due."""
        return any(time is not None and time <= now for time in self._timers(now))

    @property
    def only_recurs(self) -> bool:
        """Return whether the next step is only one more of a container's ever same restarts."""
        claims = self.claims
        if claims is not None and claims.again_at is not None:
            if not claims.lasts:
                return False
            if self._state.phase == TERMINATING:
                return not self._state.sandbox.running()
        return (
            self._state.phase == SYNC
            and not (self._busy or self._asked)
            and self._resizes.again_at is None
            and self._deadline() is None
            and self._starts.only_recurs()
        )

    def _next_deadline(self, now: int) -> int | None:
        state = self._state
        if state.phase == FINISHED or self.waits_for_cache or self._waits_for_unmount():
            return None
        containers = state.containers.values()
        if not self._busy:
            if state.phase != SYNC or self._asked:
                return now
            claims = None if self.claims is None else self.claims.again_at
            times = [claims, *self._timers(now)]
        elif state.phase == SYNC:
            times = [state.sandbox.ready_at]
            if self._mounting is not None:
                times.append(self._mounting.next_try(state.pod, now))
            for each in containers:
                times.append(each.due)
                times.append(each.container.ends_at if each.restarts else None)
        else:
            times = [each.container.ends_at for each in containers]
            times.append(None if self.claims is None else self.claims.again_at)
        return min((time for time in times if time is not None and time > now), default=None)
