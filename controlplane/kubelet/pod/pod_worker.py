"""One pod on its node: from the sandbox through restarts to its end.

Upstream: pkg/kubelet/pod_workers.go, kubelet.go (SyncPod, SyncTerminatingPod, SyncTerminatedPod)
and kuberuntime. A worker goes sync -> terminating -> terminated -> finished and never back. It is
notified of changes (`update`, `poke`, `kill`, `remove`) and stepped; each step answers what to do and when
to step it again. It works in syncs: each begins with what the pod cache knows by then, which must be
newer than the end of the sync before, reports that, and then acts on the runtime, whose present state
it does not see. Images are pulled and containers started one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Literal

import attrs

from controlplane.api.alike import alike_list
from controlplane.api.compact import compact
from controlplane.api.containers import Container as ContainerSpec
from controlplane.api.pod import Pod
from controlplane.api.times import MILLISECOND, SECOND
from controlplane.api.tree import Tree
from controlplane.kubelet.allocation.actuation import (
    ContainerStep,
    Plan,
    PodStep,
    Step,
    memory_objection,
    restart_message,
)
from controlplane.kubelet.allocation.state import PodResources, container_trees
from controlplane.kubelet.pod import container_runtime as runtime
from controlplane.kubelet.pod import status
from controlplane.kubelet.pod.container_runtime import (
    LIVENESS,
    NOT_SEEN,
    READINESS,
    STARTUP,
    Container,
    Durations,
    Exit,
    Sandbox,
    Seen,
)
from controlplane.kubelet.pod.mounting import Mounting, Retry, Volumes
from controlplane.kubelet.pod.pleg import PodCache
from controlplane.kubelet.pod.preemption import is_static
from controlplane.kubelet.pod.prober import Results
from controlplane.kubelet.pod.references import Find, environment_error, volumes_of
from controlplane.kubelet.pod.resizing import Resizing
from controlplane.kubelet.pod.restarts import BackOff, may_restart
from controlplane.kubelet.pod.status import APP, INIT, SIDECAR, Condition, ContainerReport

SYNC: Final = "sync"
TERMINATING: Final = "terminating"
TERMINATED: Final = "terminated"
FINISHED: Final = "finished"

MINIMUM_GRACE: Final = SECOND
DEFAULT_GRACE_SECONDS: Final = 30
RETRY: Final = 10 * SECOND
"""The delay of the next sync after one that failed."""
DEADLINE_STATUS: Final = {
    "phase": "Failed",
    "reason": "DeadlineExceeded",
    "message": "Pod was active on the node longer than the specified deadline",
}
_GONE: Final = "The container could not be located when the pod was terminated"


@attrs.frozen
class SetStatus:
    """Patch the status of the pod; `uid` guards against a pod recreated under the same name."""

    uid: str
    status: Tree


@attrs.frozen
class Finished:
    """Nothing of the pod is left on the node: the object may be deleted once that is asked for."""

    uid: str


@attrs.frozen
class Event:
    """An event about the pod, or about one of its containers."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    container: str = ""


@attrs.frozen
class Made:
    """A container was made and runs."""

    container: str
    container_id: str


@attrs.frozen
class Ended:
    """A container has stopped."""

    container_id: str


@attrs.frozen
class Resize:
    """Bring running containers to the allocation of the pod as this sync has it: step by step (`apply`)."""

    pod: Pod
    plan: Plan


@attrs.frozen
class ReconcileMirror:
    """Let the API server show this version of a static pod."""

    pod: Pod


Action = SetStatus | Finished | Event | Made | Ended | Resize | ReconcileMirror


@attrs.define
class _Slot:
    """The kubelet's memory of one container; the runtime's is `container`, what is known of it `seen`."""

    spec: ContainerSpec
    role: str
    container: Container
    seen: Seen = NOT_SEEN
    stage: str = ""
    """"pull" or "start" while the container is being brought up."""
    due: int | None = None
    back_off: BackOff | None = None
    """Of one that has ended before."""
    waits_until: int | None = None
    pull_ns: int = 0
    asked_to_stop: bool = False
    restarts: bool = False
    """The pod is killed so that it starts anew."""
    unmade: Retry | None = None
    """The reason why it could not be made, until it is."""

    @property
    def running(self) -> bool:
        """As far as is known."""
        return self.seen.running_since is not None

    @property
    def runs(self) -> bool:
        """In the runtime."""
        return self.container.running_since is not None


