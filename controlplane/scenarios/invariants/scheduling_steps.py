"""Invariants of the scheduler after each of its steps, without a grace period.

Each rule is asked only when what it looks at has moved, as far as that is one thing whose changes are reported at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.scheduling import CHOSEN_BY_USERS, SCHEDULER, cpu_of, pods
from controlplane.scenarios.invariants.scheduling_picture import entries
from controlplane.scenarios.invariants.views import the_cache, the_queue, the_room

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scenarios.engine.run import Run
    from controlplane.scheduler.framework.preemption_task import PreemptionTask
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.scheduler import Scheduler

_ENTRIES = "fresh entries of the scheduling queue"
_EVICTED = "evictions that were looked at"
_MADE = "room that was made"


def _one_entry_per_version(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    seen = run.notes.get(_ENTRIES)
    if seen is None or seen[0] is not core:
        seen = run.notes[_ENTRIES] = (core, {}, {})
    known: dict[int, QueuedPodInfo] = seen[1]
    first: dict[tuple[str, str], QueuedPodInfo] = seen[2]
    for info in entries(core.queue):
        if id(info) in known:
            continue
        known[id(info)] = info  # held, so that no other entry gets its identity
        if info.attempts:
            continue
        version = (info.uid, info.pod.resource_version)
        if first.setdefault(version, info) is not info:
            return f"{info.key} entered the queue as new for the second time, and nothing has changed since"
    return None


def _pop_does_not_sleep(run: Run) -> str | None:
    probe = run.cluster.scheduler
    core, poppable = probe.core, probe.poppable
    if core is None or poppable is None or not poppable.waiters:
        return None
    queue = core.queue
    if queue.locked or queue.signalled or not queue.can_pop():
        return None
    return "Pop sleeps beside a pod that may be popped"


def _no_victim_is_chosen_twice(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None or len(core.evictions) < 2:
        return None
    *earlier, last = core.evictions
    if run.notes.get(_EVICTED) is last:
        return None
    run.notes[_EVICTED] = last
    whole = {
        pod.uid
        for pod in pods(run).values()
        if pod.spec.node_name and pod.metadata.deletion_timestamp is None
    }  # one that is not bound yet is stopped in memory, and counts until its binding cycle ends
    for task in earlier:
        if task.preemptor.uid != last.preemptor.uid:
            continue
        for victim in task.victims:
            if victim.uid in whole and any(victim.uid == each.uid for each in last.victims):
                return f"{victim.name} is to be evicted again for {last.preemptor.name} before it is evicted"
    return None


@define
class _Made:
    """Room that was made, by the uid of the pod for which: the decision, and that pod's attempts since."""

    core: Scheduler
    last: PreemptionTask | None = None
    changes: int = -1
    generation: int = -1
    rooms: dict[str, tuple[PreemptionTask, int]] = field(factory=dict)
    counted: dict[str, None] = field(factory=dict)

    def follow_decisions(self) -> None:
        """A new decision; one for a more important pod on the same node puts an end to others there."""
        tasks = self.core.evictions
        if not tasks or tasks[-1] is self.last:
            return
        task = self.last = tasks[-1]
        for uid, (other, _) in list(self.rooms.items()):
            if other.node_name == task.node_name and _priority(other.preemptor) < _priority(
                task.preemptor
            ):
                del self.rooms[uid]
        self.rooms[task.preemptor.uid] = (task, 0)

    def follow_attempts(self) -> None:
        """With the next attempt of its pod the room is up for a new decision."""
        if not self.rooms or self.changes == self.core.queue.changes:
            return
        self.changes = self.core.queue.changes
        for info in entries(self.core.queue):
            task, attempts = self.rooms.get(info.uid, (None, 0))
            if task is None:
                continue
            if attempts in (0, info.attempts):
                self.rooms[info.uid] = (task, info.attempts)
            else:
                del self.rooms[info.uid]

    def newly_assumed(self) -> list[Pod]:
        """Pods that have been assumed since the last look."""
        cache = self.core.cache
        if self.generation == cache.generation:
            return []
        self.generation = cache.generation
        before, self.counted = self.counted, dict.fromkeys(cache.uids())
        new = [cache.get_pod(uid) for uid in self.counted if uid not in before]
        return [pod for pod in new if pod is not None and cache.is_assumed_pod(pod)]


