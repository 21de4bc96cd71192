"""GangScheduling: at least `minCount` pods of a group are bound, or none.

Upstream: `pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go`. A pod waits before the queue until
its group exists and has enough pods, and in Permit until enough of them have a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    Code,
    EnqueueExtensions,
    PermitPlugin,
    PreEnqueuePlugin,
    Status,
    error,
    unresolvable,
)
from controlplane.scheduler.state.pod_groups import group_of, not_found

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.scheduling import PodGroup
    from controlplane.scheduler.framework.cycle_state import CycleState

PERMIT_TIMEOUT = 5 * 60 * 1_000_000_000
"""Nanoseconds for which a pod waits in Permit for its siblings."""

TOO_FEW = unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
WAITING = Status(Code.WAIT, ("waiting for minCount pods from a gang to be scheduled",))


class GangScheduling(PreEnqueuePlugin, PermitPlugin, EnqueueExtensions):
    """Counts the pods of a gang, before the queue and in Permit."""

    name = names.GANG_SCHEDULING
    reads = ("pod_groups",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """A sibling, or the group itself, appears. Both are immutable in what matters here."""
        return [
            ev.ClusterEventWithHint(ev.event_of(ev.POD, ev.ADD), _pod_added),
            ev.ClusterEventWithHint(ev.event_of(ev.POD_GROUP, ev.ADD), _group_added),
        ]

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the pod until its group is known and, for a gang, has enough pods in any state."""
        key = group_of(pod)
        if key is None:
            return None
        group = self._handle.listers.pod_groups.get(*key)
        if group is None:
            return unresolvable(
                f'waiting for pods\'s pod group "{key[1]}" to appear in scheduling queue'
            )
        gang = group.spec.scheduling_policy.gang
        if gang is None:
            return None
        state = self._handle.pod_groups.get(key)
        if state is None:
            return error(not_found(key))
        return TOO_FEW if len(state.all) < gang.min_count else None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, int]:
        """Hold the pod until enough of its gang have a node; the one that completes it lets the others go."""
        key = group_of(pod)
        if key is None:
            return None, 0
        handle = self._handle
        group = handle.listers.pod_groups.get(*key)
        if group is None:
            missing = f'podgroup.scheduling.k8s.io "{key[1]}" not found'
            return error(f"failed to get podGroup {key[0]}/{key[1]}: {missing}"), 0
        gang = group.spec.scheduling_policy.gang
        if gang is None:
            return None, 0
        trying = state.group is not None
        states = handle.snapshot.pod_groups if trying else handle.pod_groups
        members = states.get(key)
        if members is None:
            return error(not_found(key)), 0
        if members.scheduled_count < gang.min_count:
            handle.activations.extend(members.unscheduled_pods())
            return WAITING, PERMIT_TIMEOUT
        for uid in list(members.assumed):
            waiting = handle.waiting_pods.get(uid)
            if waiting is not None:
                waiting.allow(self.name)
        return None, 0


def _pod_added(pod: Pod, _old: None, new: Pod) -> ev.Hint:
    mine = group_of(pod)
    return ev.Hint.QUEUE if mine is not None and mine == group_of(new) else ev.Hint.SKIP


def _group_added(pod: Pod, _old: None, new: PodGroup) -> ev.Hint:
    added = (new.metadata.namespace, new.metadata.name)
    return ev.Hint.QUEUE if group_of(pod) == added else ev.Hint.SKIP
