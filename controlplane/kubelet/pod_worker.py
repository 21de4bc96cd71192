"""One pod on its node: from the sandbox through restarts to its end.

Upstream: pkg/kubelet/pod_workers.go, kubelet.go (SyncPod, SyncTerminatingPod, SyncTerminatedPod)
and kuberuntime. A worker goes sync -> terminating -> terminated -> finished and never back. It is
told of changes (`update`, `kill`, `remove`) and stepped; each step answers what to do and when to
step it again. Images are pulled and containers started one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

import attrs

from controlplane.api.containers import Container as ContainerSpec
from controlplane.api.containers import Probe
from controlplane.api.pod import Pod
from controlplane.api.times import MILLISECOND, SECOND
from controlplane.api.tree import Tree
from controlplane.kubelet import container_runtime as runtime
from controlplane.kubelet import status
from controlplane.kubelet.allocation.actuation import (
    ContainerStep,
    Plan,
    PodStep,
    Step,
    memory_objection,
    restart_message,
)
from controlplane.kubelet.allocation.state import PodResources, container_trees
from controlplane.kubelet.container_runtime import Container, Durations, Exit, Sandbox
from controlplane.kubelet.mounting import Mounting, Retry
from controlplane.kubelet.references import Find, environment_error
from controlplane.kubelet.resizing import Resizing
from controlplane.kubelet.restarts import BackOff, may_restart
from controlplane.kubelet.status import APP, INIT, SIDECAR, Condition, ContainerReport

SYNC: Final = "sync"
TERMINATING: Final = "terminating"
TERMINATED: Final = "terminated"
FINISHED: Final = "finished"

MINIMUM_GRACE: Final = SECOND
DEFAULT_GRACE_SECONDS: Final = 30
RETRY: Final = 10 * SECOND
"""How long after a sync that failed the next one comes."""
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
    """Bring running containers to what the pod, as this sync has it, was promised: step by step (`apply`)."""

    pod: Pod
    plan: Plan


Action = SetStatus | Finished | Event | Made | Ended | Resize


@attrs.define
class _Slot:
    """The kubelet's memory of one container; the runtime's is `container`."""

    spec: ContainerSpec
    role: str
    container: Container
    stage: str = ""
    """"pull" or "start" while the container is being brought up."""
    due: int | None = None
    started_at: int | None = None
    """When the startup probe passes, or would have."""
    ready_at: int | None = None
    back_off: BackOff = attrs.field(factory=BackOff)
    waits_until: int | None = None
    pull_ns: int = 0
    asked_to_stop: bool = False
    restarts_for_resize: bool = False
    unmade: Retry | None = None
    """Why it could not be made, until it is."""

    @property
    def running(self) -> bool:
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
    objects that the pod names.
    """

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
    ) -> None:
        self.pod = pod
        self.phase = SYNC
        self.start_time = pod.status.start_time or now
        self.durations = durations
        self.host_ip = host_ip
        self.sandbox = sandbox or Sandbox(pod.uid, host_ip if pod.spec.host_network else ip)
        self._reported = reported
        self._resizing = resizing
        self._cpus = cpus
        self._find = find
        self._mounting = Mounting(pod, find)
        self._again_at: int | None = None
        self._planned: Resize | None = None
        # The pod, what it was given and who runs, when there was nothing to do.
        self._even: tuple[Pod | None, PodResources | None, list[str]] = (None, None, [])
        self._override: Mapping[str, str] | None = None
        self._extra: tuple[Condition, ...] = ()
        self._grace: int | None = None
        self._removed = False
        self._final = False
        self._slots = self._make_slots()
        if pod.status.phase in status.TERMINAL and not self.sandbox.running():
            self.phase = TERMINATED

    @property
    def uid(self) -> str:
        """The pod's uid: workers are known by it, not by name."""
        return self.sandbox.uid

    @property
    def removed(self) -> bool:
        """Whether the object is gone from the API server."""
        return self._removed

    @property
    def active(self) -> bool:
        """Whether the pod still counts for admission of others (its containers may run)."""
        return self.phase in (SYNC, TERMINATING)

    @property
    def terminating(self) -> bool:
        """Whether its end was asked for, or has come."""
        return self.phase != SYNC

    @property
    def finished(self) -> bool:
        """Whether nothing of it is left on the node."""
        return self.phase == FINISHED and not self.sandbox.running()

    def update(self, pod: Pod, now: int) -> None:
        """Takes over a newer object of the same uid; a deletion can shorten the grace period."""
        self.pod = pod
        if pod.metadata.deletion_timestamp is not None:
            self._terminate(now, None)

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
        """What to do now, in order, and when to step again (None: only after a change)."""
        actions: list[Action] = []
        if self._resizing is not None and self.phase == SYNC:
            self.pod = self._resizing.at_sync(self.pod)
            self._resizing.judge(self.pod, self._runs, now)
        self._planned = None
        while self._advance(now, actions):
            pass
        if not self._removed:
            self._report(now, actions)
        if self.phase == TERMINATED:
            if not self._removed:
                actions.append(Finished(self.uid))
            self.phase = FINISHED
        if self._planned is not None and self.phase == SYNC:
            # Upstream sets the status before it changes anything, and looks again afterwards.
            actions.append(self._planned)
        return actions, self._next_deadline(now)

    # -- preparation ---------------------------------------------------------------------------

    def _make_slots(self) -> dict[str, _Slot]:
        spec = self.pod.spec
        of_job = any(owner.kind == "Job" for owner in self.pod.metadata.owner_references)
        slots: dict[str, _Slot] = {}
        for item in (*spec.init_containers, *spec.containers):
            role = APP
            if len(slots) < len(spec.init_containers):
                role = SIDECAR if item.restart_policy == "Always" else INIT
            container = self.sandbox.containers.get(item.name)
            if container is None:
                ends = role == INIT or (role == APP and of_job)
                program = runtime.program(self.pod, item.name, ends=ends, durations=self.durations)
                container = Container(item.name, item.image, program)
                self.sandbox.containers[item.name] = container
            slots[item.name] = _Slot(item, role, container)
            if container.running_since is not None:
                self._watch(slots[item.name], container.running_since)
        return slots

    # -- transitions ---------------------------------------------------------------------------

    def _advance(self, now: int, actions: list[Action]) -> bool:
        """One transition whose time has come; False when there is none."""
        if self.phase not in (SYNC, TERMINATING):
            return False
        ended = [slot for slot in self._slots.values() if slot.container.settle(now)]
        for slot in ended:
            slot.started_at = slot.ready_at = None
            actions.append(Ended(slot.container.container_id))
        if ended:
            return True
        if self.phase == TERMINATING:
            return self._advance_termination(now, actions)
        said = (self._reported or {}).get("phase")
        if self.pod.status.phase in status.TERMINAL or said in status.TERMINAL:
            self._terminate(now, None)
            return True
        if self._past_deadline(now):
            self._override = DEADLINE_STATUS
            actions.append(Event("Normal", "DeadlineExceeded", DEADLINE_STATUS["message"]))
            self._terminate(now, None)
            return True
        for message in self._mounting.advance(self.pod, now):
            actions.append(Event("Warning", "FailedMount", message))
        if not self._mounting.done:
            return False
        if self.sandbox.ready_at is None:
            self.sandbox.ready_at = now + self.durations(runtime.SANDBOX, self.pod.name)
        if not self.sandbox.ready(now):
            return False
        if self._phase(now) in status.TERMINAL:
            self._terminate(now, None)
            return True
        if self._resize(now, actions):
            return True
        for slot in self._slots.values():
            if slot.due is not None and slot.due <= now:
                self._bring_up(slot, now, actions)
                return True
        if any(slot.stage for slot in self._slots.values()):
            return False
        return self._start_next(now, actions)

    def _start_next(self, now: int, actions: list[Action]) -> bool:
        """Begins to bring up the next container that is to run, init containers in order first."""
        for slot in self._slots.values():
            if slot.role == APP:
                continue
            blocked = not self._initialized(slot, now)
            if self._wants_start(slot, now) and self._begin(slot, now, actions):
                return True
            if blocked:
                return False
        return any(
            self._wants_start(slot, now) and self._begin(slot, now, actions)
            for slot in self._slots.values()
            if slot.role == APP
        )

    def _runs(self, name: str) -> bool:
        return self._slots[name].running

    def _resize(self, now: int, actions: list[Action]) -> bool:
        """Gives running containers what the pod was promised. Upstream: doPodResizeAction."""
        resizing = self._resizing
        if resizing is None or self._planned is not None:
            return False
        if self._again_at is not None and now < self._again_at:
            return False
        self._again_at = None
        actuated = resizing.actuated.get(self.uid)
        running = [name for name, slot in self._slots.items() if slot.running]
        even = self._even
        if even[0] is self.pod and even[1] is actuated and even[2] == running:
            return False
        plan = resizing.plan(self.pod, self._runs)
        if not (plan.steps or plan.restarts):
            self._even = (self.pod, actuated, running)
        for name in plan.restarts:
            slot = self._slots[name]
            if not slot.restarts_for_resize:
                slot.restarts_for_resize = True
                actions.append(Event("Normal", "Killing", restart_message(name), name))
                grace = self._grace_period(None)
                slot.container.stop(now, grace, self.durations(runtime.STOP, name))
        if not plan.steps:
            return False
        objection = memory_objection(plan, self._usage)
        if objection:
            resizing.failed(self.pod, objection, now)
            self._again_at = now + RETRY
            return False
        self._planned = Resize(self.pod, plan)
        return False

    def apply(self, pod: Pod, step: Step, now: int, happens: Callable[[], bool]) -> bool:
        """One step of a resize; False when it failed, or the pod is to end: the others are not taken then.

        A failure is told of in the condition PodResizeInProgress, and the whole is tried again later;
        what was done before stays done. `happens` decides where the pod leaves it open whether the runtime
        refuses (see `container_runtime.refuses_update`).
        """
        resizing = self._resizing
        if resizing is None or self.phase != SYNC:
            return False
        name = step.container if isinstance(step, ContainerStep) else ""
        if name and not self._runs(name):
            return False
        refused = self.sandbox.refused.get(name, 0)
        if runtime.refuses_update(pod, name, refused, happens):
            self.sandbox.refused[name] = refused + 1
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

    def _initialized(self, slot: _Slot, now: int) -> bool:
        """Whether an init container lets the next one start."""
        if slot.role == SIDECAR:
            return self._started(slot, now) or self._any_app_started()
        ended = slot.container.exit
        return ended is not None and ended.exit_code == 0

    def _any_app_started(self) -> bool:
        return any(slot.container.attempt >= 0 for slot in self._slots.values() if slot.role == APP)

    def _wants_start(self, slot: _Slot, now: int) -> bool:
        if slot.running:
            return False
        if slot.unmade is not None and (not slot.unmade.due(now) or self._unmakeable(slot)):
            return False
        if slot.restarts_for_resize:
            return True
        ended = slot.container.exit
        return ended is None or self._may_restart(slot, ended)

    def _unmakeable(self, slot: _Slot) -> bool:
        """Whether making a container would fail as it did before."""
        before = "" if slot.unmade is None else slot.unmade.error
        return bool(before) and environment_error(self.pod, slot.spec.name, self._find) == before

    def _may_restart(self, slot: _Slot, ended: Exit) -> bool:
        if slot.role == INIT and ended.exit_code == 0:
            return False
        policy = self.pod.spec.restart_policy or "Always"
        return may_restart(slot.spec, slot.role, policy, ended.exit_code)

    def _begin(self, slot: _Slot, now: int, actions: list[Action]) -> bool:
        """Starts pulling, unless the container is held back after crashes."""
        ended = slot.container.exit
        if ended is not None and not slot.restarts_for_resize:
            until = slot.back_off.held_until(ended.finished_at, now)
            if until is not None:
                if slot.waits_until != until:
                    slot.waits_until = until
                    pod = f"{self.pod.name}_{self.pod.namespace}({self.uid})"
                    message = f"Back-off restarting failed container {slot.spec.name} in pod {pod}"
                    actions.append(Event("Warning", "BackOff", message, slot.spec.name))
                return False
            slot.back_off.next(ended.finished_at, now)
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
                actions.append(Event("Warning", "Failed", f"Error: {error}", name))
                return
            slot.stage = runtime.START
            slot.due = now + self.durations(runtime.START, name)
            return
        slot.stage = ""
        slot.due = None
        slot.restarts_for_resize = False
        slot.unmade = None
        if self._resizing is not None:
            slot.container.resources = self._resizing.create(self.pod, name)
        slot.container.cpus, slot.container.exclusive = self._cpus(self.uid, name)
        slot.container.start(self.uid, now)
        actions.append(Made(name, slot.container.container_id))
        actions.append(Event("Normal", "Created", "Container created", name))
        actions.append(Event("Normal", "Started", "Container started", name))
        self._watch(slot, now)

    def _watch(self, slot: _Slot, since: int) -> None:
        """When the probes of a container that runs since then will have passed."""
        slot.started_at = since + _delay(slot.spec.startup_probe)
        slot.ready_at = None
        if slot.container.program.ready and slot.role != INIT:
            slot.ready_at = max(slot.started_at, since + _delay(slot.spec.readiness_probe))

    def _started(self, slot: _Slot, now: int) -> bool:
        return slot.running and slot.started_at is not None and slot.started_at <= now

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
        running = [slot for slot in self._slots.values() if slot.running]
        if not running:
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

    def _phase(self, now: int) -> str:
        return status.phase(self.reports(now), terminating=self.phase != SYNC)

    def reports(self, now: int) -> list[ContainerReport]:
        """The containers as the kubelet sees them."""
        initialized = all(
            self._initialized(slot, now) for slot in self._slots.values() if slot.role != APP
        )
        return [self._report_of(slot, now, initialized) for slot in self._slots.values()]

    def _report_of(self, slot: _Slot, now: int, initialized: bool) -> ContainerReport:
        container, ended = slot.container, slot.container.exit
        waiting, message, previous = "", "", container.previous
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
                pod = f"{self.pod.name}_{self.pod.namespace}({self.uid})"
                message = (
                    f"back-off {duration(slot.back_off.delay)} restarting failed "
                    f"container={slot.spec.name} pod={pod}"
                )
        if self._final and ended is None and self._any_app_started():
            ended = Exit(runtime.KILLED, "ContainerStatusUnknown", 0, 0, "", _GONE)
        started = self._started(slot, now)
        ready = started and slot.ready_at is not None and slot.ready_at <= now
        return ContainerReport(
            name=slot.spec.name,
            image=slot.spec.image,
            role=slot.role,
            running_since=container.running_since,
            exit=ended,
            previous=previous,
            waiting=waiting,
            waiting_message=message,
            ready=ready and self.phase == SYNC,
            started=started,
            restart_count=max(0, container.attempt),
            container_id=container.container_id,
            image_id=runtime.image_id(slot.spec.image) if container.attempt >= 0 else "",
            may_restart=restarts,
            resources=self._has(slot),
            allocated=self._promised(slot),
        )

    def _promised(self, slot: _Slot) -> Tree | None:
        """What a container was promised by now."""
        found = None
        if self._resizing is not None:
            known = self._resizing.allocation(self.uid)
            found = None if known is None else known.containers.get(slot.spec.name)
        return found or container_trees(self.pod)[slot.spec.name].get("resources") or None

    def _has(self, slot: _Slot) -> Tree | None:
        """What a container has."""
        if slot.running and slot.container.resources is not None:
            return slot.container.resources or None
        return self._promised(slot)

    def _report(self, now: int, actions: list[Action]) -> None:
        """The status, if it differs from the last one."""
        if self.phase == FINISHED or (self.phase == TERMINATED and self._final):
            return
        if self.phase == TERMINATED and self.pod.status.phase in status.TERMINAL:
            if self._reported is None:
                return
        override = self._override
        terminating = self.phase != SYNC
        if self.phase == TERMINATED:
            self._final = True
            if not override and self._phase(now) not in status.TERMINAL:
                override = {"phase": status.FAILED}
        elif terminating:
            # A terminal phase is withheld while containers may still run.
            override = {"phase": self._held_phase()}
        tree = status.build(
            self.pod,
            self.reports(now),
            now=now,
            start_time=self.start_time,
            sandbox_ready=self.sandbox.ready(now) and self.phase != TERMINATED,
            ip=self.sandbox.ip if self.sandbox.ready(now) else "",
            host_ip=self.host_ip,
            before=self._before(),
            terminating=terminating,
            override=override,
            extra=self._extra if self.phase == TERMINATED else (),
            resize=() if self._resizing is None else self._resizing.trees(self.uid),
            has=None if self._resizing is None else self._resizing.whole(self.pod),
            promised=None if self._resizing is None else self._resizing.promised_whole(self.pod),
        )
        if tree != self._reported:
            self._reported = tree
            actions.append(SetStatus(self.uid, tree))

    def _before(self) -> Tree | None:
        """What was reported last, with the conditions that others set meanwhile."""
        if self._reported is None:
            return None
        current = (self.pod.tree.get("status") or {}).get("conditions") or ()
        foreign = [item for item in current if item["type"] not in status.OWN_CONDITIONS]
        own = [
            item
            for item in self._reported.get("conditions") or ()
            if item["type"] in status.OWN_CONDITIONS
        ]
        return self._reported | {"conditions": [*foreign, *own]}

    def _held_phase(self) -> str:
        before: str = (self._reported or {}).get("phase") or self.pod.status.phase
        return before or status.PENDING

    def _next_deadline(self, now: int) -> int | None:
        if self.phase not in (SYNC, TERMINATING):
            return None
        times = [slot.container.ends_at for slot in self._slots.values()]
        if self.phase == SYNC:
            times += [self.sandbox.ready_at, self._deadline(), self._again_at]
            times.append(self._mounting.next_try(self.pod, now))
            for slot in self._slots.values():
                times += [slot.due, slot.waits_until, slot.started_at, slot.ready_at]
                if slot.unmade is not None and not self._unmakeable(slot):
                    slot.unmade.due(now)
                    times.append(slot.unmade.at)
        return min((time for time in times if time is not None and time > now), default=None)


def _delay(probe: Probe | None) -> int:
    """How long after the start a probe that always succeeds has passed, in nanoseconds."""
    if probe is None:
        return 0
    period = probe.period_seconds or 10
    return (probe.initial_delay_seconds + (max(1, probe.success_threshold) - 1) * period) * SECOND


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