def _any_cpus(_uid: str, _container: str) -> tuple[str, bool]:
    return "", False


def _anything(_resource: str, _name: str) -> Tree:
    return {}


class PodWorker:
    """The state machine of one admitted pod.

    `sandbox` is what the runtime already has of it (after a restart of the kubelet), `reported` the
    status that the kubelet has for it already (of a pod that it rejected, say). `durations` says how
    long things take; `ip` is the address the pod gets once its sandbox stands; `cpus` says on which CPUs
    a container (by pod uid and name) is made to run, and whether they are its own; `find` gives the
    objects that the pod names; `cache` is what is known of containers, `probes` what probes found.
    `terminal_first`: a pod that has ended before its first sync goes through termination like others.
    `volumes` looks after what CSI drivers of the node give it.
    """

    __slots__ = (
        "_again_at", "_asked", "_busy", "_cache", "_cpus", "_even", "_extra", "_final", "_find", "_grace",
        "_look_again_at", "_mounting", "_newer", "_override", "_plan", "_probes", "_removed", "_reported",
        "_resizing", "_slots", "_static", "_synced_at", "_unmounting", "_volumes", "durations", "host_ip", "phase",
        "pod", "sandbox", "start_time", "waits_for_cache",
    )  # fmt: skip

    def __init__(
        self,
        pod: Pod,
        now: int,
        durations: Durations,
        *,
        ip: str = "",
        host_ip: str = "",
        sandbox: Sandbox | None = None,
        reported: Tree | None = None,
        resizing: Resizing | None = None,
        cpus: Callable[[str, str], tuple[str, bool]] = _any_cpus,
        find: Find = _anything,
        cache: PodCache,
        probes: Results | None = None,
        terminal_first: bool = False,
        volumes: Volumes | None = None,
    ) -> None:
        self.pod = pod
        self.phase = SYNC
        self._static = is_static(pod)
        self.waits_for_cache = False
        """The next sync waits for a newer entry of the pod cache."""
        self.start_time = pod.status.start_time or now
        self.durations = durations
        self.host_ip = host_ip
        self.sandbox = sandbox or Sandbox(pod.uid, host_ip if pod.spec.host_network else ip)
        self._reported = reported
        self._resizing = resizing
        self._cpus = cpus
        self._find = find
        self._volumes = volumes
        self._mounting = Mounting(pod, find, volumes) if volumes_of(pod) else None
        self._unmounting = False
        self._cache = cache
        self._probes = probes or Results()
        self._newer: Pod | None = None
        self._asked = True
        self._busy = False
        self._synced_at: int | None = None
        self._look_again_at: int | None = None
        self._plan: deque[_Slot] | None = None
        self._again_at: int | None = None
        # The pod, its allocation and its running containers, when there was nothing to do.
        self._even: tuple[Pod | None, PodResources | None, tuple[str, ...]] = (None, None, ())
        self._override: Mapping[str, str] | None = None
        self._extra: tuple[Condition, ...] = ()
        self._grace: int | None = None
        self._removed = False
        self._final = False
        self._slots = self._make_slots()
        ended = pod.status.phase in status.TERMINAL and not self.sandbox.running()
        if ended and not terminal_first:
            self.phase = TERMINATED

    @property
    def uid(self) -> str:
        """The pod's uid: workers are known by it, not by name."""
        return self.sandbox.uid

    @property
    def removed(self) -> bool:
        """Return whether the object is gone from the API server."""
        return self._removed

    @property
    def active(self) -> bool:
        """Return whether the pod still counts for admission of others (its containers may run)."""
        return self.phase in (SYNC, TERMINATING)

    @property
    def terminating(self) -> bool:
        """Return whether its end was asked for, or has come."""
        return self.phase != SYNC

    @property
    def finished(self) -> bool:
        """Return whether nothing of it is left on the node."""
        return self.phase == FINISHED and not self.sandbox.running()

    def update(self, pod: Pod, now: int) -> None:
        """A newer object of the same uid: the next sync goes by it. A deletion can shorten the grace period."""
        self._newer = pod
        self._asked = True
        if pod.metadata.deletion_timestamp is not None:
            self.pod = pod
            self._terminate(now, None)

    def agreed(self, told: Tree, shown: Tree) -> None:
        """The API server shows the reported status (`told`): if it is the last one, the equal tree is kept instead."""
        if self._reported is told:
            self._reported = shown

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
        """Ends the pod for the node's own reasons (eviction, preemption, shutdown)."""
        if self.phase in (SYNC, TERMINATING):
            self._override = override
            if condition is not None:
                self._extra = (condition,)
            self._terminate(now, grace_ns)

    def remove(self, now: int) -> None:
        """The object is gone (grace 0): containers are stopped, nothing is reported any more."""
        self._removed = True
        if self.phase in (SYNC, TERMINATING):
            self._terminate(now, None)

    def step(self, now: int) -> tuple[list[Action], int | None]:
        """Return the actions to take now, in order, and the time of the next step (None: only after a change)."""
        actions: list[Action] = []
        while self._advance(now, actions):
            pass
        return actions, self._next_deadline(now)

    # -- preparation ---------------------------------------------------------------------------

    def _make_slots(self) -> dict[str, _Slot]:
        spec = self.pod.spec
        of_job = any(owner.kind == "Job" for owner in self.pod.metadata.owner_references)
        slots: dict[str, _Slot] = {}
        containers = dict(self.sandbox.containers)
        for item in (*spec.init_containers, *spec.containers):
            role = APP
            if len(slots) < len(spec.init_containers):
                role = SIDECAR if item.restart_policy == "Always" else INIT
            container = containers.get(item.name)
            if container is None:
                ends = role == INIT or (role == APP and of_job)
                program = runtime.program(self.pod, item.name, ends=ends, durations=self.durations)
                container = Container(item.name, item.image, program)
                containers[item.name] = container
            slots[item.name] = _Slot(item, role, container)
        self.sandbox.containers = compact(containers)
        return compact(slots)

    # -- syncs ---------------------------------------------------------------------------------

    def _advance(self, now: int, actions: list[Action]) -> bool:
        """One thing whose time has come; False when there is none."""
        self.waits_for_cache = False
        if self.phase == FINISHED or self._waits_for_unmount():
            return False
        if self._busy:
            return self._go_on(now, actions)
        if self.phase == SYNC and not self._asked and not self._timer(now):
            return False
        last = self._synced_at
        if last is not None and not self._cache.newer_than(self.uid, last, now):
            self.waits_for_cache = True
            return False
        self._begin_sync(now, actions)
        return True

    def _begin_sync(self, now: int, actions: list[Action]) -> None:
        self._asked = False
        self._look_again_at = None
        self.pod = self._newer or self.pod
        self._take_in(self._cache.get(self.uid), actions)
        if self.phase == TERMINATED:
            self._sync_terminated(now, actions)
            return
        if self.phase == SYNC and not self._sync(now, actions):
            self._end_sync(now)
            self._terminate(now, None)
            return
        if self.phase == TERMINATING:
            self._report(now, actions)
        elif self._static:
            actions.append(ReconcileMirror(self.pod))
        self._busy = True

    def _sync(self, now: int, actions: list[Action]) -> bool:
        """The beginning of SyncPod; whether there is anything to be done, the pod not having ended."""
        if self._resizing is not None:
            self.pod = self._resizing.at_sync(self.pod)
            self._resizing.judge(self.pod, self._runs, now)
        if self._past_deadline(now):
            self._override = DEADLINE_STATUS
            actions.append(Event("Normal", "DeadlineExceeded", DEADLINE_STATUS["message"]))
        self._report(now, actions)
        self._plan = None
        return (self._reported or {}).get("phase") not in status.TERMINAL

    def _waits_for_unmount(self) -> bool:
        """Return whether an ended pod's volumes are still mounted: its object stays until they are not."""
        if not self._unmounting or self._volumes is None:
            return False
        return not self._volumes.released(self.uid)

    def _sync_terminated(self, now: int, actions: list[Action]) -> None:
        """Nothing runs any more: the last status, and the object may go once its volumes are unmounted."""
        self._report(now, actions)
        if not self._unmounting and self._volumes is not None:
            self._unmounting = True
            if self._waits_for_unmount():
                return
        if not self._removed:
            actions.append(Finished(self.uid))
        self.phase = FINISHED

    def _end_sync(self, now: int) -> None:
        self._busy = False
        self._plan = None
        self._synced_at = now

    def _take_in(self, entry: Mapping[str, Seen], actions: list[Action]) -> None:
        """Take over an entry of the pod cache."""
        for name, slot in self._slots.items():
            seen = entry.get(name, NOT_SEEN)
            if seen == slot.seen:
                continue
            ended = slot.seen.container_id
            if slot.running and (seen.running_since is None or seen.container_id != ended):
                actions.append(Ended(ended))
            elif self._synced_at is not None and seen.exit is not None and not slot.running:
                actions.append(Ended(seen.container_id))  # it came and went between two relists
            slot.seen = seen

    def _go_on(self, now: int, actions: list[Action]) -> bool:
        """The next action of the sync that is under way; False while it waits."""
        if self.phase == TERMINATING:
            return self._advance_termination(now, actions)
        if self._mounting is not None:
            for message in self._mounting.advance(self.pod, now):
                actions.append(Event("Warning", "FailedMount", message))
            if not self._mounting.done:
                return False
        if self.sandbox.ready_at is None:
            self.sandbox.ready_at = now + self.durations(runtime.SANDBOX, self.pod.name)
        if not self.sandbox.ready(now):
            return False
        if self._plan is None:
            self._kill_unhealthy(now, actions)
            self._resize(now, actions)
            self._plan = deque(self._to_start(now))
            for slot in self._slots.values():
                if slot.waits_until is not None and slot.waits_until <= now:
                    slot.waits_until = None
        if not self._killed(now, actions):
            return False
        while self._plan:
            slot = self._plan[0]
            if slot.stage:
                if slot.due is None or slot.due > now:
                    return False
                self._bring_up(slot, now, actions)
                if not slot.stage:  # it runs, or cannot be made
                    self._plan.popleft()
            elif not self._begin(slot, now, actions):
                self._plan.popleft()
        self._end_sync(now)
        return True

    def _to_start(self, now: int) -> list[_Slot]:
        """The containers that this sync starts: the next init container, or all others that do not run."""
        found: list[_Slot] = []
        for slot in self._slots.values():
            if slot.role == APP:
                continue
            if self._wants_start(slot, now):
                found.append(slot)
            if not self._initialized(slot):
                return found
        apps = [slot for slot in self._slots.values() if slot.role == APP]
        return found + [slot for slot in apps if self._wants_start(slot, now)]

    def _kill_unhealthy(self, now: int, actions: list[Action]) -> None:
        """Containers that a probe gave up on are killed, to be started anew."""
        for name, slot in self._slots.items():
            if not slot.running or slot.restarts:
                continue
            for kind in (LIVENESS, STARTUP):
                if self._probes.get(kind, slot.seen.container_id) is False:
                    message = f"Container {name} failed {kind} probe, will be restarted"
                    self._restart(slot, message, now, actions)
                    break

    def _restart(self, slot: _Slot, message: str, now: int, actions: list[Action]) -> None:
        slot.restarts = True
        actions.append(Event("Normal", "Killing", message, slot.spec.name))
        grace = self._grace_period(None)
        slot.container.stop(now, grace, self.durations(runtime.STOP, slot.spec.name))

    def _killed(self, now: int, actions: list[Action]) -> bool:
        """Return whether what was to be killed has stopped; the runtime says so at once."""
        for slot in self._slots.values():
            if slot.restarts:
                slot.container.settle(now)
                if slot.runs:
                    return False
                self._take_truth(slot, actions)
        return True

    def _take_truth(self, slot: _Slot, actions: list[Action]) -> None:
        """Ask the runtime itself for the result of a killed container."""
        was_running = slot.running
        slot.seen = slot.container.seen()
        if was_running and not slot.running:
            actions.append(Ended(slot.seen.container_id))

    def _runs(self, name: str) -> bool:
        return self._slots[name].running

    def _resize(self, now: int, actions: list[Action]) -> None:
        """Give running containers the pod's allocated resources. Upstream: doPodResizeAction."""
        resizing = self._resizing
        if resizing is None or (self._again_at is not None and now < self._again_at):
            return
        self._again_at = None
        actuated = resizing.actuated.get(self.uid)
        running = tuple(name for name, slot in self._slots.items() if slot.running)
        even = self._even
        if even[0] is self.pod and even[1] is actuated and even[2] == running:
            return
        plan = resizing.plan(self.pod, self._runs)
        if not (plan.steps or plan.restarts):
            self._even = (self.pod, actuated, running)
        for name in plan.restarts:
            slot = self._slots[name]
            if not slot.restarts:
                self._restart(slot, restart_message(name), now, actions)
        if not plan.steps:
            return
        objection = memory_objection(plan, self._usage)
        if objection:
            resizing.failed(self.pod, objection, now)
            self._again_at = now + RETRY
            return
        # Upstream sets the status before it changes anything, and looks again afterwards.
        actions.append(Resize(self.pod, plan))

    def apply(self, pod: Pod, step: Step, now: int, happens: Callable[[], bool]) -> bool:
        """One step of a resize; False when it failed, or the pod is to end: the others are not taken then.

        A failure is reported in the condition PodResizeInProgress, and the whole is tried again later;
        what was done before stays done. `happens` decides where the pod leaves it open whether the runtime
        refuses (see `container_runtime.refuses_update`).
        """
        resizing = self._resizing
        if resizing is None or self.phase != SYNC:
            return False
        name = step.container if isinstance(step, ContainerStep) else ""
        if name and not self._runs(name):
            return False
        refused = self.sandbox.refusals(name)
        if runtime.refuses_update(pod, name, refused, happens):
            self.sandbox.refused = {**(self.sandbox.refused or {}), name: refused + 1}
            error = "the emulated runtime refuses the update"
            if isinstance(step, PodStep):
                error = (
                    "failed to notify runtime for UpdatePodSandboxResources "
                    f"(resource={step.resource}); resize rejected: {error}"
                )
            resizing.failed(pod, error, now)
            self._again_at = now + RETRY
            return False
        if isinstance(step, ContainerStep):
            self._slots[name].container.resources = resizing.updated(pod, step)
        return True

    def _usage(self, name: str) -> int:
        """The memory that a container uses, or ("") the pod, in bytes."""
        if name:
            return runtime.memory_usage(self.pod, name)
        return sum(
            runtime.memory_usage(self.pod, slot.spec.name)
            for slot in self._slots.values()
            if slot.running
        )

    def _initialized(self, slot: _Slot) -> bool:
        """Return whether an init container lets the next one start."""
        if slot.role == SIDECAR:
            return self._started(slot) or self._any_app_started()
        ended = slot.seen.exit
        return ended is not None and ended.exit_code == 0

    def _any_app_started(self) -> bool:
        return any(slot.seen.attempt >= 0 for slot in self._slots.values() if slot.role == APP)

    def _wants_start(self, slot: _Slot, now: int) -> bool:
        if slot.restarts:
            return True
        if slot.running:
            return False
        if slot.unmade is not None and not slot.unmade.due(now):
            return False
        ended = slot.seen.exit
        return ended is None or self._may_restart(slot, ended)

    def _unmakeable(self, slot: _Slot) -> bool:
        """Return whether making a container would fail as it did before."""
        before = "" if slot.unmade is None else slot.unmade.error
        return bool(before) and environment_error(self.pod, slot.spec.name, self._find) == before

    def _may_restart(self, slot: _Slot, ended: Exit) -> bool:
        if slot.role == INIT and ended.exit_code == 0:
            return False
        policy = self.pod.spec.restart_policy or "Always"
        return may_restart(slot.spec, slot.role, policy, ended.exit_code)

    def _begin(self, slot: _Slot, now: int, actions: list[Action]) -> bool:
        """Starts pulling, unless the container is held back after crashes."""
        ended = slot.seen.exit
        if ended is not None and not slot.restarts:
            back_off = slot.back_off = slot.back_off or BackOff()
            until = back_off.held_until(ended.finished_at, now)
            if until is not None:
                if slot.waits_until != until:
                    slot.waits_until = until
                    pod = f"{self.pod.name}_{self.pod.namespace}({self.uid})"
                    message = f"Back-off restarting failed container {slot.spec.name} in pod {pod}"
                    actions.append(Event("Warning", "BackOff", message, slot.spec.name))
                    self._look_again(now)
                return False
            back_off.next(ended.finished_at, now)
        slot.waits_until = None
        takes = 0 if slot.unmade is not None else self.durations(runtime.PULL, slot.spec.name)
        name = slot.spec.image
        if takes:
            actions.append(Event("Normal", "Pulling", f'Pulling image "{name}"', slot.spec.name))
        slot.stage = runtime.PULL
        slot.pull_ns = takes
        slot.due = now + takes
        return True

    def _bring_up(self, slot: _Slot, now: int, actions: list[Action]) -> None:
        """The step after the one that just ended: pulled -> created -> running."""
        name = slot.spec.name
        assert slot.due is not None
        if slot.stage == runtime.PULL:
            actions.append(Event("Normal", "Pulled", _pulled(slot.spec.image, slot.pull_ns), name))
            error = environment_error(self.pod, name, self._find)
            if error:
                slot.stage, slot.due = "", None
                slot.unmade = Retry(error, now + RETRY, RETRY, RETRY)
                self._look_again(now)
                actions.append(Event("Warning", "Failed", f"Error: {error}", name))
                return
            slot.stage = runtime.START
            slot.due = now + self.durations(runtime.START, name)
            return
        slot.stage = ""
        slot.due = None
        slot.restarts = False
        slot.unmade = None
        if self._resizing is not None:
            slot.container.resources = self._resizing.create(self.pod, name)
        slot.container.cpus, slot.container.exclusive = self._cpus(self.uid, name)
        slot.container.start(self.uid, now)
        actions.append(Made(name, slot.container.container_id))
        actions.append(Event("Normal", "Created", "Container created", name))
        actions.append(Event("Normal", "Started", "Container started", name))

    def _look_again(self, now: int) -> None:
        """A sync failed: the next one shows why, and tries again."""
        self._look_again_at = now + RETRY

    def _started(self, slot: _Slot) -> bool:
        if not slot.running:
            return False
        if slot.spec.startup_probe is None:
            return True
        return self._probes.get(STARTUP, slot.seen.container_id) is True

    def _ready(self, slot: _Slot) -> bool:
        if not self._started(slot) or slot.role == INIT:
            return False
        if slot.spec.readiness_probe is None:
            return slot.container.program.ready
        return self._probes.get(READINESS, slot.seen.container_id) is True

    def _timer(self, now: int) -> bool:
        """Return whether a periodic sync is due."""
        times = [self._look_again_at, self._again_at, self._deadline()]
        for slot in self._slots.values():
            times.append(slot.waits_until)
            if slot.unmade is not None and not self._unmakeable(slot):
                times.append(slot.unmade.armed(now))
        return any(time is not None and time <= now for time in times)

    def _past_deadline(self, now: int) -> bool:
        deadline = self._deadline()
        return deadline is not None and deadline <= now

    def _deadline(self) -> int | None:
        seconds = self.pod.spec.active_deadline_seconds
        return None if seconds is None else self.start_time + seconds * SECOND

    # -- termination ---------------------------------------------------------------------------

    def _terminate(self, now: int, grace_ns: int | None) -> None:
        """Starts stopping, or shortens the time that is left to stop."""
        if self.phase not in (SYNC, TERMINATING):
            return
        grace = self._grace_period(grace_ns)
        if self.phase == TERMINATING and grace >= (self._grace or 0):
            return
        if self._busy and self.phase == SYNC:
            self._end_sync(now)  # its context is cancelled
        self.phase = TERMINATING
        self._grace = grace
        for slot in self._slots.values():
            slot.stage = ""
            slot.due = None
            slot.waits_until = None
            if slot.asked_to_stop:
                self._stop(slot, now)

    def _grace_period(self, override: int | None) -> int:
        """Deletion and kill may lower it; the spec's value counts when neither says anything."""
        given = [] if self._grace is None else [self._grace]
        seconds = self.pod.metadata.deletion_grace_period_seconds
        if seconds is not None:
            given.append(seconds * SECOND)
        if override is not None:
            given.append(override)
        if not given:
            spec = self.pod.spec.termination_grace_period_seconds
            given.append((DEFAULT_GRACE_SECONDS if spec is None else spec) * SECOND)
        return max(MINIMUM_GRACE, min(given))

    def _stop(self, slot: _Slot, now: int) -> None:
        assert self._grace is not None
        slot.container.stop(now, self._grace, self.durations(runtime.STOP, slot.spec.name))

    def _advance_termination(self, now: int, actions: list[Action]) -> bool:
        """Stops containers, sidecars last and in reverse order; then the pod is terminated."""
        for slot in self._slots.values():
            slot.container.settle(now)
            self._take_truth(slot, actions)
        running = [slot for slot in self._slots.values() if slot.runs]
        if not running:
            self._report(now, actions, stopped=True)
            self._end_sync(now)
            self.phase = TERMINATED
            return True
        others = [slot for slot in running if slot.role != SIDECAR]
        for slot in others or running[-1:]:
            if not slot.asked_to_stop:
                slot.asked_to_stop = True
                message = f"Stopping container {slot.spec.name}"
                actions.append(Event("Normal", "Killing", message, slot.spec.name))
                self._stop(slot, now)
        return False

    # -- what is reported ----------------------------------------------------------------------

    def reports(self) -> list[ContainerReport]:
        """The containers as the kubelet sees them."""
        initialized = all(
            self._initialized(slot) for slot in self._slots.values() if slot.role != APP
        )
        promised = self._promises()
        gone = self._final and self._any_app_started()
        return [
            self._report_of(slot, promised(slot.spec.name), initialized=initialized, gone=gone)
            for slot in self._slots.values()
        ]

    def _report_of(
        self, slot: _Slot, promised: Tree | None, *, initialized: bool, gone: bool
    ) -> ContainerReport:
        seen, ended = slot.seen, slot.seen.exit
        waiting, message, previous = "", "", seen.previous
        restarts = ended is not None and self._may_restart(slot, ended)
        if not slot.running and self.phase == SYNC and (ended is None or restarts):
            if ended is None:
                waiting = "ContainerCreating"
                if self.pod.spec.init_containers and (slot.role != APP or not initialized):
                    waiting = "PodInitializing"
            if slot.unmade is not None:
                waiting, message = "CreateContainerConfigError", slot.unmade.error
                previous, ended = ended or previous, None
            elif slot.waits_until is not None and ended is not None:
                waiting, previous, ended = "CrashLoopBackOff", ended, None
                assert slot.back_off is not None
                pod = f"{self.pod.name}_{self.pod.namespace}({self.uid})"
                message = (
                    f"back-off {duration(slot.back_off.delay)} restarting failed "
                    f"container={slot.spec.name} pod={pod}"
                )
        if gone and ended is None:
            ended = Exit(runtime.KILLED, "ContainerStatusUnknown", 0, 0, "", _GONE)
        given = seen.resources if slot.running else None
        return ContainerReport(
            name=slot.spec.name,
            image=slot.spec.image,
            role=slot.role,
            running_since=seen.running_since,
            exit=ended,
            previous=previous,
            waiting=waiting,
            waiting_message=message,
            ready=self._ready(slot),
            started=self._started(slot),
            restart_count=max(0, seen.attempt),
            container_id=seen.container_id,
            image_id=runtime.image_id(slot.spec.image) if seen.attempt >= 0 else "",
            may_restart=restarts,
            resources=promised if given is None else given or None,
            allocated=promised,
        )

    def _promises(self) -> Callable[[str], Tree | None]:
        """The resources allocated to each container by now, by its name."""
        known = None if self._resizing is None else self._resizing.allocation(self.uid)
        allocated = {} if known is None else known.containers
        trees = container_trees(self.pod)
        return lambda name: allocated.get(name) or trees[name].get("resources") or None

    def _report(self, now: int, actions: list[Action], *, stopped: bool = False) -> None:
        """The status, if it differs from the last one. `stopped`: nothing runs any more."""
        if self._removed:
            return
        last = self.phase == TERMINATED
        anew = last and self._reported is None and self.pod.status.phase in status.TERMINAL
        if anew and all(slot.seen == NOT_SEEN for slot in self._slots.values()):
            return
        override = self._override
        self._final = last
        reports = self.reports()
        ends = (
            stopped or last
        ) and not self._static  # a static pod may be started again under its uid
        found = status.phase(reports, terminating=ends)
        if last and not override and not self._static and found not in status.TERMINAL:
            override = {"phase": status.FAILED}
        ready = self.sandbox.ready(now) and not stopped and not last
        # Who has begun anew finds a sandbox that was stopped, which has no address any more.
        has_address = self.sandbox.ready(now) and (not anew or self.pod.spec.host_network)
        tree = status.build(
            self.pod,
            reports,
            now=now,
            start_time=self.start_time,
            sandbox_ready=ready,
            ip=self.sandbox.ip if has_address else "",
            host_ip=self.host_ip,
            before=self._before(),
            terminating=ends,
            override=override,
            extra=self._extra,
            resize=() if self._resizing is None else self._resizing.trees(self.uid),
            has=None if self._resizing is None else self._resizing.whole(self.pod),
            promised=None if self._resizing is None else self._resizing.promised_whole(self.pod),
        )
        if tree != self._reported:
            self._reported = tree
            actions.append(SetStatus(self.uid, tree))

    def _before(self) -> Tree | None:
        """Return the last reported status, with the conditions that others set meanwhile."""
        if self._reported is None:
            return None
        current = (self.pod.tree.get("status") or {}).get("conditions") or ()
        foreign = [item for item in current if item["type"] not in status.OWN_CONDITIONS]
        own = [
            item
            for item in self._reported.get("conditions") or ()
            if item["type"] in status.OWN_CONDITIONS
        ]
        return self._reported | {"conditions": alike_list([*foreign, *own])}

    def _next_deadline(self, now: int) -> int | None:
        if self.phase == FINISHED or self.waits_for_cache or self._waits_for_unmount():
            return None
        if not self._busy:
            if self.phase != SYNC or self._asked:
                return now
            times = [self._look_again_at, self._again_at, self._deadline()]
            for slot in self._slots.values():
                times.append(slot.waits_until)
                if slot.unmade is not None and not self._unmakeable(slot):
                    times.append(slot.unmade.armed(now))
        elif self.phase == SYNC:
            times = [self.sandbox.ready_at]
            if self._mounting is not None:
                times.append(self._mounting.next_try(self.pod, now))
            for slot in self._slots.values():
                times.append(slot.due)
                times.append(slot.container.ends_at if slot.restarts else None)
        else:
            times = [slot.container.ends_at for slot in self._slots.values()]
        return min((time for time in times if time is not None and time > now), default=None)


def _pulled(image: str, took_ns: int) -> str:
    if not took_ns:
        return f'Container image "{image}" already present on machine'
    took = duration(took_ns)
    return (
        f'Successfully pulled image "{image}" in {took} ({took} including waiting). '
        "Image size: 0 bytes."
    )


def duration(ns: int) -> str:
    """A duration as Go prints it: 500ms, 10s, 1m20s, 5m0s."""
    millis = ns // MILLISECOND
    if millis < 1000:
        return f"{millis}ms"
    seconds, rest = divmod(millis, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    shown = f"{seconds}.{rest:03}".rstrip("0").rstrip(".") if rest else str(seconds)
    if hours:
        return f"{hours}h{minutes}m{shown}s"
    return f"{minutes}m{shown}s" if minutes else f"{shown}s"
