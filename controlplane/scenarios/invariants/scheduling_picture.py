"""The scheduler's state soon agrees with the events that its own informers delivered.

Between an informer's store and the cache, the queue and the nominator stand handlers and cycles, so
for a moment each may differ from what the store says. Each rule here says of what it sees how long
that may last, in virtual time, and that nothing of it may last once the run has settled. It compares
with the informer and not with the API server, so it holds whatever the network does.

Within one instant everything that can happen happens before time goes on, so one look in each
instant is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from controlplane.api.times import SECOND
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.scheduling import SCHEDULER, cpu_of
from controlplane.scenarios.invariants.views import the_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controlplane.api.pod import Pod
    from controlplane.scenarios.engine.run import Run
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.queue.scheduling_queue import PriorityQueue
    from controlplane.scheduler.scheduler import Scheduler
    from controlplane.scheduler.state.node_info import NodeInfo

MOMENT = 2 * SECOND
BACKOFF = 30 * SECOND
"""Longer than any backoff: a pod that serves one has been looked at again."""
ANSWER = 60 * SECOND
"""Longer than the churn's outages: a binding cycle that waits for an answer is over."""
FLUSH = 335 * SECOND
"""Longer than five minutes in the unschedulable pool and the half minute between two flushes."""
_NOTE = "the scheduler's picture"
_LOOK = "the last look at the scheduler's picture"


@frozen
class Picture:
    """The scheduler and what its informer has of pods, by uid."""

    core: Scheduler
    pods: dict[str, Pod]


@frozen
class PictureRule:
    """`wrong` gives what is wrong now, by what identifies it; none of it may be wrong for longer than `lasts`."""

    name: str
    wrong: Callable[[Picture], Iterator[tuple[str, str]]]
    lasts: int = MOMENT
    settles: bool = True
    """The state must be exact once the run has settled."""


def entries(queue: PriorityQueue) -> Iterator[QueuedPodInfo]:
    """All that waits in the queue, wherever."""
    yield from queue.active_q.heap
    yield from queue.backoff_q.heap
    yield from queue.backoff_q.error_heap
    yield from queue.unschedulable


def _what_is_gone_is_counted(seen: Picture) -> Iterator[tuple[str, str]]:
    cache = seen.core.cache
    for uid in cache.uids():
        if uid not in seen.pods:
            pod = cache.get_pod(uid)
            assert pod is not None
            yield uid, f"{pod.name} is gone and still takes room on {pod.spec.node_name}"


def _what_is_bound_is_not_counted(seen: Picture) -> Iterator[tuple[str, str]]:
    cache = seen.core.cache
    for uid, pod in seen.pods.items():
        if not pod.spec.node_name:
            continue
        known = cache.get_pod(uid)
        if known is None:
            yield uid, f"{pod.name} is bound and not counted"
        elif cache.is_assumed_pod(pod):
            yield uid, f"{pod.name} is bound and still taken for assumed"
        elif known.resource_version != pod.resource_version:
            yield uid, f"{pod.name} is counted as it no longer is"


def _nodes_differ(seen: Picture) -> Iterator[tuple[str, str]]:
    cache = seen.core.cache
    there = {node.name: node for node in seen.core.listers.nodes.list()}
    for name, info in cache.nodes.items():
        node = there.pop(name, None)
        if info.node is None:
            continue
        if node is None:
            yield name, f"node {name} is gone and still in the cache"
        elif node.metadata.resource_version != info.node.metadata.resource_version:
            yield name, f"node {name} is in the cache as it no longer is"
    for name in there:
        yield name, f"node {name} is not in the cache"


def _nominated_pods_do_not_wait(seen: Picture) -> Iterator[tuple[str, str]]:
    for uid, node in seen.core.queue.nominator.by_uid.items():
        if not node:
            continue  # a nomination that was taken back reserves nothing
        pod = seen.pods.get(uid)
        if pod is None:
            yield uid, f"room on {node} is kept for pod {uid}, which is gone"
        elif pod.spec.node_name:
            yield uid, f"room on {node} is kept for {pod.name}, which is bound"


