"""Invariants of the queue at every step, each as a cheap function.

A function answers None, or one line that says what is wrong. `live` are the UIDs of pods that
exist (in the API server, or in the informer the queue is fed from).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.queue.scheduling_queue import PriorityQueue

Check = Callable[[PriorityQueue, Collection[str]], str | None]


def _places(queue: PriorityQueue) -> tuple[tuple[str, Iterable[QueuedPodInfo]], ...]:
    backoff = queue.backoff_q
    return (
        ("activeQ", queue.active_q.heap),
        ("podBackoffQ", backoff.heap),
        ("podErrorBackoffQ", backoff.error_heap),
        ("the unschedulable pool", queue.unschedulable),
    )


def _entries(queue: PriorityQueue) -> Iterator[tuple[str, QueuedPodInfo]]:
    for name, infos in _places(queue):
        for info in infos:
            yield name, info


def one_marker_per_pod_in_flight(queue: PriorityQueue, _live: Collection[str]) -> str | None:
    """I1: every pod in flight has exactly one marker in the ledger, and vice versa."""
    markers: dict[str, int] = {}
    for entry in queue.active_q.ledger:
        if entry.event is None:
            markers[entry.pod_uid] = markers.get(entry.pod_uid, 0) + 1
    for uid in queue.active_q.in_flight:
        if markers.pop(uid, 0) != 1:
            return f"pod {uid} is in flight but has not exactly one marker in the ledger"
    for uid, count in markers.items():
        return f"the ledger has {count} marker(s) of pod {uid}, which is not in flight"
    return None


def ledger_starts_with_a_pod(queue: PriorityQueue, _live: Collection[str]) -> str | None:
    """I2: an event at the head of the ledger concerns no pod."""
    front = queue.active_q.ledger.front
    if front is not None and front.event is not None:
        return f"the ledger starts with event {front.event.label}: no pod in flight precedes it"
    return None


def in_flight_pods_are_alive(queue: PriorityQueue, live: Collection[str]) -> str | None:
    """I3, to be asked when nothing moves any more: only live pods are in flight."""
    for uid in queue.active_q.in_flight:
        if uid not in live:
            kept = len(queue.active_q.ledger) - len(queue.active_q.in_flight)
            return f"pod {uid} no longer exists but is in flight for ever ({kept} events kept)"
    if not live and len(queue.active_q.ledger):
        return f"no pod is left but the ledger keeps {len(queue.active_q.ledger)} entries"
    return None


def one_queue_per_key(queue: PriorityQueue, _live: Collection[str]) -> str | None:
    """I4: a namespace/name is in at most one of the four places."""
    seen: dict[str, str] = {}
    for where, info in _entries(queue):
        other = seen.get(info.key)
        if other is not None:
            return f"pod {info.key} is in {other} and in {where}"
        seen[info.key] = where
    return None


def in_flight_means_not_queued(queue: PriorityQueue, _live: Collection[str]) -> str | None:
    """I5: a pod between Pop and Done waits nowhere, but for the moment before Done in which it is put back."""
    in_flight = queue.active_q.in_flight
    for where, info in _entries(queue):
        if info.uid in in_flight and info.uid != queue.landing:
            return f"pod {info.key} (uid {info.uid}) is in flight and in {where}"
    return None


def nominations_are_of_live_pods(queue: PriorityQueue, live: Collection[str]) -> str | None:
    """I6: at most one node per UID, and none for a pod that is gone (or bound: not in `live`).

    A cleared nomination stays under the empty node name and reserves nothing; it is not counted.
    """
    seen: dict[str, str] = {}
    for node, refs in queue.nominator.by_node.items():
        if not node:
            continue
        for ref in refs.values():
            if ref.uid in seen:
                return f"pod {ref.uid} is nominated to {seen[ref.uid]!r} and to {node!r}"
            seen[ref.uid] = node
            if ref.uid not in live:
                key = f"{ref.namespace}/{ref.name}"
                return f"pod {key} (uid {ref.uid}) is nominated to {node!r} but does not wait"
    return None


def gauges_match_content(queue: PriorityQueue, _live: Collection[str]) -> str | None:
    """I7: pending_pods and inflight_events equal what is there."""
    pending = sum(queue.pending_pods().values())
    entries = sum(len(list(infos)) for _, infos in _places(queue))
    if pending != entries:
        return f"pending_pods says {pending}, the queues hold {entries}"
    counted = sum(queue.metrics.inflight_events.values())
    if counted != len(queue.active_q.ledger):
        return f"inflight_events says {counted}, the ledger holds {len(queue.active_q.ledger)}"
    return None


INVARIANTS: Mapping[str, Check] = {
    "I1": one_marker_per_pod_in_flight,
    "I2": ledger_starts_with_a_pod,
    "I3": in_flight_pods_are_alive,
    "I4": one_queue_per_key,
    "I5": in_flight_means_not_queued,
    "I6": nominations_are_of_live_pods,
    "I7": gauges_match_content,
}
