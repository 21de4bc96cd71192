"""One task per pod: it takes the newest update, brings the pod to it, and waits for the next.

Points: `kubelet.pod` (a worker takes its next step, or waits for a newer entry of the pod cache),
`kubelet.pod.slice` (a batch of actions of one step was taken), `kubelet.pod.resize` (before each part of a
resize). `update` only leaves word: an update that no worker
has taken yet is replaced by the next one. Upstream: pkg/kubelet/pod_workers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from controlplane.client.loops.event_recorder import reference
from controlplane.kubelet.allocation.actuation import ContainerStep
from controlplane.kubelet.loops import clients
from controlplane.kubelet.loops.executing import executed
from controlplane.kubelet.loops.file_writes import FileWrites
from controlplane.kubelet.loops.mirrors import Mirrors
from controlplane.kubelet.loops.objects import Objects
from controlplane.kubelet.loops.pleg import Pleg
from controlplane.kubelet.loops.prober import Probers
from controlplane.kubelet.loops.tokens import TokenManager
from controlplane.kubelet.pod.actions import (
    Ended,
    Event,
    Made,
    PrepareClaims,
    ReconcileMirror,
    Resize,
    SetStatus,
    UnprepareClaims,
)
from controlplane.kubelet.pod.claims import Claims
from controlplane.kubelet.pod.container_runtime import DEFAULTS
from controlplane.kubelet.pod.pod_state import FINISHED, SYNC, TERMINATING, PodServices
from controlplane.kubelet.pod.pod_worker import PodWorker
from controlplane.kubelet.pod.preemption import is_static
from controlplane.kubelet.pod.static_order import BACK_OFF, StaticOrder
from controlplane.kubelet.pod.status import TERMINAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from actors import Condition, Context
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.kubelet.loops.programs import Programs
    from controlplane.kubelet.loops.shared import Shared
    from controlplane.kubelet.pod.mounting import Volumes
    from controlplane.kubelet.pod.resizing import Resizing
    from controlplane.kubelet.pod.status import Condition as PodCondition
    from controlplane.shell.running import Life

COUNTS_UNTIL_STOPPED = "104824"
ENDED_BY_OTHERS_COUNTS = "here14"
TERMINAL_IS_INACTIVE = "104577"
NEVER_ACTIVE = "terminal-never"
FIRST_SEEN_TERMINATED = "105527"
STARTED_AGAIN = "104847"
RESYNC_NS = 60_000_000_000
"""syncFrequency: a pod is synced so long after the last sync, and up to half as long again."""
ACTIONS = 200
"""The number of actions of a step before other tasks may run: only pods of very many containers have more."""
JITTER_OPTIONS = 3
"""Number of options of the jitter: none, half, or all of it on top."""
SLOWNESS = 3
"""Number of options of a duration: as planned, twice, four times as long."""


class Worker:
    """A pod's worker, the update that it has not taken yet, and the tasks that wait for it."""

    __slots__ = (
        "changed", "machine", "mirror", "noted", "pending", "pending_mirror", "restarts", "resync_at", "shown",
        "stopped", "told",
    )  # fmt: skip

    def __init__(self, machine: PodWorker, changed: Condition, stopped: Condition) -> None:
        self.machine = machine
        self.changed = changed
        self.stopped = stopped
        self.pending: Pod | None = None
        self.told = False
        """Something happened since the worker last looked."""
        self.mirror: Pod | None = None
        """Of a static pod: its mirror, as the update had it that the worker took last."""
        self.pending_mirror: Pod | None = None
        self.resync_at: int | None = None
        """Time of the next look at whether the API server shows the pod, if it does not."""
        self.shown = True
        """The API server did not refuse the mirror pod at the last try."""
        self.restarts = False
        """A pod of the same uid came while this one was to end."""
        self.noted = ""
        """The phase that was logged last."""

    @property
    def is_to_end(self) -> bool:
        """Return whether its end was asked for, also by an update that it has not taken yet."""
        pending = self.pending
        return self.machine.terminating or (
            pending is not None and pending.status.phase in TERMINAL
        )

    def wake(self) -> None:
        """Something happened that concerns it."""
        self.told = True
        self.changed.notify_all()