def _queued_objects_are_old(seen: Picture) -> Iterator[tuple[str, str]]:
    for info in entries(seen.core.queue):
        pod = seen.pods.get(info.uid)
        if pod is not None and pod.resource_version != info.pod.resource_version:
            yield info.uid, f"{info.key} is queued as it no longer is"


def _gone_pods_are_in_flight(seen: Picture) -> Iterator[tuple[str, str]]:
    for uid in seen.core.queue.active_q.in_flight:
        if uid not in seen.pods:
            yield uid, f"pod {uid} is gone and still in flight"


def _pods_are_lost(seen: Picture) -> Iterator[tuple[str, str]]:
    core = seen.core
    queued = {info.uid for info in entries(core.queue)}
    flying = core.queue.active_q
    for uid, pod in seen.pods.items():
        if (
            pod.spec.node_name
            or uid in queued
            or uid in flying.in_flight
            or uid in flying.binding
            or pod.metadata.deletion_timestamp is not None
            or core.cache.get_pod(uid) is not None
            or not core.responsible_for(pod)
        ):
            continue
        yield uid, f"{pod.name} waits for a node and is in no queue"


def _bound_pods_are_tried(seen: Picture) -> Iterator[tuple[str, str]]:
    queue = seen.core.queue
    queued = {info.uid for info in entries(queue)}
    for uid, pod in seen.pods.items():
        if pod.spec.node_name and (uid in queued or uid in queue.active_q.in_flight):
            yield uid, f"{pod.name} is bound and tried again and again"


def _open_gates_hold(seen: Picture) -> Iterator[tuple[str, str]]:
    core = seen.core
    for info in core.queue.unschedulable:
        if not info.gated:
            continue
        framework = core.frameworks[info.pod.spec.scheduler_name]
        if all(each.pre_enqueue(info.pod) is None for each in framework.plugins.pre_enqueue):
            yield info.uid, f"{info.key} waits before a gate of {info.gating_plugin} that is open"


JUDGED = frozenset(
    ("NodeResourcesFit", "TaintToleration", "NodeUnschedulable", "NodeAffinity", "NodeName")
)
"""Plugins whose rejection can be judged by a node and its pods alone."""


def _fitting_pods_are_parked(seen: Picture) -> Iterator[tuple[str, str]]:
    core = seen.core
    for info in core.queue.unschedulable:
        if info.gated or info.pending_plugins or not JUDGED.issuperset(info.unschedulable_plugins):
            continue
        if info.uid not in seen.pods or not info.has_rejectors:
            continue
        for name, node in core.cache.nodes.items():
            if node.node is not None and _has_room(seen, node, info.pod):
                yield info.uid, f"{info.key} fits on {name}, and only the flush will wake it"
                break


def _has_room(seen: Picture, node: NodeInfo, pod: Pod) -> bool:
    """Return whether a pod fits by CPU, selector and taints, beside the pods that are expected on the node."""
    assert node.node is not None
    spec, name = node.node.spec, node.node.name
    if spec.unschedulable or any(each.effect != "PreferNoSchedule" for each in spec.taints):
        return False
    if pod.spec.node_selector.get("kubernetes.io/hostname", name) != name:
        return False
    counted = {each.pod.uid for each in node.pods}
    least = pod.spec.priority or 0
    nominated = seen.core.queue.nominator.by_uid
    expected = sum(
        cpu_of(other)
        for uid, other in seen.pods.items()
        if uid not in counted
        and uid != pod.uid
        and (other.spec.priority or 0) >= least
        and name in (nominated.get(uid), other.status.nominated_node_name)
        and not other.spec.node_name
    )
    return bool(node.requested.milli_cpu + expected + cpu_of(pod) <= node.allocatable.milli_cpu)


