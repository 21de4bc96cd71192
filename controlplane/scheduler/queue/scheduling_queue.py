"""The scheduling queue: where a pod waits, and what moves it.

Upstream: `pkg/scheduler/backend/queue/scheduling_queue.go`. Every method but `pop`, `done` and those
about nominations holds the queue's lock while it runs. `pop` and `done` take only the lock of the
active queue, so they may come in between where others hold the first without the second: a method
whose name ends in `_steps` yields there (see `framework.steps`); its namesake runs at once.

Points: `scheduler.queue.moved` after a pod became poppable, before the rest of the operation;
`scheduler.queue.done` between putting a failed pod back and the end of its flight.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from controlplane.api.pod import Pod
from controlplane.gates import FixGates
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo, pod_key
from controlplane.scheduler.framework.steps import LOCKED, Steps, at_once, in_one_step
from controlplane.scheduler.queue.active_queue import ActiveQueue, NotInFlightError
from controlplane.scheduler.queue.backoff_queue import (
    DEFAULT_INITIAL_BACKOFF,
    DEFAULT_MAX_BACKOFF,
    SECOND,
    BackoffQueue,
)
from controlplane.scheduler.queue.event_diff import pod_update_events, resize_events
from controlplane.scheduler.queue.metrics import QueueMetrics
from controlplane.scheduler.queue.nominator import Nominator
from controlplane.scheduler.queue.unschedulable_pods import SPREAD, UnschedulablePods
from controlplane.scheduler.state.listers import Lister
from controlplane.scheduler.state.pod_info import PodInfo

if TYPE_CHECKING:
    from controlplane.scheduler.framework.interface import PreEnqueuePlugin

R = TypeVar("R")

DEFAULT_MAX_IN_UNSCHEDULABLE_PODS = 300 * SECOND
UNSCHEDULABLE_FLUSH_PERIOD = 30 * SECOND
BACKOFF_FLUSH_PERIOD = 1 * SECOND


class Strategy(IntEnum):
    """The urgency of another attempt after an event."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class AlreadyQueuedError(Exception):
    """A failed pod cannot be put back because its key is in a queue already."""


HintsOfEvent = tuple[ev.ClusterEvent, list[tuple[str, ev.HintFn | None]]]
HintMap = Sequence[HintsOfEvent]
"""Registered event patterns of one profile, each with (plugin, hint function)."""

ChooseOrder = Callable[[str, list[QueuedPodInfo]], list[QueuedPodInfo]]


def keep_order(_kind: str, infos: list[QueuedPodInfo]) -> list[QueuedPodInfo]:
    """The canonical answer to an order that upstream leaves to its maps."""
    return infos


@attrs.frozen
class QueueOptions:
    """Durations in nanoseconds, and the switches of the queue."""

    initial_backoff: int = DEFAULT_INITIAL_BACKOFF
    max_backoff: int = DEFAULT_MAX_BACKOFF
    max_in_unschedulable: int = DEFAULT_MAX_IN_UNSCHEDULABLE_PODS
    hints_enabled: bool = True
    pop_from_backoff: bool = True


