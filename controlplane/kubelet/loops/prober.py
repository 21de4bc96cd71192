"""The probe manager: one task per probe of a container, from the pod's first sync to its end.

Points: `kubelet.prober` (before a look), `kubelet.prober.slice` (a batch of probes was started). Looks that would
find what is known already are left out; a command is run each time, and once its outcome counts that is periodic
work until files change. Upstream:
pkg/kubelet/prober/prober_manager.go; results reach the pod's worker through the sync loop.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controlplane.client.loops.event_recorder import reference
from controlplane.kubelet.loops.executing import probed
from controlplane.kubelet.pod.container_runtime import READINESS, describes_probes
from controlplane.kubelet.pod.pod_state import addressed
from controlplane.kubelet.pod.prober import ProbeWorker, Results, probes_of
from controlplane.sharing.memory import by_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors import Condition, Context, Task
    from controlplane.api.containers import Probe
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.kubelet.loops.shared import Shared
    from controlplane.kubelet.pod.references import Find
    from controlplane.shell.running import Outcome

SLICE = 200
"""The number of probes that are started before other tasks may run."""
JITTER_OPTIONS = 4
"""A probe that begins soon after the kubelet's start waits for a part of its period first."""


class Probers:
    """The probes of one kubelet's pods."""

    def __init__(
        self, shared: Shared, probed: Callable[[str], None], find: Callable[[str], Find]
    ) -> None:
        self._shared = shared
        self._probed = probed
        self._find = find
        self._workers: dict[str, list[ProbeWorker]] = {}
        """By uid, the probes whose commands may be run."""
        self._tasks: dict[str, Sequence[tuple[str, Task]]] = {}
        self._told: dict[str, Condition] = {}
        self.results = Results()

    async def add(self, ctx: Context, pod: Pod) -> None:
        """Start a pod's probes, once; very many of them in slices."""
        if pod.uid in self._tasks:
            return
        shared, probes = self._shared, probes_of(pod)
        tasks: list[tuple[str, Task]] = []
        self._tasks[pod.uid] = tasks if probes else ()
        sandbox = shared.host.sandboxes[pod.uid]
        for number, (kind, container, probe) in enumerate(probes):
            if number and not number % SLICE:
                await ctx.point("kubelet.prober.slice")
                if self._tasks.get(pod.uid) is not tasks:
                    return  # stopped or forgotten meanwhile
            told = self._told.setdefault(pod.uid, shared.ctx.condition())
            program = sandbox.containers[container.name].program
            worker = ProbeWorker(kind, container.name, probe, program, shared.now())
            if probe.exec is not None and not describes_probes(pod, container.name):
                worker.execute = partial(self._execute, pod, container.name, probe)
                self._workers.setdefault(pod.uid, []).append(worker)
            if worker.period > shared.ctx.now - shared.started:
                share = shared.ctx.choose("jitter", JITTER_OPTIONS, "first probe")
                worker.first += worker.period * share // JITTER_OPTIONS
            task = shared.ctx.spawn(self._probe, pod, worker, told, name="prober")
            tasks.append((kind, task))

    def told(self, uid: str) -> None:
        """The status manager tells something new of a pod."""
        if uid in self._told:
            self._told[uid].notify_all()

    def files_changed(self, uid: str) -> None:
        """A program of the pod has written a file: what commands found may be true no more."""
        for worker in self._workers.get(uid, ()):
            worker.files_changed()
        self.told(uid)

    def _execute(self, pod: Pod, container: str, probe: Probe) -> Outcome | None:
        """Run the command of a probe, if the emulated shell runs the container's program."""
        shared = self._shared
        sandbox = shared.host.sandboxes.get(pod.uid)
        found = None if sandbox is None else sandbox.containers[container]
        if sandbox is None or found is None or found.life is None:
            return None
        tree = addressed(pod.tree, shared.host.host_ip, sandbox.ip)
        find = self._find(pod.namespace)
        return probed(tree, found, probe, shared.now(), find, shared.host)

    def stop(self, uid: str) -> None:
        """The pod is being terminated: only its readiness is of interest still."""
        left = self._tasks.get(uid)
        if left:
            for kind, task in left:
                if kind != READINESS:
                    self._shared.ctx.cancel(task)
            self._tasks[uid] = [each for each in left if each[0] == READINESS]

    def remove(self, uid: str) -> None:
        """The pod's containers have stopped."""
        for _, task in self._tasks.get(uid, ()):
            self._shared.ctx.cancel(task)
        if self._tasks.get(uid):
            self._tasks[uid] = []
        self._told.pop(uid, None)
        self._workers.pop(uid, None)

    def forget(self, uid: str) -> None:
        """Nothing is left of the pod."""
        self.remove(uid)
        self._tasks.pop(uid, None)

    async def _probe(self, ctx: Context, pod: Pod, worker: ProbeWorker, told: Condition) -> None:
        """Look whenever there may be something to find."""
        shared = self._shared
        due: int | None = worker.at_or_after(shared.now())
        while True:
            if due is None:
                await told.wait(idle=True, point="kubelet.prober")
                due = worker.next_look(self._status(pod.uid, worker.container), shared.now())
                continue
            if due > shared.now():
                wait = due - shared.now()
                if not worker.rests:
                    await ctx.sleep(wait, point="kubelet.prober")
                elif await told.wait(wait, idle=True, point="kubelet.prober"):
                    due = worker.next_look(self._status(pod.uid, worker.container), shared.now())
                    continue
            news, said = worker.look(
                self._status(pod.uid, worker.container), self.results, shared.now()
            )
            if said:
                about = reference(pod)
                about["fieldPath"] = f"spec.containers{{{worker.container}}}"
                shared.event(about, "Warning", "Unhealthy", said)
            if news:
                self._probed(pod.uid)
            due = worker.next_look(self._status(pod.uid, worker.container), shared.now())

    def _status(self, uid: str, container: str) -> Tree | None:
        """A container as the status manager tells of it."""
        status = self._shared.statuses.get(uid)
        return None if not status else _by_name(status).get(container)


@by_identity
def _by_name(status: Tree) -> dict[str, Tree]:
    """The statuses of containers by name: each probe of a pod looks one up whenever the status changes."""
    found: dict[str, Tree] = {}
    for part in ("containerStatuses", "initContainerStatuses"):
        for each in status.get(part) or ():
            found.setdefault(each["name"], each)
    return found
