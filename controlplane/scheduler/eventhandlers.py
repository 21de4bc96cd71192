"""From what the informers deliver to cache and queue.

Upstream: `pkg/scheduler/eventhandlers.go`. Each function is one handler call. Cache errors are
returned as texts to log (upstream logs them too); CacheCorruptedError goes up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from controlplane.scheduler import events as ev
from controlplane.scheduler.cache import CacheError
from controlplane.scheduler.event_diff import node_update_events, pod_update_events

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
    """The informer saw a change. That both are one incarnation is not checked (R2)."""
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
    # A resync delivers the same object again (issue 96071).
    if old.resource_version and old.resource_version == new.resource_version:
        return
    if scheduler.cache.is_assumed_pod(new):
        if old.metadata.deletion_timestamp is None and new.metadata.deletion_timestamp is not None:
            _assumed_pod_deleted(scheduler, new, now)
        return
    scheduler.queue.update(old, new, now)
    was = old.status.nominated_node_name
    if was and was != new.status.nominated_node_name:
        _nomination_dropped(scheduler, old, now)


def delete_pod(
    scheduler: Scheduler, pod: Pod, now: int, *, final_state_unknown: bool = False
) -> None:
    """The informer saw a pod go. The object of a tombstone may be stale: both sides are cleaned."""
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
    """Free the room of an assumed pod at once instead of when its binding fails (PR 134217)."""
    cached = scheduler.cache.get_pod(pod.uid)
    if cached is None:
        return
    if not scheduler.reject_waiting_pod(pod.uid, "removed"):
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
    from controlplane.scheduler.pre_check import admits

    return lambda pod: admits(pod, node)
