"""From what the informers deliver to cache and queue.

Upstream: `pkg/scheduler/eventhandlers.go`. Each function is one handler call. Cache errors are
returned as texts to log (upstream logs them too); CacheCorruptedError goes up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.queue.event_diff import node_update_events, pod_update_events
from controlplane.scheduler.state.cache import CacheError

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.scheduler import Scheduler


@contextmanager
def _logged(scheduler: Scheduler) -> Iterator[None]:
    try:
        yield
    except CacheError as failed:
        scheduler.log(str(failed))


def add_pod(scheduler: Scheduler, pod: Pod, now: int) -> None:
    """The informer saw a new pod."""
    if pod.spec.node_name:
        _add_assigned(scheduler, pod, now)
    elif scheduler.responsible_for(pod):
        scheduler.queue.add(pod, now)


def _add_assigned(scheduler: Scheduler, pod: Pod, now: int) -> None:
    with _logged(scheduler):
        scheduler.cache.add_pod(pod)
    scheduler.move_on_pod_event(ev.ASSIGNED_POD_ADD, None, pod, now)


def update_pod(scheduler: Scheduler, old: Pod, new: Pod, now: int) -> None:
    """The informer saw a change.

    Gate 141255 (proposed). A pod that was deleted and recreated while the watch was down arrives as
    one update. Upstream does not look at the UIDs: when both are assigned to different nodes, the
    cache takes itself for corrupted and the process ends; else entries of the old one may stay.
    With the proposal it is a deletion and an addition.

    Gate 96071. Unfixed, a resync, which delivers the same object again, reaches the queue and may
    queue a pod that is being scheduled. Fixed, an update that changed nothing is ignored.
    """
    if scheduler.splits_recreated and old.uid != new.uid:
        delete_pod(scheduler, old, now)
        add_pod(scheduler, new, now)
        return
    if old.spec.node_name:
        with _logged(scheduler):
            scheduler.cache.update_pod(old, new)
        for event in pod_update_events(new, old):
            scheduler.move_on_pod_event(event, old, new, now)
        return
    if new.spec.node_name:
        _add_assigned(scheduler, new, now)
        if scheduler.responsible_for(old):
            scheduler.queue.delete(old)
        return
    if not scheduler.responsible_for(new):
        return
    version = old.resource_version
    if version and version == new.resource_version and scheduler.ignores_resync:
        return
    if scheduler.cache.is_assumed_pod(new):
        if (
            old.metadata.deletion_timestamp is None
            and new.metadata.deletion_timestamp is not None
            and scheduler.forgets_deleted
        ):
            _assumed_pod_deleted(scheduler, new, now)
        return
    scheduler.queue.update(old, new, now)
    was = old.status.nominated_node_name
    if was and was != new.status.nominated_node_name:
        _nomination_dropped(scheduler, old, now)


def delete_pod(
    scheduler: Scheduler, pod: Pod, now: int, *, final_state_unknown: bool = False
) -> None:
    """The informer saw a pod go.

    Gate 106102. The object of a tombstone may be stale: it was bound, perhaps, while the watch was
    down. Unfixed, what the object says decides whether the cache or the queue is cleaned, so that a
    pod that was assumed stays in the cache. Fixed, a tombstone cleans both.
    """
    final_state_unknown = final_state_unknown and scheduler.cleans_both
    if pod.spec.node_name or final_state_unknown:
        with _logged(scheduler):
            scheduler.cache.remove_pod(pod)
        scheduler.queue.move_all_to_active_or_backoff_queue(ev.ASSIGNED_POD_DELETE, pod, None, now)
    if pod.spec.node_name and not final_state_unknown:
        return
    if not scheduler.responsible_for(pod):
        return
    scheduler.queue.delete(pod)
    if scheduler.cache.is_assumed_pod(pod):
        _assumed_pod_deleted(scheduler, pod, now)
    elif pod.status.nominated_node_name:
        _nomination_dropped(scheduler, pod, now)


def _assumed_pod_deleted(scheduler: Scheduler, pod: Pod, now: int) -> None:
    """A pod was deleted, or began to terminate, that has a node only in our mind.

    Gate 134157 (issue 134217). Unfixed, it keeps its room until its binding fails, which may take
    minutes where volumes are provisioned; others preempt in vain meanwhile. Fixed, it is forgotten
    at once.

    Gate 84578 (issue 84554). Unfixed, a pod that waits in Permit goes on waiting until its time is
    up, and keeps what was reserved for it. Fixed, the wait ends here, and its binding cycle cleans up.
    """
    cached = scheduler.cache.get_pod(pod.uid)
    if cached is None:
        return
    if not scheduler.rejects_waiting and scheduler.is_waiting(pod.uid):
        return
    if not scheduler.reject_waiting_pod(pod.uid, "removed"):
        if not scheduler.forgets_deleted:
            return
        with _logged(scheduler):
            scheduler.cache.forget_pod(cached)
    scheduler.queue.move_all_to_active_or_backoff_queue(ev.ASSIGNED_POD_DELETE, cached, None, now)


def _nomination_dropped(scheduler: Scheduler, pod: Pod, now: int) -> None:
    """Room kept for `pod` is free again: pods that had to respect it may fit."""
    priority = pod.spec.priority or 0

    def not_above(other: Pod) -> bool:
        return (other.spec.priority or 0) <= priority

    scheduler.queue.move_all_to_active_or_backoff_queue(
        ev.ASSIGNED_POD_DELETE, pod, None, now, not_above
    )


def add_node(scheduler: Scheduler, node: Node, now: int) -> None:
    """The informer saw a new node."""
    scheduler.cache.add_node(node)
    scheduler.queue.move_all_to_active_or_backoff_queue(
        ev.NODE_ADD, None, node, now, _pre_check(scheduler, node)
    )


def update_node(scheduler: Scheduler, old: Node, new: Node, now: int) -> None:
    """The informer saw a node change."""
    scheduler.cache.update_node(old, new)
    for event in node_update_events(new, old):
        scheduler.queue.move_all_to_active_or_backoff_queue(
            event, old, new, now, _pre_check(scheduler, new)
        )


def delete_node(scheduler: Scheduler, node: Node, now: int) -> None:
    """The informer saw a node go: pods hear of it before the cache does."""
    scheduler.queue.move_all_to_active_or_backoff_queue(ev.NODE_DELETE, node, None, now)
    with _logged(scheduler):
        scheduler.cache.remove_node(node)


def other_added(scheduler: Scheduler, resource: str, obj: Any, now: int) -> None:
    """An object of another kind (`events.PERSISTENT_VOLUME` and so on) appeared."""
    event = ev.ClusterEvent(resource, ev.ADD)
    scheduler.queue.move_all_to_active_or_backoff_queue(event, None, obj, now)


def other_updated(scheduler: Scheduler, resource: str, old: Any, new: Any, now: int) -> None:
    """An object of another kind changed."""
    event = ev.ClusterEvent(resource, ev.UPDATE)
    scheduler.queue.move_all_to_active_or_backoff_queue(event, old, new, now)


def other_deleted(scheduler: Scheduler, resource: str, obj: Any, now: int) -> None:
    """An object of another kind is gone."""
    event = ev.ClusterEvent(resource, ev.DELETE)
    scheduler.queue.move_all_to_active_or_backoff_queue(event, obj, None, now)


def _pre_check(scheduler: Scheduler, node: Node) -> Callable[[Pod], bool] | None:
    """Without hints, only pods that could run on the node are woken by it."""
    if scheduler.queue.options.hints_enabled:
        return None
    from controlplane.scheduler.queue.pre_check import admits

    return lambda pod: admits(pod, node)
