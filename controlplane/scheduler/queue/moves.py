"""Moves: events of the cluster, and requests of plugins, that end a pod's wait.

Upstream: `MoveAllToActiveOrBackoffQueue`, `AssignedPodAdded`, `AssignedPodUpdated`, `movePodsToActiveOrBackoffQueue`
and `Activate` of `pkg/scheduler/backend/queue/scheduling_queue.go`. All of it runs under the queue's lock. That
lock does not keep Pop out: a pod that was moved can be popped before the rest of the operation, which is the
point `scheduler.queue.moved`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from controlplane.decisions import Point, Steps, at_once
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo, pod_key
from controlplane.scheduler.queue.queueing_hints import QueueingHints, Strategy
from controlplane.scheduler.queue.transfers import Transfers
from controlplane.scheduler.queue.unschedulable_pods import SPREAD

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.gates import FixGates

MOVED: Final = Point("scheduler.queue.moved")

ChooseOrder = Callable[[str, list[QueuedPodInfo]], list[QueuedPodInfo]]


class Moves:
    """Takes pods out of the pool, or out of backoff, when something happened that may help them."""

    def __init__(
        self,
        transfers: Transfers,
        hints: QueueingHints,
        choose_order: ChooseOrder,
        fixes: FixGates,
    ) -> None:
        self._transfers = transfers
        self._places = transfers.places
        self._hints = hints
        self._choose_order = choose_order
        self._reaches_gated = fixes.fixed("139162")
        self.move_request_cycle = -1
        """The cycle in which something moved last: without hints, a pod that fails in it is not parked."""

    def move_all(
        self,
        event: ev.ClusterEvent,
        old: Any,
        new: Any,
        now: int,
        pre_check: Callable[[Pod], bool] | None,
    ) -> Steps[bool]:
        """Requeue the pool's pods for which the event may matter; return whether one became poppable."""
        infos = self._places.unschedulable.waiting_for(self._hints.interested(event))
        if pre_check is not None:
            infos = [info for info in infos if pre_check(info.pod)]
        return (yield from self.move(infos, event, old, new, now))

    def move(
        self, infos: list[QueuedPodInfo], event: ev.ClusterEvent, old: Any, new: Any, now: int
    ) -> Steps[bool]:
        """Requeue those for which the event may matter; return whether one became poppable.

        The event is noted for the pods in flight only after the last move, as upstream does it: a pod that is
        popped amid the moves starts its flight before the event, and will be asked about it when it fails.

        Gate 139162 (with its follow-ups 139330 and 139331; in no 1.36 release up to 1.36.2).
        Unfixed, the flush is no event that a gating plugin registered, so gated pods sleep through
        it. Fixed, a wildcard reaches them too, and flushes are counted from the last one.
        """
        if not self._hints.is_interesting(event):
            return False
        places, transfers = self._places, self._transfers
        ready = False
        if len(infos) > 1:
            infos = self._choose_order("scheduler.queue.move", infos)
        for info in infos:
            # A gated pod is woken only by what its gate registered: other events cannot open the gate.
            if info.gated and not (
                (self._reaches_gated and event.is_wildcard)
                or any(e.matches(event) for e in info.gating_plugin_events)
            ):
                continue
            worth = self._hints.worth_requeuing(info, event, old, new)
            if worth == Strategy.SKIP:
                continue
            places.unschedulable.remove(info.key)
            if transfers.is_poppable(transfers.requeue(info, worth, event.label, now)):
                ready = True
                yield MOVED
        self.move_request_cycle = places.active_q.scheduling_cycle
        if self._hints.enabled:
            places.active_q.add_event_if_any_in_flight(event, old, new)
        return transfers.signal(ready)

    def assigned_pod_added(
        self, pod: Pod, namespace_labels: Callable[[], Mapping[str, str]], now: int
    ) -> bool:
        """A pod was bound (without hints): only pods with a cross-pod term can profit.

        Coarser than upstream, where Pop may come in as in `move`.
        """
        infos = self._with_cross_pod_term(pod, namespace_labels())
        return at_once(self.move(infos, ev.ASSIGNED_POD_ADD, None, pod, now))

    def assigned_pod_updated(
        self,
        old: Pod,
        new: Pod,
        event: ev.ClusterEvent,
        namespace_labels: Callable[[], Mapping[str, str]],
        now: int,
    ) -> bool:
        """A bound pod changed (without hints): a scale-down can help any pod. Coarser than upstream as above."""
        labels = namespace_labels()
        if ev.event_of(ev.POD, ev.UPDATE_POD_SCALE_DOWN).matches(event):
            return at_once(self.move_all(event, old, new, now, None))
        infos = self._with_cross_pod_term(new, labels)
        return at_once(self.move(infos, event, old, new, now))

    def _with_cross_pod_term(
        self, pod: Pod, namespace_labels: Mapping[str, str]
    ) -> list[QueuedPodInfo]:
        """Return the pool's pods that the placement of another pod can help.

        Upstream: getUnschedulablePodsWithCrossTopologyTerm.
        """
        out: list[QueuedPodInfo] = []
        for info in self._places.unschedulable.with_cross_pod_rules():
            spread = SPREAD in info.unschedulable_plugins
            if (spread and info.pod.namespace == pod.namespace) or any(
                term.matches(pod, namespace_labels)
                for term in info.pod_info.terms.required_affinity
            ):
                out.append(info)
        return out

    def activate(self, pods: Sequence[Pod], now: int) -> Steps[bool]:
        """Make these pods ready at once, wherever they wait; unknown ones are ignored."""
        ready = False
        for pod in pods:
            if self._activate(pod, now):
                ready = True
                yield MOVED
        return self._transfers.signal(ready)

    def _activate(self, pod: Pod, now: int) -> bool:
        places, key = self._places, pod_key(pod)
        info = places.unschedulable.get(key)
        from_backoff = False
        if info is None:
            info = places.backoff_q.remove(key)
            if info is None:
                # Perhaps it is being scheduled: then it is to be retried if that fails.
                if not self._hints.enabled:
                    self.move_request_cycle = places.active_q.scheduling_cycle
                elif pod.uid in places.active_q.in_flight:
                    places.active_q.add_event(ev.FORCE_ACTIVATE_EVENT, None, pod)
                return False
            from_backoff = True
        return self._transfers.move_to_active(
            info, ev.FORCE_ACTIVATE, now, from_backoff=from_backoff
        )
