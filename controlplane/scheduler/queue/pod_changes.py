"""Changes of waiting pods: what the informer of pods says about a pod that has no node.

Upstream: `Add`, `Update` and `Delete` of `pkg/scheduler/backend/queue/scheduling_queue.go`, each under the
queue's lock as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.queued_pod_info import pod_key
from controlplane.scheduler.queue.event_diff import pod_update_events, resize_events
from controlplane.scheduler.queue.metrics import QueueMetrics
from controlplane.scheduler.queue.nominator import Nominator
from controlplane.scheduler.queue.queueing_hints import QueueingHints
from controlplane.scheduler.queue.transfers import Transfers

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.gates import FixGates


class PodChanges:
    """Takes pods in, follows their updates, and drops them."""

    def __init__(
        self,
        transfers: Transfers,
        nominator: Nominator,
        hints: QueueingHints,
        metrics: QueueMetrics,
        fixes: FixGates,
    ) -> None:
        self._transfers = transfers
        self._places = transfers.places
        self._nominator = nominator
        self._hints = hints
        self._metrics = metrics
        self._holds_updates = hints.enabled and fixes.fixed("125578")
        self._asks_backoff = fixes.fixed("98829")

    def added(self, pod: Pod, now: int) -> bool:
        """Give the pod a fresh entry, without a check for duplicates; return whether it became ready."""
        transfers = self._transfers
        info = transfers.fresh(pod, now)
        return transfers.signal(transfers.move_to_active(info, ev.UNSCHEDULED_POD_ADD.label, now))

    def updated(self, old: Pod | None, new: Pod, now: int) -> bool:
        """Give the pod's entry the newer object; return whether the pod became ready for a cycle.

        The order in which the places are searched is upstream's: in flight, active, backoff, pool. A pod that
        stands in none of them gets a fresh entry.

        Gate 125578. Unfixed, the queue does not check whether the pod is in flight: it is found in no queue and
        becomes ready although it is being scheduled. Fixed, its flight only learns of the update;
        the failure handler will read the new object from the lister.

        Gate 98829 (only where hints are off). Unfixed, an update that may help sends a rejected pod
        to the backoff queue in any case. Fixed, a pod whose backoff is over becomes ready at once.
        """
        return self._transfers.signal(self._updated(old, new, now))

    def _updated(self, old: Pod | None, new: Pod, now: int) -> bool:
        transfers, places = self._transfers, self._places
        events = None if old is None else pod_update_events(new, old)
        if events is not None and old is not None and new.spec.node_name:
            events += resize_events(new, old)
        if (
            self._holds_updates
            and old is not None
            and events is not None
            and places.active_q.add_events_if_in_flight(old, new, events)
        ):
            return False
        if old is not None:
            old_key = pod_key(old)
            info = places.active_q.heap.get(old_key)
            if info is not None:
                transfers.replace_pod(old, info, new)
                places.active_q.heap.push(info)
                return True
            info = places.backoff_q.get(old_key)
            if info is not None:
                transfers.replace_pod(old, info, new)
                places.backoff_q.fix(info)
                return False
        info = places.unschedulable.get(pod_key(new))
        if info is None:
            info = transfers.fresh(new, now)
            return transfers.move_to_active(info, ev.UNSCHEDULED_POD_UPDATE.label, now)
        previous = old if old is not None else info.pod
        transfers.replace_pod(previous, info, new)
        places.unschedulable.replaced(info)
        if not self._hints.enabled:
            if old is None or not _pod_updated(old, new):
                return False
            label = ev.UNSCHEDULED_POD_UPDATE.label
            if not self._asks_backoff or places.backoff_q.is_backing_off(info, now):
                transfers.move_to_backoff(info, label)
                return False
            return transfers.move_to_active(info, label, now)
        for event in events or ():
            worth = self._hints.worth_requeuing(info, event, old, new)
            if transfers.is_poppable(transfers.requeue(info, worth, event.label, now)):
                return True
        return False

    def deleted(self, pod: Pod) -> None:
        """Drop the pod's nomination and, by its name, its entry. A pod in flight stays in flight."""
        places = self._places
        self._nominator.delete(pod.uid)
        places.active_q.leave(pod.uid)
        key = pod_key(pod)
        if places.active_q.heap.remove(key) is not None:
            return
        if places.backoff_q.remove(key) is not None:
            return
        info = places.unschedulable.remove(key)
        if info is not None:
            profile = info.pod.spec.scheduler_name
            for plugin in info.rejector_plugins():
                self._metrics.unschedulable(plugin, profile, -1)


def _pod_updated(old: Pod, new: Pod) -> bool:
    """Return whether more than status and bookkeeping fields changed (the rule without hints).

    Of the status the names of claims count: a pod waits for them.
    """

    def essence(pod: Pod) -> dict[str, Any]:
        tree = {key: value for key, value in pod.tree.items() if key != "status"}
        status = pod.tree.get("status") or {}
        tree["claims"] = [
            status.get(name) for name in ("resourceClaimStatuses", "extendedResourceClaimStatus")
        ]
        dropped = ("resourceVersion", "generation", "managedFields", "finalizers")
        metadata = tree.get("metadata", {})
        tree["metadata"] = {key: v for key, v in metadata.items() if key not in dropped}
        return tree

    return essence(old) != essence(new)
