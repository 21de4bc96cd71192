"""The members of a popped pod's group, taken from the queue wherever they wait.

Upstream: `podGroupInfoForPod` and `frameworkForPodGroup` of `pkg/scheduler/schedule_one_podgroup.go`.

Points: `scheduler.group.member` before each further member is taken (PriorityQueue.lock). What happens to the
group's pods meanwhile is not looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.decisions import Point, Steps
from controlplane.scheduler.state.pod_groups import group_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.framework.runtime import Framework
    from controlplane.scheduler.queue.scheduling_queue import PriorityQueue

MEMBER: Final = Point("scheduler.group.member")


def gather(
    handle: Handle, queue: PriorityQueue, info: QueuedPodInfo, now: int
) -> Steps[list[QueuedPodInfo] | None]:
    """The popped pod and its unscheduled siblings, in order of trial; None: the group's state is gone.

    Siblings that are in flight, gated or unknown to the queue are left out. Backoff does not hold them back.
    """
    key = group_of(info.pod)
    assert key is not None
    state = handle.pod_groups.get(key)
    if state is None:
        return None
    siblings = [pod for pod in state.unscheduled_pods() if pod.name != info.pod.name]
    if len(siblings) > 1:
        siblings = handle.choose_order("scheduler.group.members", siblings)
    found = [info]
    for pod in siblings:
        yield MEMBER
        sibling = yield from queue.pop_specific(pod, now)
        if sibling is not None:
            found.append(sibling)
    return sorted(found, key=_order)


def _order(info: QueuedPodInfo) -> tuple[int, int]:
    """More important pods first, then those that have been tried for longer."""
    first = info.initial_attempt_timestamp
    return -(info.pod.spec.priority or 0), -1 if first is None else first


def framework_of(
    frameworks: Mapping[str, Framework], infos: Sequence[QueuedPodInfo]
) -> tuple[Framework | None, str]:
    """The profile of all members, or an error text: they must have the same scheduler."""
    wanted = ""
    for info in infos:
        name = info.pod.spec.scheduler_name
        if not wanted:
            wanted = name
        elif name != wanted:
            return None, (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{wanted}" and "{name}"'
            )
    framework = frameworks.get(wanted)
    if framework is None:
        return None, f'profile not found for scheduler name "{wanted}"'
    return framework, ""
