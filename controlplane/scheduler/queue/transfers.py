"""The queues in which a pod waits, and an entry's way from one to another.

Upstream: `moveToActiveQ`, `moveToBackoffQ`, `requeuePodWithQueueingStrategy` and `runPreEnqueuePlugins` of
`pkg/scheduler/backend/queue/scheduling_queue.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.queue.active_queue import ActiveQueue
from controlplane.scheduler.queue.backoff_queue import BackoffQueue
from controlplane.scheduler.queue.metrics import QueueMetrics
from controlplane.scheduler.queue.nominator import Nominator
from controlplane.scheduler.queue.queueing_hints import QueueingHints, Strategy
from controlplane.scheduler.queue.unschedulable_pods import UnschedulablePods

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.interface import PreEnqueuePlugin
    from controlplane.scheduler.state.pod_info import PodInfo

ACTIVE = "active"
BACKOFF = "backoff"
POOL = "pool"

_ADDED = (ev.UNSCHEDULED_POD_ADD.label, ev.UNSCHEDULED_POD_UPDATE.label)


@attrs.frozen
class Places:
    """The three queues. A key stands in one of them at most."""

    active_q: ActiveQueue
    backoff_q: BackoffQueue
    unschedulable: UnschedulablePods

    def find(self, key: str) -> PodInfo | None:
        """Return the pod under `namespace/name`, wherever it waits."""
        info = self.active_q.heap.get(key) or self.unschedulable.get(key) or self.backoff_q.get(key)
        return None if info is None else info.pod_info

    def name_of(self, key: str) -> str:
        """Return the name of the queue that holds the key, as upstream's error says it; "" without one."""
        if key in self.unschedulable:
            return "unschedulable queue"
        if key in self.active_q.heap:
            return "the active queue"
        return "the backoff queue" if key in self.backoff_q else ""

    @property
    def changes(self) -> int:
        """The number of changes of the queues and of the in-flight events; never backwards."""
        active, backoff = self.active_q, self.backoff_q
        return (
            active.heap.changes
            + active.ledger.changes
            + backoff.heap.changes
            + backoff.error_heap.changes
            + self.unschedulable.changes
        )

    def pending(self) -> dict[str, int]:
        """The gauge pending_pods: pods per queue."""
        gated = self.unschedulable.gated_count()
        return {
            "active": len(self.active_q.heap),
            "backoff": len(self.backoff_q),
            "unschedulable": len(self.unschedulable) - gated,
            "gated": gated,
        }


class Transfers:
    """Puts entries into queues, asking the PreEnqueue plugins on the way."""

    def __init__(
        self,
        places: Places,
        nominator: Nominator,
        hints: QueueingHints,
        pre_enqueue: Mapping[str, Sequence[PreEnqueuePlugin]],
        metrics: QueueMetrics,
        signer: Callable[[Pod], str | None] | None,
        *,
        pop_from_backoff: bool,
    ) -> None:
        self.places = places
        self.signer = signer
        self.signalled = False
        """Pop was to be woken since the signal was taken last."""
        self.replaced = 0
        """The number of entries that were given another object."""
        self._nominator = nominator
        self._hints = hints
        self._pre_enqueue = dict(pre_enqueue)
        self._metrics = metrics
        self._pop_from_backoff = pop_from_backoff

    # -- entries -------------------------------------------------------------------------------

    def fresh(self, pod: Pod, now: int) -> QueuedPodInfo:
        """Return a new entry for a pod."""
        info = QueuedPodInfo.for_pod(pod, now)
        if self.signer is not None:
            info.pod_signature = self.signer(pod)
        return info

    def replace_pod(self, old: Pod, info: QueuedPodInfo, new: Pod) -> None:
        """Give a waiting entry the newer object of its pod; a nomination in memory stays."""
        self.replaced += 1
        info.pod_info.update(new)
        if self.signer is not None:
            info.pod_signature = self.signer(new)
        self._nominator.update(old, new)

    # -- ways ----------------------------------------------------------------------------------

    def signal(self, ready: bool) -> bool:
        """Note that a waiting Pop is to be woken if a pod became poppable; return that."""
        self.signalled = self.signalled or ready
        return ready

    def is_poppable(self, where: str) -> bool:
        """Return whether Pop may take a pod from the queue that `requeue` put it into."""
        return where == ACTIVE or (where == BACKOFF and self._pop_from_backoff)

    def requeue(self, info: QueuedPodInfo, strategy: Strategy, label: str, now: int) -> str:
        """Put the entry where the strategy wants it; return the queue in which it ended.

        A PreEnqueue plugin can still send it to the pool: it is gated then.
        """
        if strategy == Strategy.SKIP:
            self.places.unschedulable.add_or_update(info, label)
            return POOL
        if strategy == Strategy.AFTER_BACKOFF and self.places.backoff_q.is_backing_off(info, now):
            return BACKOFF if self.move_to_backoff(info, label) else POOL
        return ACTIVE if self.move_to_active(info, label, now) else POOL

    def move_to_active(
        self, info: QueuedPodInfo, label: str, now: int, *, from_backoff: bool = False
    ) -> bool:
        """Make the pod ready for a cycle, unless a PreEnqueue plugin holds it back; return which.

        Where Pop may take pods out of backoff, the plugins were asked on the way into the backoff queue, and
        are not asked again on the way out.
        """
        places = self.places
        if not (self._pop_from_backoff and from_backoff) and self._is_gated(info, label):
            return False
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = now
        key = info.key
        places.unschedulable.remove(key)
        places.backoff_q.remove(key)
        places.active_q.add(info, label)
        if label in _ADDED:
            self._nominator.add(info.pod, None)
        return True

    def move_to_backoff(self, info: QueuedPodInfo, label: str) -> bool:
        """Let the pod serve its backoff, unless a PreEnqueue plugin holds it back; return which."""
        if self._pop_from_backoff and self._is_gated(info, label):
            return False
        self.places.unschedulable.remove(info.key)
        self.places.backoff_q.add(info, label)
        return True

    def _is_gated(self, info: QueuedPodInfo, label: str) -> bool:
        """Ask the PreEnqueue plugins; a pod that is held back goes to the pool if it waits nowhere else."""
        self._run_pre_enqueue(info)
        if not info.gated:
            return False
        places = self.places
        if info.key not in places.active_q.heap and info.key not in places.backoff_q:
            places.unschedulable.add_or_update(info, label)
        return True

    def _run_pre_enqueue(self, info: QueuedPodInfo) -> None:
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
                self._metrics.unschedulable(plugin.name, info.pod.spec.scheduler_name, 1)
            info.unschedulable_plugins[plugin.name] = None
            info.gating_plugin = plugin.name
            info.gating_plugin_events = self._hints.events_of(plugin.name)
            return
        info.gating_plugin = ""
        info.gating_plugin_events = ()