class Provider(Protocol):
    """The resource managers, as pod workers use them."""

    @property
    def resizing(self) -> Resizing:
        """Resizes."""

    @property
    def device_statuses(self) -> Callable[[str, str], Sequence[Tree]] | None:
        """Returns the devices of plugins that a container has; None where statuses do not list them."""

    @property
    def tracks_generation(self) -> bool:
        """True if pod statuses carry observedGeneration."""

    def cpus_of(self, uid: str, container: str) -> tuple[str, bool]:
        """Return the CPUs of a container as a list ("" without assignment), and whether they are exclusive."""

    async def made(self, ctx: Context, pod: Pod, container: str, container_id: str) -> None:
        """A container was made and runs."""

    async def ended(self, ctx: Context, container_id: str) -> None:
        """A container has stopped."""

    def reassign(self) -> None:
        """A status changed: a container may run that has the wrong CPUs."""

    async def retry_for_stopped(self, ctx: Context) -> None:
        """Try pending resizes once: a pod whose end was known before its containers had stopped counts no longer."""


class NodeClaims(Claims, Protocol):
    """The manager of claims, as pod workers use it."""

    async def prepare(self, ctx: Context, pod: Pod) -> str:
        """Prepare the claims of a pod; why that failed, "" if it did not."""

    async def unprepare(self, ctx: Context, pod: Pod) -> str:
        """Unprepare the claims of a pod; why that failed, "" if it did not."""

    def might_need(self, uid: str) -> bool:
        """Return whether claims may have to be unprepared for a pod."""


class Watcher(Protocol):
    """Observer of pods' usage."""

    def look_at(self, pod: Pod) -> None:
        """A pod is wanted so."""

    def look_again(self) -> None:
        """A container may have been started, or have stopped."""