def _room_is_kept(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    made = run.notes.get(_MADE)
    if made is None or made.core is not core:
        made = run.notes[_MADE] = _Made(core)
    made.follow_decisions()
    made.follow_attempts()
    for pod in made.newly_assumed():
        made.rooms.pop(pod.uid, None)
        if not made.rooms or pod.spec.node_name in run.notes.get(CHOSEN_BY_USERS, {}):
            continue
        violation = _taken(made, pod)
        if violation is not None:
            return violation
    return None


def _taken(made: _Made, pod: Pod) -> str | None:
    """Return whether the pod that was just assumed took room that was made for one no less important, which waits for
    it.
    """
    core = made.core
    info = core.cache.nodes.get(pod.spec.node_name)
    if info is None:
        return None
    waiting = {each.uid: each for each in entries(core.queue)}
    for uid, (task, attempts) in made.rooms.items():
        owner = waiting.get(uid)
        if task.node_name != pod.spec.node_name or owner is None or not attempts:
            continue
        free = info.allocatable.milli_cpu - info.requested.milli_cpu
        if _priority(owner.pod) >= _priority(pod) and cpu_of(owner.pod) > free:
            return f"{pod.name} took room on {task.node_name} that was made for {owner.key}"
    return None


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def _is_requeued_twice(run: Run) -> str | None:
    """Without queueing hints nothing says that a pod is in flight: there upstream queues copies to this day."""
    core = run.cluster.scheduler.core
    if core is None or not core.queue.options.hints_enabled:
        return None
    return core.queue.refused or None


_PODS_OF_NODES = "pods of the scheduler's nodes"
_TOLD_TOO_MUCH = "nodes whose bound pods ask for more than there is"


def _nothing_is_counted_twice(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    chosen = run.notes.get(CHOSEN_BY_USERS, {})
    seen: dict[str, set[str]] = run.notes.setdefault(_PODS_OF_NODES, {})
    excused: set[str] = run.notes.setdefault(_TOLD_TOO_MUCH, set())
    for name, info in core.cache.nodes.items():
        if info.node is None or name in chosen:
            continue
        promised, room = info.requested.milli_cpu, info.allocatable.milli_cpu
        before = seen.get(name, set())
        fresh = [each.pod for each in info.pods if each.pod.uid not in before]
        seen[name] = {each.pod.uid for each in info.pods}
        if promised <= room:
            excused.discard(name)
        elif fresh and not any(core.cache.is_assumed_pod(pod) for pod in fresh):
            # A binding took effect though its answer was lost: its pod comes to room that was given away since.
            excused.add(name)
        elif name not in excused:
            return f"the scheduler counts {promised}m of CPU on {name}, which has {room}m"
        counted = sum(cpu_of(each.pod) for each in info.pods)
        if counted != promised:
            return f"the scheduler counts {promised}m of CPU on {name}; its pods ask for {counted}m"
    return None


ONE_ENTRY_PER_VERSION = Invariant(
    "a pod is new to the queue once in each version",
    _one_entry_per_version,
    (SCHEDULER,),
    looks_at=the_queue,
)
POP_DOES_NOT_SLEEP = Invariant(
    "Pop does not sleep beside a pod that may be popped", _pop_does_not_sleep, (SCHEDULER,)
)
NO_VICTIM_IS_CHOSEN_TWICE = Invariant(
    "no victim is chosen again while its eviction is under way",
    _no_victim_is_chosen_twice,
    (SCHEDULER,),
    looks_at=the_room,
)
ROOM_THAT_WAS_MADE_IS_KEPT = Invariant(
    "room that was made for a pod is kept for it", _room_is_kept, (SCHEDULER,), looks_at=the_room
)
A_FAILED_POD_FINDS_ITS_PLACE_EMPTY = Invariant(
    "a pod is requeued once", _is_requeued_twice, (SCHEDULER,)
)
NOTHING_IS_COUNTED_TWICE = Invariant(
    "no node is overcommitted in the scheduler's picture",
    _nothing_is_counted_twice,
    (SCHEDULER,),
    looks_at=the_cache,
)
STEPS = (
    ONE_ENTRY_PER_VERSION,
    POP_DOES_NOT_SLEEP,
    NO_VICTIM_IS_CHOSEN_TWICE,
    ROOM_THAT_WAS_MADE_IS_KEPT,
    A_FAILED_POD_FINDS_ITS_PLACE_EMPTY,
    NOTHING_IS_COUNTED_TWICE,
)
"""All of them."""