def _assumed_pods_are_nominated(seen: Picture) -> Iterator[tuple[str, str]]:
    cache = seen.core.cache
    for uid, node in seen.core.queue.nominator.by_uid.items():
        pod = cache.get_pod(uid) if node else None
        if pod is not None:
            yield (
                uid,
                f"{pod.name} counts on {pod.spec.node_name}, and room on {node} is kept for it",
            )


NO_ROOM_IS_OVERLOOKED = PictureRule("no pod sleeps beside room", _fitting_pods_are_parked)
"""Of workloads whose pods ask for CPU alone, without a client that binds pods past the scheduler.

What changed between a pod's Pop and its return to the queue is judged then (events in flight), and what changes later
wakes it: the flush after five minutes is for what no event tells of. Upstream:
pkg/scheduler/backend/queue/scheduling_queue.go (determineSchedulingHintForInFlightPod) and
pkg/scheduler/eventhandlers.go. It tells of a binding of an assumed pod to another node by no event.
"""
LAWS = (
    PictureRule("a pod that is gone takes no room", _what_is_gone_is_counted, settles=False),
    PictureRule("what is bound is counted as it is", _what_is_bound_is_not_counted),
    PictureRule("the cache has the nodes as they are", _nodes_differ),
    PictureRule("room is kept for pods that wait", _nominated_pods_do_not_wait),
    PictureRule("what is queued is as it was last heard of", _queued_objects_are_old),
    PictureRule("no pod that is gone is in flight", _gone_pods_are_in_flight, ANSWER),
    PictureRule("a pod that waits is in a queue or on its way", _pods_are_lost),
    PictureRule("a pod that is bound is tried no longer", _bound_pods_are_tried, BACKOFF),
    PictureRule("an assumed pod is counted once", _assumed_pods_are_nominated),
    PictureRule("no pod waits before an open gate", _open_gates_hold),
    PictureRule(
        "no pod waits before an open gate for ever", _open_gates_hold, FLUSH, settles=False
    ),
)
"""Laws of the scheduler's picture. What of the cache must hold in the end says `CACHE_HOLDS_WHAT_IS_BOUND`."""


def picture_holds(rule: PictureRule) -> tuple[Invariant, ...]:
    """The rule as invariants: while the scheduler runs, and once the run has settled."""
    found = [Invariant(rule.name, _Watch(rule).check, (SCHEDULER,), looks_at=the_instant)]
    if rule.settles:
        found.append(Invariant(f"{rule.name}, in the end", _Watch(rule).check_in_the_end))
    return tuple(found)


@frozen
class _Watch:
    """Asks a rule, once in each instant, and remembers since when what is wrong has been wrong."""

    rule: PictureRule

    def check(self, run: Run) -> str | None:
        now = run.world.now
        notes = run.notes.get(_NOTE)
        if notes is None:
            notes = run.notes[_NOTE] = {}
        at, core, since = notes.get(self.rule.name, (-1, None, {}))
        if at == now:
            return None
        if core is not run.cluster.scheduler.core:
            since = {}
        seen = _look(run)
        if seen is None:
            return None
        found = dict(self.rule.wrong(seen))
        first = {key: since.get(key, now) for key in found}
        notes[self.rule.name] = (now, seen.core, first)
        for key, what in found.items():
            if now - first[key] > self.rule.lasts:
                return f"{what}, for {(now - first[key]) / SECOND:g} s"
        return None

    def check_in_the_end(self, run: Run) -> str | None:
        seen = _look(run)
        return None if seen is None else next((what for _, what in self.rule.wrong(seen)), None)


def _look(run: Run) -> Picture | None:
    """The current view, computed once for all invariants that check one step."""
    core = run.cluster.scheduler.core
    if core is None:
        return None
    step, seen = run.notes.get(_LOOK, (-1, None))
    if step != run.world.steps or seen.core is not core:
        seen = Picture(core, {pod.uid: pod for pod in core.listers.pods.list()})
        run.notes[_LOOK] = (run.world.steps, seen)
    found: Picture = seen
    return found
