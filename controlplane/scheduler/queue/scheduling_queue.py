"""The scheduling queue: where a pod waits, and what moves it.

Upstream: `pkg/scheduler/backend/queue/scheduling_queue.go`. Its parts stand in modules of their own:

- `active_queue`, `backoff_queue`, `unschedulable_pods`: the three queues; `ledger`: events during flights;
- `nominator`: the nodes on which pods are expected;
- `queueing_hints`: the events that may help a pod;
- `transfers`: an entry's way into a queue;
- `pod_changes`, `moves`, `flushes`, `failed_attempts`: the reasons for such a way.

`PriorityQueue` puts them together and holds the queue's lock while an operation runs. `pop`, `done` and what is
about nominations take only locks of their own. Every other operation is a decision (see
`controlplane.decisions`): it waits for the lock, and stops where Pop or Done may come in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from controlplane.api.pod import Pod
from controlplane.decisions import Locked, Point, Steps, immediate
from controlplane.gates import FixGates
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo, pod_key
from controlplane.scheduler.queue.active_queue import ActiveQueue
from controlplane.scheduler.queue.backoff_queue import (
    DEFAULT_INITIAL_BACKOFF,
    DEFAULT_MAX_BACKOFF,
    BackoffQueue,
)
from controlplane.scheduler.queue.failed_attempts import FailedAttempts
from controlplane.scheduler.queue.flushes import DEFAULT_MAX_IN_UNSCHEDULABLE_PODS, Flushes
from controlplane.scheduler.queue.metrics import QueueMetrics
from controlplane.scheduler.queue.moves import ChooseOrder, Moves
from controlplane.scheduler.queue.nominator import Nominator
from controlplane.scheduler.queue.pod_changes import PodChanges
from controlplane.scheduler.queue.queueing_hints import HintMap, QueueingHints
from controlplane.scheduler.queue.transfers import Places, Transfers
from controlplane.scheduler.queue.unschedulable_pods import UnschedulablePods
from controlplane.scheduler.state.listers import Lister
from controlplane.scheduler.state.pod_info import PodInfo

if TYPE_CHECKING:
    from controlplane.scheduler.framework.interface import PreEnqueuePlugin

R = TypeVar("R")

LOCKED: Final = Locked("scheduler.queue.lock")
TAKE: Final = Point("scheduler.group.take")


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
    groups: bool = False
    """Pods of a group are retried with it, after backoff: no event says more (GenericWorkload)."""


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
        signer: Callable[[Pod], str | None] | None = None,
        fixes: FixGates | None = None,
    ) -> None:
        self.options = options or QueueOptions()
        fixes = fixes or FixGates()
        self._keeps_latest = fixes.fixed("141645")
        self.locked = False
        """An operation that takes the queue's lock is under way."""
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
        self._places = Places(self.active_q, self.backoff_q, self.unschedulable)
        self.nominator = Nominator(pods, self._places.find, fixes)
        self.hints = QueueingHints(hint_maps or {}, enabled=self.options.hints_enabled)
        self._transfers = Transfers(
            self._places,
            self.nominator,
            self.hints,
            pre_enqueue or {},
            self.metrics,
            signer,
            pop_from_backoff=self.options.pop_from_backoff,
        )
        self._pod_changes = PodChanges(
            self._transfers, self.nominator, self.hints, self.metrics, fixes
        )
        self._moves = Moves(self._transfers, self.hints, choose_order, fixes)
        self._flushes = Flushes(
            self._transfers, self._moves, self.options.max_in_unschedulable, fixes
        )
        self._failed = FailedAttempts(
            self._transfers,
            self._moves,
            self.hints,
            self.metrics,
            fixes,
            groups=self.options.groups,
        )

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
        return self._transfers.replaced + self._failed.changes + self._places.changes

    @property
    def landing(self) -> str:
        """UID of the pod that is being put back and whose flight ends in a moment."""
        return self._failed.landing

    @property
    def refused(self) -> str:
        """The reason why a failed pod could not be put back, the last time that happened."""
        return self._failed.refused

    @property
    def signalled(self) -> bool:
        """Pop was to be woken since `take_signal` was asked last."""
        return self._transfers.signalled

    def take_signal(self) -> bool:
        """Return whether a pod became poppable, for which a waiting Pop has to be woken."""
        transfers = self._transfers
        signalled, transfers.signalled = transfers.signalled, False
        return signalled

    def can_pop(self) -> bool:
        """Return whether `pop` would return a pod now (or discard a duplicate)."""
        return self.active_q.can_pop()

    def pending_pods(self) -> dict[str, int]:
        """The gauge pending_pods: pods per queue."""
        return self._places.pending()

    def in_flight_uids(self) -> list[str]:
        """UIDs popped and not done, in the order in which they were popped."""
        return list(self.active_q.in_flight)

    def next_backoff_release(self) -> int | None:
        """Earliest time at which `flush_backoff` would move a pod; None without backoff."""
        return self.backoff_q.next_release()

    def next_unschedulable_timeout(self) -> int | None:
        """Earliest time at which `flush_unschedulable` finds a pod; None with an empty pool."""
        return self._flushes.next_unschedulable_timeout()

    def is_interesting(self, event: ev.ClusterEvent) -> bool:
        """Return whether any plugin registered for the event (a wildcard is always of interest)."""
        return self.hints.is_interesting(event)

    # -- Pop and Done: under the lock of the active queue ----------------------------------------

    def pop(self) -> QueuedPodInfo | None:
        """Take the next pod and mark it in flight; None when none can be popped now."""
        return self.active_q.pop()

    def pop_specific(self, pod: Pod, now: int) -> Steps[QueuedPodInfo | None]:
        """Make a pod ready wherever it waits, and take it; None when it cannot be had (in flight, gated, unknown)."""
        return self.holding(self._pop_specific(pod, now))

    def _pop_specific(self, pod: Pod, now: int) -> Steps[QueuedPodInfo | None]:
        yield from self._moves.activate((pod,), now)
        yield TAKE
        return self.active_q.take(pod_key(pod))

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

    # -- what the informer of pods says ----------------------------------------------------------

    def add(self, pod: Pod, now: int) -> Steps[bool]:
        """A pod appeared: a fresh entry on its way to the active queue. No duplicate check.

        Returns whether the pod became ready for a cycle.
        """
        return self.holding(immediate(self._pod_changes.added)(pod, now))

    def update(self, old: Pod | None, new: Pod, now: int) -> Steps[bool]:
        """The object of a waiting pod changed. Returns whether the pod became ready for a cycle."""
        return self.holding(immediate(self._pod_changes.updated)(old, new, now))

    def delete(self, pod: Pod) -> Steps[None]:
        """The pod is gone: drop its nomination and, by its name, its entry. In flight it stays."""
        return self.holding(immediate(self._pod_changes.deleted)(pod))

    # -- failed attempts, moves and flushes ------------------------------------------------------

    def add_unschedulable_if_not_present(
        self,
        info: QueuedPodInfo,
        cycle: int,
        now: int,
        *,
        in_flight_uid: str | None = None,
    ) -> Steps[None]:
        """Put a pod back after a failed attempt, and end its flight; Pop may come between the two.

        The flight that ends is that of the object inside `info`, unless `in_flight_uid` names
        another (the abandoned first form of PR 138324). Raises AlreadyQueuedError.
        """
        return self.holding(self._failed.put_back(info, cycle, now, in_flight_uid or info.uid))

    def move_all_to_active_or_backoff_queue(
        self,
        event: ev.ClusterEvent,
        old: Any,
        new: Any,
        now: int,
        pre_check: Callable[[Pod], bool] | None = None,
    ) -> Steps[bool]:
        """Something changed in the cluster: requeue the pool's pods for which it may matter."""
        return self.holding(self._moves.move_all(event, old, new, now, pre_check))

    def assigned_pod_added(
        self, pod: Pod, namespace_labels: Callable[[], Mapping[str, str]], now: int
    ) -> Steps[bool]:
        """A pod was bound (without hints): only pods with a cross-pod term can profit.

        `namespace_labels` reads the labels of the pod's namespace, under the queue's lock.
        """
        return self.holding(immediate(self._moves.assigned_pod_added)(pod, namespace_labels, now))

    def assigned_pod_updated(
        self,
        old: Pod,
        new: Pod,
        event: ev.ClusterEvent,
        namespace_labels: Callable[[], Mapping[str, str]],
        now: int,
    ) -> Steps[bool]:
        """A bound pod changed (without hints): a scale-down can help any pod."""
        return self.holding(
            immediate(self._moves.assigned_pod_updated)(old, new, event, namespace_labels, now)
        )

    def activate(self, pods: Sequence[Pod], now: int) -> Steps[bool]:
        """Make these pods ready at once, wherever they wait; unknown ones are ignored."""
        return self.holding(self._moves.activate(pods, now))

    def flush_backoff(self, now: int) -> Steps[bool]:
        """Timer body, every second: pods whose backoff is over become ready."""
        return self.holding(self._flushes.backoff(now))

    def flush_unschedulable(self, now: int) -> Steps[bool]:
        """Timer body, every 30 s: pods that have waited too long for an event are retried."""
        return self.holding(self._flushes.unschedulable(now))

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
