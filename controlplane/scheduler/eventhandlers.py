"""From what the informers deliver to cache and queue.

Upstream: `pkg/scheduler/eventhandlers.go`. Each function is one handler call, in steps: cache and
queue have locks of their own, so others may come between the calls on them. Cache errors are logged
(upstream logs them too); CacheCorruptedError goes up.

Points: `scheduler.informer.cache`, `scheduler.informer.queue`, `scheduler.informer.reject`, each
before a call on what it names (the first call of a handler follows `informer.notify`), and those of
the queue's operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from controlplane.api.resize_policy import forbids_preemption
from controlplane.decisions import Point, Steps
from controlplane.scheduler.dra.slice_tracker import READ
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.deferred_resize import wants_room
from controlplane.scheduler.queue.event_diff import (
    node_update_events,
    pod_update_events,
    resize_events,
)
from controlplane.scheduler.state.cache import CacheError

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.api.view import View
    from controlplane.scheduler.dra.slice_tracker import Change
    from controlplane.scheduler.scheduler import Scheduler
    from controlplane.scheduler.state.pod_groups import PodGroupStates


CACHE: Final = Point("scheduler.informer.cache")
QUEUE: Final = Point("scheduler.informer.queue")
REJECT: Final = Point("scheduler.informer.reject")


@contextmanager
def _logged(scheduler: Scheduler) -> Iterator[None]:
    try:
        yield
    except CacheError as failed:
        scheduler.log(str(failed))


def _groups_of(scheduler: Scheduler, pod: Pod) -> PodGroupStates | None:
    """The states of pod groups, about to be changed; None if the pod is in none, or groups are not looked at."""
    if not scheduler.schedules_groups or pod.spec.scheduling_group is None:
        return None
    scheduler.changes_cache()
    return scheduler.cache.pod_groups


def _move(
    scheduler: Scheduler,
    event: ev.ClusterEvent,
    old: View | None,
    new: View | None,
    now: int,
    pre_check: Callable[[Pod], bool] | None = None,
) -> Steps[None]:
    """Tell the queue about an event; an event in which no pod is interested changes nothing."""
    if scheduler.queue.is_interesting(event):
        yield QUEUE
        yield from scheduler.queue.move_all_to_active_or_backoff_queue(
            event, old, new, now, pre_check
        )


def _move_on_pod_event(
    scheduler: Scheduler, event: ev.ClusterEvent, old: Pod | None, new: Pod, now: int
) -> Steps[None]:
    if scheduler.queue.options.hints_enabled:
        yield from _move(scheduler, event, old, new, now)
    else:
        yield QUEUE
        yield from scheduler.move_without_hints(event, old, new, now)


def add_pod(scheduler: Scheduler, pod: Pod, now: int) -> Steps[None]:
    """The informer saw a new pod."""
    if pod.spec.node_name:
        yield from _add_assigned(scheduler, pod, now)
        yield from _resize_changed(scheduler, None, pod, now)
    elif scheduler.responsible_for(pod):
        if scheduler.api_calls is not None:
            scheduler.api_calls.sync(pod)
            yield QUEUE
        groups = _groups_of(scheduler, pod)
        if groups is not None:
            groups.add(pod)
            yield QUEUE
        yield from scheduler.queue.add(pod, now)
        if scheduler.tells_of_new_pods:
            yield from _move(scheduler, ev.UNSCHEDULED_POD_ADD, None, pod, now)


def _resize_changed(
    scheduler: Scheduler, old: Pod | None, new: Pod | None, now: int
) -> Steps[None]:
    """A pod on a node whose resize waits is in the queue as well, until it waits no more (KEP-5836).

    The cache has heard of the change before.
    """
    if not scheduler.handle.preempts_for_resizes:
        return
    waited = old is not None and wants_room(old)
    waits = new is not None and wants_room(new)
    about = new or old
    assert about is not None
    if not (waited or waits) or not scheduler.responsible_for(about):
        return
    yield QUEUE
    if not waits:
        yield from scheduler.queue.delete(about)
    elif waited:
        assert new is not None
        yield from scheduler.queue.update(old, new, now)
    else:
        assert new is not None
        yield from scheduler.queue.add(new, now)


def _add_assigned(scheduler: Scheduler, pod: Pod, now: int) -> Steps[None]:
    with _logged(scheduler):
        scheduler.changes_cache()
        scheduler.cache.add_pod(pod)
    yield from _move_on_pod_event(scheduler, ev.ASSIGNED_POD_ADD, None, pod, now)


def update_pod(scheduler: Scheduler, old: Pod, new: Pod, now: int) -> Steps[None]:
    """The informer saw a change.

    Gate 141255 (proposed). A pod that was deleted and recreated while the watch was down arrives as
    one update. Upstream does not look at the UIDs: when both are assigned to different nodes, the
    cache takes itself for corrupted and the process ends; else entries of the old one may stay.
    With the proposal it is a deletion and an addition.

    Gate 96071. Unfixed, a resync, which delivers the same object again, reaches the queue and may
    queue a pod that is being scheduled. Fixed, an update that changed nothing is ignored.
    """
    if scheduler.splits_recreated and old.uid != new.uid:
        # As of a tombstone: the old one may have been bound since, while the watch was down.
        yield from delete_pod(scheduler, old, now, final_state_unknown=True)
        yield QUEUE
        yield from add_pod(scheduler, new, now)
        return
    if old.spec.node_name:
        with _logged(scheduler):
            scheduler.changes_cache()
            scheduler.cache.update_pod(old, new)
        before, after = scheduler.counted(old), scheduler.counted(new)
        events = pod_update_events(after, before)
        if scheduler.handle.preempts_for_resizes:
            events += resize_events(new, old)
        for event in events:
            yield from _move_on_pod_event(scheduler, event, before, after, now)
        yield from _resize_changed(scheduler, old, new, now)
        return
    if new.spec.node_name:
        yield from _add_assigned(scheduler, new, now)
        if scheduler.responsible_for(old):
            yield QUEUE
            yield from scheduler.queue.delete(old)
        yield from _resize_changed(scheduler, None, new, now)
        return
    if not scheduler.responsible_for(new):
        return
    if scheduler.api_calls is not None:
        scheduler.api_calls.sync(new)
        yield CACHE
    version = old.resource_version
    if version and version == new.resource_version and scheduler.ignores_resync:
        return
    groups = _groups_of(scheduler, new)
    if groups is not None:
        groups.update(old, new)
        yield CACHE
    if scheduler.cache.is_assumed_pod(new):
        if (
            old.metadata.deletion_timestamp is None
            and new.metadata.deletion_timestamp is not None
            and scheduler.forgets_deleted
        ):
            yield from _assumed_pod_deleted(scheduler, new, now)
        return
    yield QUEUE
    yield from scheduler.queue.update(old, new, now)
    was = old.status.nominated_node_name
    if was and was != new.status.nominated_node_name:
        yield from _nomination_dropped(scheduler, old, now)


def delete_pod(
    scheduler: Scheduler, pod: Pod, now: int, *, final_state_unknown: bool = False
) -> Steps[None]:
    """The informer saw a pod go.

    Gate 106102. The object of a tombstone may be stale: it was bound, perhaps, while the watch was
    down. Unfixed, what the object says decides whether the cache or the queue is cleaned, so that a
    pod that was assumed stays in the cache. Fixed, a tombstone cleans both.
    """
    final_state_unknown = final_state_unknown and scheduler.cleans_both
    if pod.spec.node_name or final_state_unknown:
        with _logged(scheduler):
            scheduler.changes_cache()
            scheduler.cache.remove_pod(pod)
        if scheduler.rejects_bound and scheduler.is_waiting(pod.uid):
            # Form "rechecked" of 134157: another scheduler has bound it while it waits (issue 134859, open).
            yield REJECT
            scheduler.reject_waiting_pod(pod.uid, "removed")
        yield from _move(scheduler, ev.ASSIGNED_POD_DELETE, pod, None, now)
    if pod.spec.node_name and not final_state_unknown:
        yield from _resize_changed(scheduler, pod, None, now)
        return
    if not scheduler.responsible_for(pod):
        return
    if final_state_unknown:
        yield QUEUE
    yield from scheduler.queue.delete(pod)
    yield CACHE
    groups = _groups_of(scheduler, pod)
    if groups is not None:
        groups.remove(pod)
        yield CACHE
    if scheduler.cache.is_assumed_pod(pod):
        yield from _assumed_pod_deleted(scheduler, pod, now)
    elif pod.status.nominated_node_name:
        yield from _nomination_dropped(scheduler, pod, now)


def _assumed_pod_deleted(scheduler: Scheduler, pod: Pod, now: int) -> Steps[None]:
    """A pod was deleted, or began to terminate, that has a node only in our mind.

    Gate 134157 (issue 134217). Unfixed, it keeps its room until its binding fails, which may take
    minutes where volumes are provisioned; others preempt in vain meanwhile. Fixed, it is forgotten
    at once.

    Gate 84578 (issue 84554). Unfixed, a pod that waits in Permit goes on waiting until its time is
    up, and keeps what was reserved for it. Fixed, the wait ends here, and its binding cycle cleans up.
    """
    yield CACHE
    cached = scheduler.cache.get_pod(pod.uid)
    if cached is None:
        return
    if not scheduler.rejects_waiting and scheduler.is_waiting(pod.uid):
        return
    yield REJECT
    if not scheduler.reject_waiting_pod(pod.uid, "removed"):
        if not scheduler.forgets_deleted:
            return
        yield CACHE
        with _logged(scheduler):
            scheduler.changes_cache()
            scheduler.cache.forget_pod(cached)
    yield from _move(scheduler, ev.ASSIGNED_POD_DELETE, cached, None, now)


def _nomination_dropped(scheduler: Scheduler, pod: Pod, now: int) -> Steps[None]:
    """Room kept for `pod` is free again: pods that had to respect it may fit."""
    priority = pod.spec.priority or 0

    def not_above(other: Pod) -> bool:
        return (other.spec.priority or 0) <= priority

    return _move(scheduler, ev.ASSIGNED_POD_DELETE, pod, None, now, not_above)


def add_node(scheduler: Scheduler, node: Node, now: int) -> Steps[None]:
    """The informer saw a new node."""
    scheduler.changes_cache()
    scheduler.cache.add_node(node)
    yield from _move(scheduler, ev.NODE_ADD, None, node, now, _pre_check(scheduler, node))


def update_node(scheduler: Scheduler, old: Node, new: Node, now: int) -> Steps[None]:
    """The informer saw a node change."""
    scheduler.changes_cache()
    scheduler.cache.update_node(old, new)
    events = node_update_events(new, old)
    if scheduler.handle.preempts_for_resizes and forbids_preemption(old) != forbids_preemption(new):
        events.append(ev.event_of(ev.NODE, ev.UPDATE_NODE_PREEMPTION_POLICY))
    for event in events:
        yield from _move(scheduler, event, old, new, now, _pre_check(scheduler, new))


def delete_node(scheduler: Scheduler, node: Node, now: int) -> Steps[None]:
    """The informer saw a node go: pods hear of it before the cache does."""
    if scheduler.queue.is_interesting(ev.NODE_DELETE):
        yield from scheduler.queue.move_all_to_active_or_backoff_queue(
            ev.NODE_DELETE, node, None, now
        )
        yield CACHE
    with _logged(scheduler):
        scheduler.changes_cache()
        scheduler.cache.remove_node(node)


def other_added(scheduler: Scheduler, resource: str, obj: View, now: int) -> Steps[None]:
    """An object of another kind (`events.PERSISTENT_VOLUME` and so on) appeared."""
    return _other(scheduler, ev.event_of(resource, ev.ADD), None, obj, now)


def other_updated(
    scheduler: Scheduler, resource: str, old: View, new: View, now: int
) -> Steps[None]:
    """An object of another kind changed."""
    return _other(scheduler, ev.event_of(resource, ev.UPDATE), old, new, now)


def other_deleted(scheduler: Scheduler, resource: str, obj: View, now: int) -> Steps[None]:
    """An object of another kind is gone."""
    return _other(scheduler, ev.event_of(resource, ev.DELETE), obj, None, now)


def follow_claims(scheduler: Scheduler) -> None:
    """Let the queue hear of claims from the assume cache: also of those that the scheduler has just written."""

    def moved(old: View | None, new: View | None) -> Steps[None]:
        action = ev.ADD if old is None else ev.DELETE if new is None else ev.UPDATE
        event = ev.event_of(ev.RESOURCE_CLAIM, action)
        return _other(scheduler, event, old, new, scheduler.handle.clock())

    scheduler.handle.dra.tracker.cache.handlers.append(moved)


def claim_changed(scheduler: Scheduler, old: View | None, new: View | None) -> Steps[None]:
    """The informer saw a claim appear, change or go: the assume cache hears of it first."""
    cache = scheduler.handle.dra.tracker.cache
    if new is not None:
        return cache.put(new)
    assert old is not None
    return cache.remove(old)


def class_changed(
    scheduler: Scheduler, old: View | None, new: View | None, now: int
) -> Steps[None]:
    """The informer saw a device class appear, change or go: its extended resources come first."""
    scheduler.handle.dra.class_changed(old, new)
    action = ev.ADD if old is None else ev.DELETE if new is None else ev.UPDATE
    return _other(scheduler, ev.event_of(ev.DEVICE_CLASS, action), old, new, now)


def slices_patched(
    scheduler: Scheduler, changes: Iterable[Steps[Change | None]], now: Callable[[], int]
) -> Steps[None]:
    """ResourceSlices are patched one after the other; each event reaches the queue before the next slice is read."""
    for number, patching in enumerate(changes):
        if number:
            yield READ
        change = yield from patching
        if change is not None:
            old, new = change
            action = ev.ADD if old is None else ev.DELETE if new is None else ev.UPDATE
            yield QUEUE
            yield from _other(scheduler, ev.event_of(ev.RESOURCE_SLICE, action), old, new, now())


def _other(
    scheduler: Scheduler, event: ev.ClusterEvent, old: View | None, new: View | None, now: int
) -> Steps[None]:
    if scheduler.queue.is_interesting(event):
        yield from scheduler.queue.move_all_to_active_or_backoff_queue(event, old, new, now)


def _pre_check(scheduler: Scheduler, node: Node) -> Callable[[Pod], bool] | None:
    """Without hints, only pods that could run on the node are woken by it."""
    if scheduler.queue.options.hints_enabled:
        return None
    from controlplane.scheduler.queue.pre_check import admits

    return lambda pod: admits(pod, node)
