"""Invariants of the scheduler's own state: its cache, its nominations, and the served backoffs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.times import SECOND
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.scheduling import SCHEDULER, pods
from controlplane.scenarios.invariants.views import the_queue

if TYPE_CHECKING:
    from controlplane.scenarios.engine.run import Run

GONE_AFTER = 2 * SECOND
"""So long, in virtual nanoseconds, the scheduler may count a pod that no longer exists."""
_GONE = "pods in the scheduler's cache that are gone"
_BACKING_OFF = "pods that serve a backoff"


def _backoff_fits_failures(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    from controlplane.scheduler.queue.backoff_queue import backoff_duration

    queue = core.queue
    backoff = queue.backoff_q
    for info in (*backoff.heap, *backoff.error_heap, *queue.unschedulable):
        if info.backoff_expiration is None:
            continue
        rejected = info.has_rejectors
        count = info.unschedulable_count if rejected else info.consecutive_errors_count
        allowed = backoff_duration(count, backoff.initial_backoff, backoff.max_backoff)
        serves = info.backoff_expiration - info.timestamp
        if serves > allowed:
            why = f"{'rejected' if rejected else 'failed'} {count} times"
            return f"{info.key}, {why}, has to wait {serves / SECOND:g} s and not {allowed / SECOND:g} s"
    return None


def _no_backoff_is_served_twice(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    backoff = core.queue.backoff_q
    seen = run.notes.get(_BACKING_OFF, {})
    now = {id(info): info for heap in (backoff.heap, backoff.error_heap) for info in heap}
    run.notes[_BACKING_OFF] = now
    clock = run.cluster.config.epoch_ns + run.world.now
    for key, info in now.items():
        if key not in seen and not backoff.is_backing_off(info, clock):
            return f"{info.key} has served its backoff, and was sent to serve it"
    return None


def _nominations_name_nodes(run: Run) -> str | None:
    nodes = [node.name for node in run.objects("/registry/minions/")]
    for name, pod in pods(run).items():
        if pod.metadata.deletion_timestamp is not None:
            continue  # a terminating pod is not scheduled
        nominated = pod.status.nominated_node_name
        if nominated and not pod.spec.node_name and nominated not in nodes:
            return f"{name} is still nominated to {nominated}, which is gone"
    return None


def _what_is_gone_takes_no_room(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    there = {pod.uid for pod in pods(run).values()}
    since = run.notes.get(_GONE, {})
    now = run.world.now
    gone = {uid: since.get(uid, now) for uid in core.cache.uids() if uid not in there}
    run.notes[_GONE] = gone
    for uid, at in gone.items():
        if now - at > GONE_AFTER:
            pod = core.cache.get_pod(uid)
            assert pod is not None
            where = pod.spec.node_name
            return (
                f"{pod.name} is gone for {(now - at) / SECOND:g} s and still takes room on {where}"
            )
    return None


def _cache_holds_what_is_bound(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    cached = set(core.cache.uids())
    bound = {
        pod.uid: name
        for name, pod in pods(run).items()
        if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed")
    }
    for uid, name in bound.items():
        if uid not in cached:
            return f"{name} is bound, and the scheduler does not count it"
    for uid in core.cache.uids():
        if uid not in bound:
            pod = core.cache.get_pod(uid)
            assert pod is not None
            return f"the scheduler counts {pod.name} on {pod.spec.node_name}, where it is not"
    return None


BACKOFF_FITS_FAILURES = Invariant(
    "a backoff is as long as its own kind of failures makes it",
    _backoff_fits_failures,
    (SCHEDULER,),
    looks_at=the_queue,
)
NO_BACKOFF_IS_SERVED_TWICE = Invariant(
    "no pod is sent to serve a backoff that is over",
    _no_backoff_is_served_twice,
    (SCHEDULER,),
    looks_at=the_queue,
)
NOMINATIONS_NAME_NODES = Invariant("a nomination names a node that exists", _nominations_name_nodes)
WHAT_IS_GONE_TAKES_NO_ROOM = Invariant(
    "a pod that is gone takes no room for long", _what_is_gone_takes_no_room, (SCHEDULER,)
)
"""Of scenarios that let the scheduler hear of deletions."""
CACHE_HOLDS_WHAT_IS_BOUND = Invariant(
    "once nothing moves, the scheduler counts the bound pods and no others",
    _cache_holds_what_is_bound,
)