class PriorityQueue:
    """Active heap, backoff heaps, unschedulable pool and nominator behind one interface."""

    def __init__(
        self,
        less: Callable[[QueuedPodInfo, QueuedPodInfo], bool],
        pods: Lister[Pod],
        *,
        hint_maps: Mapping[str, HintMap] | None = None,
        pre_enqueue: Mapping[str, Sequence[PreEnqueuePlugin]] | None = None,
        options: QueueOptions | None = None,
        choose_order: ChooseOrder = keep_order,
        signer: Callable[[Pod], Hashable | None] | None = None,
        fixes: FixGates | None = None,
    ) -> None:
        self.options = options or QueueOptions()
        fixes = fixes or FixGates()
        self._holds_updates = self.options.hints_enabled and fixes.fixed("125578")
        self._asks_backoff = fixes.fixed("98829")
        self._flushes_gated = fixes.fixed("139162")
        self._done_first = fixes.fixed("139450")
        self._keeps_latest = fixes.fixed("141645")
        self.locked = False
        """An operation that takes the queue's lock is under way."""
        self.signalled = False
        """Pop was to be woken since `take_signal` was asked last."""
        self.landing = ""
        """UID of the pod that is being put back and whose flight ends in a moment."""
        self.refused = ""
        """The reason why a failed pod could not be put back, the last time that happened."""
        self._changes = 0
        self.metrics = QueueMetrics()
        self.backoff_q = BackoffQueue(
            less,
            self.metrics,
            initial_backoff=self.options.initial_backoff,
            max_backoff=self.options.max_backoff,
            pop_from_backoff=self.options.pop_from_backoff,
            fixes=fixes,
        )
        self.active_q = ActiveQueue(
            less,
            self.backoff_q,
            self.metrics,
            hints_enabled=self.options.hints_enabled,
            pop_from_backoff=self.options.pop_from_backoff,
            fixes=fixes,
        )
        self.unschedulable = UnschedulablePods(self.metrics)
        self.nominator = Nominator(pods, self._find_pod_info, fixes)
        self.move_request_cycle = -1
        self._pre_enqueue = dict(pre_enqueue or {})
        self._hint_maps = dict(hint_maps or {})
        self._choose_order = choose_order
        self._signer = signer
        self._plugin_events: dict[str, list[ev.ClusterEvent]] = {}
        for hint_map in self._hint_maps.values():
            for event, hints in hint_map:
                for plugin, _ in hints:
                    self._plugin_events.setdefault(plugin, []).append(event)
        self._matching: dict[tuple[str, ev.ClusterEvent], list[tuple[str, ev.HintFn | None]]] = {}
        self._interesting: dict[ev.ClusterEvent, bool] = {}
        self._waking: dict[ev.ClusterEvent, dict[str, None]] = {}

    def holding(self, steps: Steps[R]) -> Steps[R]:
        """Run steps with the queue's lock held."""
        while self.locked:
            yield LOCKED
        self.locked = True
        try:
            return (yield from steps)
        finally:
            self.locked = False

    # -- looking -------------------------------------------------------------------------------

    @property
    def scheduling_cycle(self) -> int:
        """Number of pods popped so far."""
        return self.active_q.scheduling_cycle

    @property
    def changes(self) -> int:
        """Moves whenever a pod, an event, or an object that stands in the queue does; never backwards."""
        active, backoff = self.active_q, self.backoff_q
        return (
            self._changes
            + active.heap.changes
            + active.ledger.changes
            + backoff.heap.changes
            + backoff.error_heap.changes
            + self.unschedulable.changes
        )

    def take_signal(self) -> bool:
        """Return whether a pod became poppable, for which a waiting Pop has to be woken."""
        signalled, self.signalled = self.signalled, False
        return signalled

    def _signal(self, ready: bool) -> bool:
        self.signalled = self.signalled or ready
        return ready

    def can_pop(self) -> bool:
        """Return whether `pop` would return a pod now (or discard a duplicate)."""
        return self.active_q.can_pop()

    def pending_pods(self) -> dict[str, int]:
        """The gauge pending_pods: pods per queue."""
        gated = self.unschedulable.gated_count()
        return {
            "active": len(self.active_q.heap),
            "backoff": len(self.backoff_q),
            "unschedulable": len(self.unschedulable) - gated,
            "gated": gated,
        }

    def in_flight_uids(self) -> list[str]:
        """UIDs popped and not done, in the order in which they were popped."""
        return list(self.active_q.in_flight)

    def next_backoff_release(self) -> int | None:
        """Earliest time at which `flush_backoff` would move a pod; None without backoff."""
        return self.backoff_q.next_release()

    def next_unschedulable_timeout(self) -> int | None:
        """Earliest time at which `flush_unschedulable` finds a pod; None with an empty pool."""
        times = [max(info.timestamp, info.flushed_at) for info in self.unschedulable]
        return min(times) + self.options.max_in_unschedulable + 1 if times else None

    def _find_pod_info(self, key: str) -> PodInfo | None:
        info = self.active_q.heap.get(key) or self.unschedulable.get(key) or self.backoff_q.get(key)
        return None if info is None else info.pod_info

    # -- in and out ----------------------------------------------------------------------------

    def add(self, pod: Pod, now: int) -> bool:
        """A pod appeared: a fresh entry on its way to the active queue. No duplicate check."""
        info = self._fresh(pod, now)
        return self._signal(self._move_to_active(info, ev.UNSCHEDULED_POD_ADD.label, now))

    def pop(self) -> QueuedPodInfo | None:
        """Take the next pod and mark it in flight; None when none can be popped now."""
        return self.active_q.pop()

    def done(self, uid: str) -> None:
        """The pod's scheduling cycle (up to WaitOnPermit) is over. Idempotent."""
        self.active_q.done(uid)

    def end_cycle(self, uid: str) -> None:
        """The pod passed WaitOnPermit: from here on nothing is kept for it (but see gate 141645)."""
        if self._keeps_latest:
            self.active_q.end_cycle(uid)
        else:
            self.active_q.done(uid)

    def close(self) -> None:
        """Give up every pod in flight."""
        self.active_q.closed = True
        for uid in self.in_flight_uids():
            self.done(uid)

    def add_unschedulable_if_not_present(
        self,
        info: QueuedPodInfo,
        cycle: int,
        now: int,
        *,
        in_flight_uid: str | None = None,
    ) -> None:
        """Put a pod back after a failed attempt, and end its flight.

        The flight that ends is that of the object inside `info`, unless `in_flight_uid` names
        another (the abandoned first form of PR 138324). Raises AlreadyQueuedError.
        """
        at_once(self.add_unschedulable_steps(info, cycle, now, in_flight_uid=in_flight_uid))

    def add_unschedulable_steps(
        self,
        info: QueuedPodInfo,
        cycle: int,
        now: int,
        *,
        in_flight_uid: str | None = None,
    ) -> Steps[None]:
        """The same in steps: Pop may come between the moment when the pod can be popped and Done."""
        uid = in_flight_uid or info.uid

        def steps() -> Steps[None]:
            self.landing = uid
            self._changes += 1
            flies = True
            try:
                self.requeue_failed(info, cycle, now, in_flight_uid=uid)
                flies = not self._done_first
                yield "scheduler.queue.done"
            finally:
                self.landing = ""
                self._changes += 1
                if flies:  # else it has landed, and may be on its next flight by now
                    self.done(uid)

        return self.holding(steps())

    def requeue_failed(
        self,
        info: QueuedPodInfo,
        cycle: int,
        now: int,
        *,
        in_flight_uid: str | None = None,
    ) -> bool:
        """The part of `add_unschedulable_if_not_present` before Done; True when poppable now.

        Upstream's Pop may run between this and Done, since neither takes the queue's lock.

        Gate 139450 (issue 139186; D10 of the facts). Unfixed, a pod that a binding cycle puts back
        may be popped in that moment; its UID is still in flight, so Pop takes it for a second copy
        and throws it away. Fixed, its flight ends before it enters a queue.

        Gate 141645 (proposed). Upstream the object that goes into the queue is the one that the
        failure handler read, although an update may have come since. With the proposal it is the
        latest one heard of.
        """
        if (in_flight_uid or info.uid) in self.active_q.left:
            self.done(in_flight_uid or info.uid)
            return False
        if self._keeps_latest:
            self._refresh(info, in_flight_uid or info.uid)
        where = self._place_of(info.key)
        if where:
            self.refused = f"Pod {info.key} is already present in {where}"
            raise AlreadyQueuedError(self.refused)
        if info.has_rejectors:
            info.unschedulable_count += 1
            info.consecutive_errors_count = 0
        else:
            info.consecutive_errors_count += 1
        info.timestamp = now
        info.backoff_expiration = None
        info.was_flushed_from_unschedulable = False
        profile = info.pod.spec.scheduler_name
        for plugin in info.rejector_plugins():
            self.metrics.unschedulable(plugin, profile, 1)
        if self.options.hints_enabled:
            strategy = self._strategy_after_failure(info, in_flight_uid or info.uid)
        elif self.move_request_cycle >= cycle or not info.has_rejectors:
            # Without hints: something moved while the pod was being scheduled, so do not park it.
            strategy = Strategy.AFTER_BACKOFF
        else:
            strategy = Strategy.SKIP
        if self._done_first:
            self.done(in_flight_uid or info.uid)
        where = self._requeue(info, strategy, ev.SCHEDULE_ATTEMPT_FAILURE, now)
        self._signal(where == "active" or (where == "backoff" and self.options.pop_from_backoff))
        return where != "pool"

    def _place_of(self, key: str) -> str:
        if key in self.unschedulable:
            return "unschedulable queue"
        if key in self.active_q.heap:
            return "the active queue"
        return "the backoff queue" if key in self.backoff_q else ""

    def _refresh(self, info: QueuedPodInfo, uid: str) -> None:
        latest = self.active_q.latest(uid)
        if latest is None or latest.uid != info.uid:
            return
        info.pod_info = PodInfo(latest)
        if self._signer is not None:
            info.pod_signature = self._signer(latest)

    def _strategy_after_failure(self, info: QueuedPodInfo, uid: str) -> Strategy:
        if not info.has_rejectors:
            return Strategy.AFTER_BACKOFF
        try:
            entries = self.active_q.events_for(uid)
        except NotInFlightError:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for entry in entries:
            assert entry.event is not None
            worth = self.worth_requeuing(info, entry.event, entry.old, entry.new)
            if worth == Strategy.SKIP:
                continue
            if worth == Strategy.IMMEDIATELY:
                return worth
            strategy = worth
            if not info.pending_plugins:
                return strategy
        return strategy

    def update(self, old: Pod | None, new: Pod, now: int) -> bool:
        """The object of a waiting pod changed. True when the pod became ready for a cycle.

        Gate 125578. Unfixed, the queue does not check whether the pod is in flight: it is found in no queue and
        becomes ready although it is being scheduled. Fixed, its flight only learns of the update;
        the failure handler will read the new object from the lister.

        Gate 98829 (only where hints are off). Unfixed, an update that may help sends a rejected pod
        to the backoff queue in any case. Fixed, a pod whose backoff is over becomes ready at once.
        """
        return self._signal(self._update(old, new, now))

    def _update(self, old: Pod | None, new: Pod, now: int) -> bool:
        events = None if old is None else pod_update_events(new, old)
        if events is not None and old is not None and new.spec.node_name:
            events += resize_events(new, old)
        if (
            self._holds_updates
            and old is not None
            and events is not None
            and self.active_q.add_events_if_in_flight(old, new, events)
        ):
            return False
        if old is not None:
            old_key = pod_key(old)
            info = self.active_q.heap.get(old_key)
            if info is not None:
                self._replace_pod(old, info, new)
                self.active_q.heap.push(info)
                return True
            info = self.backoff_q.get(old_key)
            if info is not None:
                self._replace_pod(old, info, new)
                self.backoff_q.fix(info)
                return False
        info = self.unschedulable.get(pod_key(new))
        if info is None:
            info = self._fresh(new, now)
            return self._move_to_active(info, ev.UNSCHEDULED_POD_UPDATE.label, now)
        previous = old if old is not None else info.pod
        self._replace_pod(previous, info, new)
        self.unschedulable.replaced(info)
        if not self.options.hints_enabled:
            if old is None or not _pod_updated(old, new):
                return False
            label = ev.UNSCHEDULED_POD_UPDATE.label
            if not self._asks_backoff or self.backoff_q.is_backing_off(info, now):
                self._move_to_backoff(info, label)
                return False
            return self._move_to_active(info, label, now)
        for event in events or ():
            worth = self.worth_requeuing(info, event, old, new)
            where = self._requeue(info, worth, event.label, now)
            if where == "active" or (where == "backoff" and self.options.pop_from_backoff):
                return True
        return False

    def add_steps(self, pod: Pod, now: int) -> Steps[bool]:
        """`add` with the queue's lock held."""
        return self.holding(in_one_step(lambda: self.add(pod, now)))

    def update_steps(self, old: Pod | None, new: Pod, now: int) -> Steps[bool]:
        """`update` with the queue's lock held."""
        return self.holding(in_one_step(lambda: self.update(old, new, now)))

    def delete_steps(self, pod: Pod) -> Steps[None]:
        """`delete` with the queue's lock held."""
        return self.holding(in_one_step(lambda: self.delete(pod)))

    def _replace_pod(self, old: Pod, info: QueuedPodInfo, new: Pod) -> None:
        self._changes += 1
        info.pod_info.update(new)
        if self._signer is not None:
            info.pod_signature = self._signer(new)
        self.nominator.update(old, new)

    def delete(self, pod: Pod) -> None:
        """The pod is gone: drop its nomination and, by its name, its entry. In flight it stays."""
        self.nominator.delete(pod.uid)
        self.active_q.leave(pod.uid)
        key = pod_key(pod)
        if self.active_q.heap.remove(key) is not None:
            return
        if self.backoff_q.remove(key) is not None:
            return
        info = self.unschedulable.remove(key)
        if info is not None:
            profile = info.pod.spec.scheduler_name
            for plugin in info.rejector_plugins():
                self.metrics.unschedulable(plugin, profile, -1)

    # -- moves ---------------------------------------------------------------------------------

    def move_all_to_active_or_backoff_queue(
        self,
        event: ev.ClusterEvent,
        old: Any,
        new: Any,
        now: int,
        pre_check: Callable[[Pod], bool] | None = None,
    ) -> bool:
        """Something changed in the cluster: requeue the pool's pods for which it may matter."""
        if not self.is_interesting(event):
            return False
        return at_once(self._move_all(event, old, new, now, pre_check))

    def move_all_steps(
        self,
        event: ev.ClusterEvent,
        old: Any,
        new: Any,
        now: int,
        pre_check: Callable[[Pod], bool] | None = None,
    ) -> Steps[bool]:
        """The same in steps: Pop may take a pod before the event is noted for pods in flight."""
        return self.holding(self._move_all(event, old, new, now, pre_check))

    def _move_all(
        self,
        event: ev.ClusterEvent,
        old: Any,
        new: Any,
        now: int,
        pre_check: Callable[[Pod], bool] | None,
    ) -> Steps[bool]:
        infos = self.unschedulable.waiting_for(self._wakers(event))
        if pre_check is not None:
            infos = [info for info in infos if pre_check(info.pod)]
        return (yield from self._move(infos, event, old, new, now))

    def assigned_pod_added(self, pod: Pod, namespace_labels: Mapping[str, str], now: int) -> bool:
        """A pod was bound (without hints): only pods with a cross-pod term can profit."""
        infos = self._with_cross_pod_term(pod, namespace_labels)
        return at_once(self._move(infos, ev.ASSIGNED_POD_ADD, None, pod, now))

    def assigned_pod_updated(
        self,
        old: Pod,
        new: Pod,
        event: ev.ClusterEvent,
        namespace_labels: Mapping[str, str],
        now: int,
    ) -> bool:
        """A bound pod changed (without hints): a scale-down can help any pod."""
        if ev.event_of(ev.POD, ev.UPDATE_POD_SCALE_DOWN).matches(event):
            return self.move_all_to_active_or_backoff_queue(event, old, new, now)
        infos = self._with_cross_pod_term(new, namespace_labels)
        return at_once(self._move(infos, event, old, new, now))

    def _with_cross_pod_term(
        self, pod: Pod, namespace_labels: Mapping[str, str]
    ) -> list[QueuedPodInfo]:
        out: list[QueuedPodInfo] = []
        for info in self.unschedulable.with_cross_pod_rules():
            spread = SPREAD in info.unschedulable_plugins
            if (spread and info.pod.namespace == pod.namespace) or any(
                term.matches(pod, namespace_labels)
                for term in info.pod_info.terms.required_affinity
            ):
                out.append(info)
        return out

    def _move(
        self, infos: list[QueuedPodInfo], event: ev.ClusterEvent, old: Any, new: Any, now: int
    ) -> Steps[bool]:
        """Requeue those for which the event may matter.

        Gate 139162 (with its follow-ups 139330 and 139331; in no 1.36 release up to 1.36.2).
        Unfixed, the flush is no event that a gating plugin registered, so gated pods sleep through
        it. Fixed, a wildcard reaches them too, and flushes are counted from the last one.
        """
        if not self.is_interesting(event):
            return False
        ready = False
        if len(infos) > 1:
            infos = self._choose_order("scheduler.queue.move", infos)
        for info in infos:
            if info.gated and not (
                (self._flushes_gated and event.is_wildcard)
                or any(e.matches(event) for e in info.gating_plugin_events)
            ):
                continue
            worth = self.worth_requeuing(info, event, old, new)
            if worth == Strategy.SKIP:
                continue
            self.unschedulable.remove(info.key)
            where = self._requeue(info, worth, event.label, now)
            if where == "active" or (where == "backoff" and self.options.pop_from_backoff):
                ready = True
                yield "scheduler.queue.moved"
        self.move_request_cycle = self.active_q.scheduling_cycle
        if self.options.hints_enabled:
            self.active_q.add_event_if_any_in_flight(event, old, new)
        return self._signal(ready)

    def flush_backoff(self, now: int) -> bool:
        """Timer body, every second: pods whose backoff is over become ready."""
        return at_once(self._flush_backoff(now))

    def flush_backoff_steps(self, now: int) -> Steps[bool]:
        """The same in steps: each pod can be popped at once."""
        return self.holding(self._flush_backoff(now))

    def _flush_backoff(self, now: int) -> Steps[bool]:
        ready = False
        while (info := self.backoff_q.pop_one_completed(now)) is not None:
            if self._move_to_active(info, ev.BACKOFF_COMPLETE, now, from_backoff=True):
                ready = True
                yield "scheduler.queue.moved"
        return self._signal(ready)

    def flush_unschedulable(self, now: int) -> bool:
        """Timer body, every 30 s: pods that have waited too long for an event are retried."""
        return at_once(self._flush_unschedulable(now))

    def flush_unschedulable_steps(self, now: int) -> Steps[bool]:
        """The same in steps."""
        return self.holding(self._flush_unschedulable(now))

    def _flush_unschedulable(self, now: int) -> Steps[bool]:
        limit = self.options.max_in_unschedulable
        late = [
            info
            for info in self.unschedulable
            if now - max(info.timestamp, info.flushed_at) > limit
        ]
        if not late:
            return False
        for info in late:
            info.was_flushed_from_unschedulable = True
        ready = yield from self._move(late, ev.UNSCHEDULABLE_TIMEOUT, None, None, now)
        if self._flushes_gated:
            for info in late:
                info.flushed_at = now
                if info.gated:
                    info.was_flushed_from_unschedulable = False
        return ready

    def activate(self, pods: Sequence[Pod], now: int) -> bool:
        """Make these pods ready at once, wherever they wait; unknown ones are ignored."""
        return at_once(self._activate_all(pods, now))

    def activate_steps(self, pods: Sequence[Pod], now: int) -> Steps[bool]:
        """The same in steps."""
        return self.holding(self._activate_all(pods, now))

    def _activate_all(self, pods: Sequence[Pod], now: int) -> Steps[bool]:
        ready = False
        for pod in pods:
            if self._activate(pod, now):
                ready = True
                yield "scheduler.queue.moved"
        return self._signal(ready)

    def _activate(self, pod: Pod, now: int) -> bool:
        key = pod_key(pod)
        info = self.unschedulable.get(key)
        from_backoff = False
        if info is None:
            info = self.backoff_q.remove(key)
            if info is None:
                # Perhaps it is being scheduled: then it is to be retried if that fails.
                if self.options.hints_enabled:
                    if pod.uid in self.active_q.in_flight:
                        self.active_q.add_event(ev.FORCE_ACTIVATE_EVENT, None, pod)
                else:
                    self.move_request_cycle = self.active_q.scheduling_cycle
                return False
            from_backoff = True
        return self._move_to_active(info, ev.FORCE_ACTIVATE, now, from_backoff=from_backoff)

    # -- the rules behind ----------------------------------------------------------------------

    def is_interesting(self, event: ev.ClusterEvent) -> bool:
        """Return whether any plugin registered for the event (a wildcard is always of interest)."""
        if event.is_wildcard:
            return True
        known = self._interesting.get(event)
        if known is None:
            known = self._interesting[event] = any(
                pattern.matches(event)
                for hint_map in self._hint_maps.values()
                for pattern, _ in hint_map
            )
        return known

    def worth_requeuing(
        self, info: QueuedPodInfo, event: ev.ClusterEvent, old: Any, new: Any
    ) -> Strategy:
        """Ask the hints of the plugins that rejected the pod."""
        if not info.has_rejectors:
            return Strategy.AFTER_BACKOFF
        if event.is_wildcard:
            if new is None:
                return Strategy.AFTER_BACKOFF
            same = isinstance(new, Pod) and new.uid == info.uid
            return Strategy.AFTER_BACKOFF if same else Strategy.SKIP
        profile = info.pod.spec.scheduler_name
        if profile not in self._hint_maps:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        unschedulable, pending = info.unschedulable_plugins, info.pending_plugins
        for plugin, hint in self._hints_for(profile, event):
            if plugin not in unschedulable and plugin not in pending:
                continue
            if hint is not None:
                try:
                    if hint(info.pod, old, new) == ev.Hint.SKIP:
                        continue
                except ev.HintError:
                    pass  # counts as Queue
            if plugin in pending:
                return Strategy.IMMEDIATELY
            strategy = Strategy.AFTER_BACKOFF
            if not pending:
                return strategy
        return strategy

    def _hints_for(
        self, profile: str, event: ev.ClusterEvent
    ) -> list[tuple[str, ev.HintFn | None]]:
        key = (profile, event)
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = [
                (plugin, hint if self.options.hints_enabled else None)
                for pattern, hints in self._hint_maps[profile]
                if pattern.matches(event)
                for plugin, hint in hints
            ]
        return found

    def _wakers(self, event: ev.ClusterEvent) -> dict[str, None] | None:
        """Plugins of any profile that registered for the event; None when it concerns every plugin."""
        if event.is_wildcard:
            return None
        found = self._waking.get(event)
        if found is None:
            found = self._waking[event] = {
                plugin: None
                for profile in self._hint_maps
                for plugin, _ in self._hints_for(profile, event)
            }
        return found

    def _requeue(self, info: QueuedPodInfo, strategy: Strategy, label: str, now: int) -> str:
        """Send the entry where the strategy wants it: answers pool, backoff or active."""
        if strategy == Strategy.SKIP:
            self.unschedulable.add_or_update(info, label)
            return "pool"
        if strategy == Strategy.AFTER_BACKOFF and self.backoff_q.is_backing_off(info, now):
            return "backoff" if self._move_to_backoff(info, label) else "pool"
        return "active" if self._move_to_active(info, label, now) else "pool"

    def _move_to_active(
        self, info: QueuedPodInfo, label: str, now: int, *, from_backoff: bool = False
    ) -> bool:
        if not (self.options.pop_from_backoff and from_backoff):
            self.run_pre_enqueue(info)
            if info.gated:
                if info.key not in self.active_q.heap and info.key not in self.backoff_q:
                    self.unschedulable.add_or_update(info, label)
                return False
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = now
        key = info.key
        self.unschedulable.remove(key)
        self.backoff_q.remove(key)
        self.active_q.add(info, label)
        if label in (ev.UNSCHEDULED_POD_ADD.label, ev.UNSCHEDULED_POD_UPDATE.label):
            self.nominator.add(info.pod, None)
        return True

    def _move_to_backoff(self, info: QueuedPodInfo, label: str) -> bool:
        if self.options.pop_from_backoff:
            self.run_pre_enqueue(info)
            if info.gated:
                if info.key not in self.active_q.heap and info.key not in self.backoff_q:
                    self.unschedulable.add_or_update(info, label)
                return False
        self.unschedulable.remove(info.key)
        self.backoff_q.add(info, label)
        return True

    def run_pre_enqueue(self, info: QueuedPodInfo) -> None:
        """Ask the PreEnqueue plugins, the one that gated the pod before first."""
        plugins = self._pre_enqueue.get(info.pod.spec.scheduler_name, ())
        gating = info.gating_plugin
        ordered = plugins
        if gating:
            ordered = sorted(plugins, key=lambda plugin: plugin.name != gating)
        for plugin in ordered:
            status = plugin.pre_enqueue(info.pod)
            if status is None:
                continue
            if plugin.name not in info.unschedulable_plugins and (
                plugin.name not in info.pending_plugins
            ):
                self.metrics.unschedulable(plugin.name, info.pod.spec.scheduler_name, 1)
            info.unschedulable_plugins[plugin.name] = None
            info.gating_plugin = plugin.name
            info.gating_plugin_events = tuple(self._plugin_events.get(plugin.name, ()))
            return
        info.gating_plugin = ""
        info.gating_plugin_events = ()

    def _fresh(self, pod: Pod, now: int) -> QueuedPodInfo:
        info = QueuedPodInfo.for_pod(pod, now)
        if self._signer is not None:
            info.pod_signature = self._signer(pod)
        return info

    # -- nominations ---------------------------------------------------------------------------

    def add_nominated_pod(self, pod: Pod, nominating: NominatingInfo | None) -> None:
        """Record where the pod is expected; None keeps what its status says."""
        self.nominator.add(pod, nominating)

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """Forget where the pod is expected."""
        self.nominator.delete(pod.uid)

    def nominated_nodes(self) -> list[str]:
        """Nodes with at least one nominated pod."""
        return list(self.nominator.by_node)

    def nominated_pods_for_node(self, node: str) -> list[PodInfo]:
        """Pods expected on the node, in the order in which they were nominated."""
        return self.nominator.pods_for_node(node)


def _pod_updated(old: Pod, new: Pod) -> bool:
    """Return whether more than status and bookkeeping fields changed (the rule without hints)."""

    def essence(pod: Pod) -> dict[str, Any]:
        tree = {key: value for key, value in pod.tree.items() if key != "status"}
        dropped = ("resourceVersion", "generation", "managedFields")
        metadata = tree.get("metadata", {})
        tree["metadata"] = {key: v for key, v in metadata.items() if key not in dropped}
        return tree

    return essence(old) != essence(new)
