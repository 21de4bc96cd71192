"""From two versions of an object to the events that the change means.

Upstream: `pkg/scheduler/framework/events.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.state.resources import containers_tell_requests, pod_requests

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod


def pod_update_events(new: Pod, old: Pod) -> list[ev.ClusterEvent]:
    """Everything in the update of a pod that can matter to scheduling; never empty.

    An update without any such change is one general Update.
    """
    resource = ev.ASSIGNED_POD if new.spec.node_name else ev.UNSCHEDULABLE_POD
    actions: list[int] = []
    if new.metadata.labels != old.metadata.labels:
        actions.append(ev.UPDATE_POD_LABEL)
    if _scaled_down(new, old):
        actions.append(ev.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ev.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # Tolerations can only be added, so a change of their number is a change.
    if len(new.spec.tolerations) != len(old.spec.tolerations):
        actions.append(ev.UPDATE_POD_TOLERATION)
    if (
        new.status.resource_claim_statuses != old.status.resource_claim_statuses
        or new.status.extended_resource_claim_status != old.status.extended_resource_claim_status
    ):
        actions.append(ev.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return [ev.event_of(resource, action) for action in actions or (ev.UPDATE,)]


def resize_events(new: Pod, old: Pod) -> list[ev.ClusterEvent]:
    """Return the further events of a resize for preemption: the pod, on a node, requests more (KEP-5836)."""
    if new.spec is old.spec and new.status is old.status:
        return []
    was, now = pod_requests(old, use_status=True), pod_requests(new, use_status=True)
    grew = any(
        (before := was.get(name)) is None or after.cmp(before) > 0 for name, after in now.items()
    )
    return [ev.event_of(ev.ASSIGNED_POD, ev.UPDATE_POD_SCALE_UP)] if grew else []


def _scaled_down(new: Pod, old: Pod) -> bool:
    if new.spec is old.spec and new.status is old.status:
        return False
    if (
        new.spec.containers is old.spec.containers
        and containers_tell_requests(old)
        and containers_tell_requests(new)
    ):
        return False
    was, now = pod_requests(old, use_status=True), pod_requests(new, use_status=True)
    return any(
        (after := now.get(name)) is None or after.cmp(before) < 0 for name, before in was.items()
    )


def node_update_events(new: Node, old: Node) -> list[ev.ClusterEvent]:
    """Everything in the update of a node that can matter to scheduling; may be empty."""
    actions: list[int] = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(ev.UPDATE_NODE_TAINT)
    if new.status.allocatable != old.status.allocatable:
        actions.append(ev.UPDATE_NODE_ALLOCATABLE)
    if new.metadata.labels != old.metadata.labels:
        actions.append(ev.UPDATE_NODE_LABEL)
    if new.spec.taints != old.spec.taints:
        actions.append(ev.UPDATE_NODE_TAINT)
    if _condition_statuses(new) != _condition_statuses(old):
        actions.append(ev.UPDATE_NODE_CONDITION)
    if new.metadata.annotations != old.metadata.annotations:
        actions.append(ev.UPDATE_NODE_ANNOTATION)
    if new.status.declared_features != old.status.declared_features:
        actions.append(ev.UPDATE_NODE_DECLARED_FEATURE)
    return [ev.event_of(ev.NODE, action) for action in actions]


def _condition_statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}
