"""Looks at a run between its steps, and tells a model what no log has.

It takes no step and changes none: a run that is watched has the trace of one that is not.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.storage.store import CompactedError
from controlplane.kubelet.cm.cpumanager.topology import discover
from controlplane.kubelet.cm.cpuset import EMPTY, bits
from controlplane.page.attempts import CELLS, tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controlplane.apiserver.storage.store import Event, Keyspace
    from controlplane.kubelet.cm.container_manager import ContainerManager
    from controlplane.logs.reading import Line
    from controlplane.page.model import Model
    from controlplane.scenarios.engine.run import Run
    from controlplane.scheduler.cycle.attempt import Attempt
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.loops.scheduler import Probe
    from controlplane.scheduler.queue.scheduling_queue import PriorityQueue

__all__ = ["Watching"]

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED = "active", "backoff", "unschedulable", "gated"
IN_FLIGHT, BINDING = "in flight", "binding"
_Waiting = tuple[str, int, int, tuple[str, ...]]
"""Object, attempts, end of backoff in virtual nanoseconds, plugins that refused it."""
POLICY = "static"
"""Policies that hand things out; the names of both managers' begin so in lower case."""


class Watching:
    """Watches one run for one model.

    `lines` are the events of the run's log in order of steps: those of a step are added before what was
    seen of it. Give none where they are added otherwise. Call `begin` before the run and `end` after it.
    """

    def __init__(self, run: Run, model: Model, lines: Iterable[Line] = ()) -> None:
        self._run = run
        self._model = model
        self._lines: Iterator[Line] = iter(lines)
        self._next: Line | None = None
        self._actors: dict[str, None] = {}
        self._revision = 0
        self._caches: dict[tuple[str, str], tuple[int, int]] = {}
        self._queue: tuple[object, int] = (None, 0)
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self._tried: dict[str, tuple[str, int]] = {}
        """By uid: a pod that was in a queue, and how often it had been tried."""
        self._names: dict[str, str] = {}
        """By uid: pods that were stored."""
        self._chosen = 0
        self._managers: dict[str, tuple[object, object]] = {}
        self._cells = 0
        self._gaps = False

    def begin(self) -> None:
        """Tell what is there before the first step, and look after every step from now on."""
        self._next = next(self._lines, None)
        cluster = self._run.cluster
        for prefix in cluster.store.prefixes():
            for key, obj in cluster.store.keyspace(prefix).items():
                name = f"{prefix}{key}"
                self._model.add_version(0, name, obj.resource_version, obj.place, obj.uid, obj.tree)
        self._revision = cluster.store.revision
        for probe in cluster.probes:
            probe.searched.on_put = partial(self._searched, probe)
        self._run.world.observe(1, self._look)

    def end(self) -> None:
        """Tell what the last step did, and the rest of the log."""
        self._see(self._run.world.steps)
        while self._next is not None:
            self._add_line(self._next)
        if self._cells > CELLS:
            self._model.lacks.append(
                f"tables of plugins stand here for the first {CELLS:,} answers of plugins;"
                " later attempts show what the log has"
            )
        if self._gaps:
            self._model.lacks.append(
                "some versions of objects were compacted before they were seen"
            )

    def look(self) -> None:
        """Report what the last step changed, for readers that ask between two steps."""
        self._see(self._run.world.steps)
        self._see_cpus(self._run.world.steps, self._run.cluster.machines)

    def _look(self) -> None:
        self._see(self._run.world.steps - 1)

    def _see(self, step: int) -> None:
        """The changes of a finished step."""
        self._actors.clear()
        while self._next is not None and self._next.step <= step:
            self._add_line(self._next)
        self._see_store(step)
        self._see_caches(step)
        self._see_queue(step)
        self._see_choices(step)
        self._see_cpus(step, self._actors)

    def _add_line(self, line: Line) -> None:
        self._model.add_line(line)
        self._actors[line.actor] = None
        self._next = next(self._lines, None)

    # ------------------------------------------------------------------ objects

    def _see_store(self, step: int) -> None:
        store = self._run.cluster.store
        seen = self._revision
        if store.revision == seen:
            return
        news: list[tuple[Event, Keyspace]] = []
        for space in store.keyspaces.values():
            if space.latest > seen:
                try:
                    news += [(event, space) for event in space.news_after(seen)]
                except CompactedError:
                    self._gaps = True
        for event, space in sorted(news, key=lambda each: each[0].revision):
            shown = event.new or event.old
            assert shown is not None
            tree = None if event.new is None else event.new.tree
            if shown.kind == "Pod":
                self._names[shown.uid] = shown.place
            name = f"{space.prefix}{event.key}"
            self._model.add_version(step, name, event.revision, shown.place, shown.uid, tree)
        self._revision = store.revision

    def _see_caches(self, step: int) -> None:
        """Report caches whose distance from the store changed; one that keeps up is reported once."""
        store = self._run.cluster.store
        for server, core in self._run.cluster.servers.items():
            for prefix, cache in core.caches.known().items():
                space = store.keyspaces.get(prefix)
                behind = 0
                if space is not None and space.latest > cache.revision:
                    try:
                        behind = len(space.news_after(cache.revision))
                    except CompactedError:
                        behind = -1
                before = self._caches.get((server, prefix))
                if (
                    before is None
                    or before[0] != behind
                    or (behind and before[1] != cache.revision)
                ):
                    self._caches[server, prefix] = behind, cache.revision
                    self._model.add_cache(step, server, prefix, cache.revision, behind)

    # ------------------------------------------------------------------ the scheduler

    def _see_queue(self, step: int) -> None:
        probes = self._run.cluster.probes
        core = self._run.cluster.scheduler.core if probes else None
        if core is None:
            return
        queue = core.queue
        if self._queue == (queue, queue.changes):
            return
        self._queue = (queue, queue.changes)
        now = dict(self._places(queue))
        before, self._waiting = self._waiting, now
        for where, told in before.items():
            if where not in now:
                place, uid = where
                self._model.add_queued(step, place, told[0], uid, there=False)
        for where, told in now.items():
            if before.get(where) != told:
                place, uid = where
                obj, attempts, until, plugins = told
                self._model.add_queued(
                    step,
                    place,
                    obj,
                    uid,
                    there=True,
                    attempts=attempts,
                    until_ns=until,
                    plugins=plugins,
                )

    def _places(self, queue: PriorityQueue) -> Iterator[tuple[tuple[str, str], _Waiting]]:
        epoch = self._run.cluster.config.epoch_ns

        def told(info: QueuedPodInfo, until: int = 0) -> _Waiting:
            plugins = (
                (info.gating_plugin,) if info.gating_plugin else tuple(info.rejector_plugins())
            )
            obj = f"Pod/{info.key}"
            self._tried[info.uid] = obj, info.attempts
            return obj, info.attempts, until, plugins

        for info in queue.active_q.heap:
            yield (ACTIVE, info.uid), told(info)
        for heap in (queue.backoff_q.heap, queue.backoff_q.error_heap):
            for info in heap:
                until = (info.backoff_expiration or epoch) - epoch
                yield (BACKOFF, info.uid), told(info, until)
        for info in queue.unschedulable:
            yield (GATED if info.gated else UNSCHEDULABLE, info.uid), told(info)
        for uid in queue.active_q.in_flight:
            yield (IN_FLIGHT, uid), self._waiting.get((IN_FLIGHT, uid)) or self._popped(uid)
        for uid in queue.active_q.binding:
            before = self._waiting.get((BINDING, uid)) or self._waiting.get((IN_FLIGHT, uid))
            yield (BINDING, uid), before or self._popped(uid)

    def _popped(self, uid: str) -> _Waiting:
        """A pod that was popped: the queue keeps no more of it than its uid."""
        obj, attempts = self._tried.get(uid) or (self._names.get(uid, ""), 0)
        return obj, attempts + 1, 0, ()

    def _searched(self, probe: Probe, told_of: tuple[Attempt, int]) -> None:
        """An attempt has looked for a node: ask the plugins again, as far as there is room for their answers."""
        attempt, start = told_of
        from controlplane.scheduler.cycle.explain import explain

        core = probe.core
        if core is None or self._cells > CELLS:
            return
        told = tables(explain(core.search, attempt, start))
        self._cells += len(core.snapshot) * len(attempt.framework.plugins.filter)
        pod = attempt.pod
        self._model.add_attempt(self._run.world.steps, f"Pod/{pod.key}", pod.uid, told)

    # ------------------------------------------------------------------ the runtime

    def _see_choices(self, step: int) -> None:
        """Non-default choices. The choice of the next task belongs to the end of the step before."""
        choices = self._run.world.choices
        for index in range(self._chosen, len(choices)):
            kind, n, value, label = choices[index]
            if value:
                self._model.add_choice(
                    step + 1 if kind == "task" else step, index, kind, n, value, label
                )
        self._chosen = len(choices)

    # ------------------------------------------------------------------ nodes

    def _see_cpus(self, step: int, names: Iterable[str]) -> None:
        """Only kubelets that ran can have changed anything: those among `names`."""
        machines = self._run.cluster.machines
        for name in names:
            host = machines.get(name)
            manager = None if host is None else host.containers
            if manager is None:
                continue
            state = manager.cpu.state, manager.memory.state
            if not any(POLICY in each.policy.lower() for each in state):
                continue
            before = self._managers.get(name)
            if before is None or before[0] is not state[0] or before[1] is not state[1]:
                self._managers[name] = state
                self._model.add_cpus(step, name, _cpus(manager))


def _cpus(manager: ContainerManager) -> dict[str, Any]:
    """Each NUMA node with its cores and memory, and what every container has."""
    topology = discover(manager.machine)
    cpus, memory = manager.cpu.state, manager.memory.state
    return {
        "policies": [cpus.policy, memory.policy],
        "reserved": getattr(manager.cpu.policy, "reserved", EMPTY).to_list(),
        "shared": cpus.default.to_list(),
        "numa": [
            {
                "id": numa,
                "cores": [
                    list(bits(core & mask)) for core in topology.cores.values() if core & mask
                ],
                "memory": {
                    kind: [table.reserved, table.allocatable]
                    for kind, table in memory.machine[numa].memory.items()
                }
                if numa in memory.machine
                else {},
            }
            for numa, mask in topology.numas.items()
        ],
        "owned": [
            [uid, container, own.to_list()]
            for uid, containers in sorted(cpus.assignments.items())
            for container, own in sorted(containers.items())
        ],
    }