class PodWorkers:
    """The workers of one kubelet, by uid."""

    def __init__(self, shared: Shared, *, enters: bool = False) -> None:
        self._shared = shared
        self._workers: dict[str, Worker] = {}
        self._given: PodServices | None = None
        self._objects = Objects(shared)
        self._tokens = TokenManager(shared, self.relisted, enters=enters)
        self._order = StaticOrder()
        self.mirrors = Mirrors(shared)
        self.pleg = Pleg(shared, self.relisted)
        self.probers = Probers(shared, self._probed, self._objects.find)
        self._writes = FileWrites(shared, self.probers.files_changed)
        self.resources: Provider | None = None
        """Set before the first pod comes."""
        self.evictions: Watcher | None = None
        """Likewise."""
        self.volumes: Volumes | None = None
        """Likewise, where the node has CSI drivers."""
        self.claims: NodeClaims | None = None
        """Likewise, where there is dynamic resource allocation."""
        self.programs: Programs | None = None
        """Likewise."""

    def get(self, uid: str) -> PodWorker | None:
        """The state of a pod's worker."""
        found = self._workers.get(uid)
        return None if found is None else found.machine

    def uids(self) -> list[str]:
        """Of all pods that have a worker."""
        return list(self._workers)

    # ------------------------------------------------------------------ updates of workers

    def update(self, pod: Pod, mirror: Pod | None = None, *, create: bool = False) -> None:
        """A pod is wanted so; `mirror` shows it if it is static. Upstream: UpdatePod.

        Fix gate 104847 (issue 104648, 1.23). A pod comes (`create`) under the uid of one that is to end: a file
        was removed and put back. Before, that was dropped; since, the pod is started anew once the other is gone.
        """
        if self.evictions is not None:
            self.evictions.look_at(pod)
        found = self._workers.get(pod.uid)
        if found is None:
            self._start(pod, mirror)
        elif create and found.machine.terminating:
            if self._shared.fixes.fixed(STARTED_AGAIN):
                found.restarts = True
                self._shared.tidy_up()
        else:
            found.pending = pod
            found.pending_mirror = mirror
            found.wake()

    def relisted(self, uid: str) -> None:
        """There is a newer entry of the pod cache for a worker that waits for one."""
        found = self._workers.get(uid)
        if found is not None:
            found.wake()

    def claims_promising(self) -> None:
        """A driver has come back: pods whose claims failed are worth another try when it is due."""
        for worker in self._workers.values():
            claims = worker.machine.claims
            if claims is not None and claims.again_at is not None:
                claims.promising()
                worker.wake()

    def devices_changed(self, uids: Iterable[str]) -> None:
        """The health of devices of these pods is another: sync them."""
        for uid in uids:
            self._probed(uid)

    def _probed(self, uid: str) -> None:
        """A probe found something new, or it is time for another sync."""
        if uid in self._workers:
            self._shared.probed[uid] = None
            self._shared.news.notify_all()

    def remove(self, uid: str) -> None:
        """The pod's object is gone: stop it."""
        found = self._workers.get(uid)
        if found is not None:
            found.machine.remove(self._shared.now())
            found.wake()

    async def kill(
        self,
        ctx: Context,
        pod: Pod,
        override: Mapping[str, str],
        condition: PodCondition | None,
        grace_s: int | None = None,
    ) -> None:
        """Stop a pod for the node's own reasons, and wait until its containers are gone or it takes too long.

        Upstream: killPodNow waits for 1.5 times the grace period, ten seconds at least.
        """
        found = self._workers.get(pod.uid)
        if found is None:
            return
        limit = None if grace_s is None else grace_s * 1_000_000_000
        found.machine.kill(self._shared.now(), override, grace_ns=limit, condition=condition)
        found.wake()
        grace = pod.spec.termination_grace_period_seconds if grace_s is None else grace_s
        wait = max(10, round(1.5 * (30 if grace is None else grace))) * 1_000_000_000
        end = ctx.now + wait
        while found.machine.active and ctx.now < end:
            await found.stopped.wait(end - ctx.now, point="kubelet.kill-pod")

    def to_be_restarted(self, uid: str) -> bool:
        """Return whether a pod of this uid is wanted again."""
        found = self._workers.get(uid)
        return found is not None and found.restarts

    def static_pod_terminates(self, name: str) -> bool:
        """Return whether a static pod of this full name is being terminated. Upstream:
        IsPodForMirrorPodTerminating...
        """
        uid = self._order.started(name)
        found = None if uid is None else self.get(uid)
        return found is not None and found.phase == TERMINATING

    def forget(self, uid: str) -> None:
        """The pod is gone, and is not wanted, or wanted anew."""
        self._workers.pop(uid, None)
        self._shared.host.sandboxes.pop(uid, None)
        self.pleg.cache.forget(uid)
        self.probers.forget(uid)
        self._tokens.forget(uid)

    # ------------------------------------------------------------------ one worker

    def _start(self, pod: Pod, mirror: Pod | None) -> None:
        shared = self._shared
        host = shared.host
        machine = PodWorker(
            pod,
            shared.now(),
            self._services(),
            ip=host.pod_ip(),
            sandbox=host.sandboxes.get(pod.uid),
            reported=None if is_static(pod) else shared.statuses.get(pod.uid),
        )
        if host.sandboxes.get(pod.uid) is machine.sandbox:  # an earlier process started it
            self._writes.look_at(machine.sandbox)
        host.sandboxes[pod.uid] = machine.sandbox
        worker = Worker(machine, shared.ctx.condition(), shared.ctx.condition())
        self._workers[pod.uid] = worker
        worker.pending_mirror = mirror
        if is_static(pod):
            self._order.queue(pod.key, pod.uid)
        if pod.metadata.deletion_timestamp is not None or (
            pod.status.phase in TERMINAL and machine.sandbox.running()
        ):
            worker.pending = pod
        shared.ctx.spawn(self._work, worker, name="pod")

    def _services(self) -> PodServices:
        """Return the parts of the kubelet that all workers share; made for the first pod."""
        if self._given is None:
            shared = self._shared
            assert self.resources is not None
            self._given = PodServices(
                durations=self._duration,
                cache=self.pleg.cache,
                host_ip=shared.host.host_ip,
                tracks_generation=self.resources.tracks_generation,
                find=self._objects.find,
                cpus=self._cpus_of,
                probes=self.probers.results,
                resizing=self.resources.resizing,
                volumes=self.volumes,
                tokens=self._tokens,
                claims=self.claims,
                devices=self.resources.device_statuses,
                terminal_first=not shared.fixes.fixed(FIRST_SEEN_TERMINATED),
                execute=self._execute,
                services_error=self._objects.services_error,
            )
        return self._given

    def _execute(self, pod: Tree, container: str, container_id: str, now: int) -> Life | None:
        """Run the program of a container, if it is one of the emulated shell."""
        find = self._objects.find(pod["metadata"]["namespace"])
        services = self._objects.services()
        return executed(pod, container, container_id, now, find, services, self._shared.host)

    def _cpus_of(self, uid: str, container: str) -> tuple[str, bool]:
        assert self.resources is not None
        return self.resources.cpus_of(uid, container)

    def _duration(self, kind: str, _name: str) -> int:
        return DEFAULTS[kind] << self._shared.ctx.choose("duration", SLOWNESS, kind)

    async def _work(self, ctx: Context, worker: Worker) -> None:
        """One pod from its first step to its end."""
        shared, machine = self._shared, worker.machine
        assert self.resources is not None
        static = is_static(machine.pod)
        if static:
            await self._its_turn(ctx, worker)
            worker.mirror = worker.pending_mirror
        while True:
            worker.told = False
            pending, worker.pending = worker.pending, None
            if static:
                self._look_at_mirror(worker, pending)
            if pending is not None:
                machine.update(pending, shared.now())
            if machine.resync_due(shared.now()):
                self._probed(machine.uid)
            if machine.phase == SYNC:
                await self._objects.register(ctx, machine.pod, worker)
                await self.probers.add(ctx, machine.pod)
            deadline = await self._step(ctx, worker)
            self._after(machine)
            if not machine.active:
                worker.stopped.notify_all()
                gone = machine.uid not in shared.pods
                if shared.fixes.fixed(COUNTS_UNTIL_STOPPED if gone else ENDED_BY_OTHERS_COUNTS):
                    await self.resources.retry_for_stopped(ctx)
            if machine.phase == FINISHED and not machine.sandbox.running():
                self._objects.forget(machine.uid)
                self._tokens.forget(machine.uid)
                if static:
                    self._order.ended(machine.pod.key, machine.uid)
                shared.tidy_up()
                return
            resting = (deadline is None or machine.only_recurs) and (
                worker.resync_at is None or not worker.shown
            )
            if worker.resync_at is not None:
                deadline = worker.resync_at if deadline is None else min(deadline, worker.resync_at)
            if worker.told or (deadline is not None and deadline <= shared.now()):
                await ctx.point("kubelet.pod")
                continue
            wait = None if deadline is None else deadline - shared.now()
            await worker.changed.wait(wait, idle=resting, point="kubelet.pod")

    async def _its_turn(self, ctx: Context, worker: Worker) -> None:
        """Wait until a static pod may start: one of its full name after the other."""
        machine = worker.machine
        while not machine.terminating:
            if self._order.may_start(machine.pod.key, machine.uid, self._is_over):
                return
            share = ctx.choose("jitter", JITTER_OPTIONS, "static pod that waits")
            wait = BACK_OFF + BACK_OFF * share // (2 * (JITTER_OPTIONS - 1))
            await worker.changed.wait(wait, point="kubelet.pod.start")

    def _is_over(self, uid: str) -> bool:
        found = self.get(uid)
        return found is None or found.terminating

    def _look_at_mirror(self, worker: Worker, pending: Pod | None) -> None:
        """Choose the mirror pod for the next sync, and whether there is a sync for its sake alone."""
        shared, machine = self._shared, worker.machine
        if pending is not None:
            worker.mirror, worker.pending_mirror = worker.pending_mirror, None
        if machine.phase != SYNC or not self.mirrors.wrong(machine.pod):
            worker.resync_at = None
        elif worker.resync_at is None:
            share = shared.ctx.choose("jitter", JITTER_OPTIONS, "next sync")
            late = RESYNC_NS * share // (2 * (JITTER_OPTIONS - 1))
            worker.resync_at = shared.now() + RESYNC_NS + late
        elif worker.resync_at <= shared.now():
            worker.resync_at = None
            worker.mirror = shared.pods.mirror(machine.pod)
            machine.poke()

    def _after(self, machine: PodWorker) -> None:
        """Notify the tasks that watch the pod's containers of a step."""
        if machine.waits_for_cache:
            self.pleg.cache.wait(machine.uid)
        self.pleg.look_at(machine.uid)
        if self.programs is not None:
            self.programs.look_at(machine.pod, machine.sandbox)
        if self._shared.host.attached is None and any(
            each.life is not None and each.life.waits
            for each in machine.sandbox.containers.values()
        ):
            shared = self._shared
            shared.host.attached = shared.ctx.mailbox("attached")
            shared.ctx.spawn(
                clients.run, shared.host, shared.now, self.pleg.look_at, name="attached"
            )
        if self.evictions is not None:
            self.evictions.look_again()
        if machine.phase == TERMINATING:
            self.probers.stop(machine.uid)
        elif machine.phase != SYNC:
            self.probers.remove(machine.uid)

    async def _step(self, ctx: Context, worker: Worker) -> int | None:
        """Let the pod go on; when to look again."""
        shared, machine = self._shared, worker.machine
        resources = self.resources
        assert resources is not None
        self._note_phase(ctx, worker)
        actions, deadline = machine.step(shared.now())
        self._note_phase(ctx, worker)
        pod = machine.pod
        names: dict[str, str] = {}
        for number, action in enumerate(actions, 1):
            if not number % ACTIONS:
                await ctx.point("kubelet.pod.slice")
            if isinstance(action, Event):
                about = reference(pod)
                if action.container:
                    about["fieldPath"] = f"spec.containers{{{action.container}}}"
                shared.event(about, action.type, action.reason, action.message)
            elif isinstance(action, SetStatus):
                if shared.statuses.set(pod, action.status):
                    shared.status_changed()
                    resources.reassign()
                    self.probers.told(pod.uid)
            elif isinstance(action, Made):
                self._note_container(ctx, pod, "started", action.container, action.container_id)
                self._writes.look_at(machine.sandbox)
                await resources.made(ctx, pod, action.container, action.container_id)
            elif isinstance(action, Ended):
                if ctx.noting:
                    names = names or _names(machine)
                    name = names.get(action.container_id, action.container_id)
                    self._note_container(ctx, pod, "ended", name, action.container_id)
                await resources.ended(ctx, action.container_id)
            elif isinstance(action, Resize):
                if await self._carry_out(ctx, machine, action):
                    machine.poke()
                    worker.told = True
            elif isinstance(action, (PrepareClaims, UnprepareClaims)):
                await self._serve_claims(ctx, worker, action)
            elif isinstance(action, ReconcileMirror):
                worker.shown = await self.mirrors.reconcile(ctx, action.pod, worker.mirror)
            elif shared.statuses.terminate(pod):
                shared.status_changed()
        return deadline

    async def _serve_claims(
        self, ctx: Context, worker: Worker, action: PrepareClaims | UnprepareClaims
    ) -> None:
        claims = worker.machine.claims
        assert self.claims is not None and claims is not None
        if isinstance(action, PrepareClaims):
            claims.done(await self.claims.prepare(ctx, action.pod))
        else:
            claims.done(await self.claims.unprepare(ctx, action.pod))
        worker.told = True

    @staticmethod
    def _note_phase(ctx: Context, worker: Worker) -> None:
        """Note that a pod's worker is at something else."""
        pod, phase = worker.machine.pod, worker.machine.phase
        if ctx.noting and worker.noted != phase:
            worker.noted = phase
            data = {"phase": phase}
            ctx.note("kubelet.worker", obj=f"Pod/{pod.key}", uid=pod.uid, data=data)

    @staticmethod
    def _note_container(
        ctx: Context, pod: Pod, change: str, container: str, container_id: str
    ) -> None:
        if ctx.noting:
            data = {"container": container, "change": change, "id": container_id}
            ctx.note("kubelet.container", obj=f"Pod/{pod.key}", uid=pod.uid, data=data)

    async def _carry_out(self, ctx: Context, machine: PodWorker, wanted: Resize) -> bool:
        """One step of a resize after the other; the first that fails ends it. Upstream: doPodResizeAction.

        Whether there is something new to tell of the pod.
        """
        assert self.resources is not None

        def happens() -> bool:
            return ctx.choose("runtime", 2, "update of resources") == 1

        news = False
        for step in wanted.plan.steps:
            await ctx.region("kubelet.pod.resize")
            if not machine.apply(wanted.pod, step, self._shared.now(), happens):
                return True
            news = news or isinstance(step, ContainerStep)
        return self.resources.resizing.finished(wanted.pod) or news

    def until_next_sync(self) -> int:
        """Choose the nanoseconds until the next periodic sync of a pod that rests: none, or half or all of the most.

        Upstream: the work queue of pkg/kubelet/pod_workers.go (completeWork), syncFrequency and half of it as jitter.
        """
        share = self._shared.ctx.choose("jitter", JITTER_OPTIONS, "next sync")
        return (RESYNC_NS + RESYNC_NS // 2) * share // (JITTER_OPTIONS - 1)

    # ------------------------------------------------------------------ pods that count

    def agreed(self, uid: str, told: Tree, shown: Tree) -> None:
        """The API server shows the reported status of a pod, in a tree of its own."""
        found = self.get(uid)
        if found is not None:
            found.agreed(told, shown)

    def may_run(self, uid: str) -> bool:
        """Return whether containers of a pod may still run, or its claims are prepared.

        Upstream: PodCouldHaveRunningContainers.
        """
        found = self.get(uid)
        if found is not None and found.active:
            return True
        return self.claims is not None and self.claims.might_need(uid)

    def active_pods(self) -> list[Pod]:
        """The pods that count, in the order in which they came.

        Fix gate 104824 (open upstream). A pod whose object is gone is forgotten while its containers
        still stop: what is theirs is given to others. The repair here lets it count until its worker
        knows that they have stopped.
        """
        form = self._shared.fixes.variant(TERMINAL_IS_INACTIVE)
        pods = self._shared.pods.items()
        found = [pod for uid, pod in pods if self._counts(uid, pod, form)]
        if self._shared.fixes.fixed(COUNTS_UNTIL_STOPPED):
            gone = [
                worker.machine
                for uid, worker in self._workers.items()
                if uid not in self._shared.pods
            ]
            found += [machine.pod for machine in gone if machine.active]
        return found

    def _counts(self, uid: str, pod: Pod, form: str | None) -> bool:
        """Return whether a pod counts when others are admitted. Upstream: GetActivePods.

        Not when its worker knows that its containers have stopped, nor when it is known to have ended
        without a request to terminate it.

        Fix gate 104577 (1.22), of which `form` is the form. Before, every pod counted until its worker knew
        that nothing of it ran, long after its end had been reported to the scheduler. The fix in its first
        form let no pod count that had ended; later ones that are being terminated count again.

        Fix gate here14 (open upstream). A pod that another client ended counts no longer, though its containers run
        until the next periodic sync. The repair here lets it count until its worker knows that they have stopped.
        """
        found = self._workers.get(uid)
        if found is not None and not found.machine.active:
            return False
        if form is None:
            return True
        known = self._shared.statuses.get(uid) or {}
        if pod.status.phase not in TERMINAL:
            if known.get("phase") not in TERMINAL:
                return True
        elif found is not None and not known.get("reason"):
            # Not of a pod that this kubelet refused or evicted, which its status gives the reason of.
            if self._shared.fixes.fixed(ENDED_BY_OTHERS_COUNTS):
                return True
        return form != NEVER_ACTIVE and found is not None and found.is_to_end


def _names(machine: PodWorker) -> dict[str, str]:
    """The names of the containers of the pod's sandbox by their ids, for the log."""
    containers = machine.sandbox.containers.items()
    return {container.container_id: name for name, container in containers}
