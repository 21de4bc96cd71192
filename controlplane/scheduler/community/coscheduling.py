"""Coscheduling: bind the pods of a PodGroup only when enough of them have a node.

The PodGroup is the one of scheduling.x-k8s.io. Upstream: pkg/coscheduling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.quantity import Quantity, parse
from controlplane.api.times import SECOND, parse_time
from controlplane.client.resources import Resource
from controlplane.scheduler.community.args import arguments
from controlplane.scheduler.framework import events
from controlplane.scheduler.framework.custom import CustomKind, CustomObjects, Tree
from controlplane.scheduler.framework.cycle_state import PODS_TO_ACTIVATE
from controlplane.scheduler.framework.events import ClusterEvent, ClusterEventWithHint
from controlplane.scheduler.framework.interface import (
    Code,
    EnqueueExtensions,
    Filters,
    NodeToStatus,
    PermitPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreFilterResult,
    QueueSortPlugin,
    ReservePlugin,
    Status,
    unresolvable,
    unschedulable,
)
from controlplane.scheduler.framework.notified import PodHandler

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.framework.waiting import WaitingPod
    from controlplane.scheduler.state.node_info import NodeInfo

LABEL: Final = "scheduling.x-k8s.io/pod-group"
POD_GROUP: Final = CustomKind("PodGroup", Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups"))
_DEFAULT_WAIT: Final = 60
_CACHE_TIME: Final = 3 * SECOND
"""The time for which a group stays permitted if none is given."""
_NO_TIME: Final = -(1 << 63)


def group_name(pod: Pod) -> str:
    """Return the name of a pod's group, "" without one."""
    return str((pod.tree["metadata"].get("labels") or {}).get(LABEL) or "")


def _key(pod: Pod) -> str:
    name = group_name(pod)
    return f"{pod.namespace}/{name}" if name else ""


class Coscheduling(
    QueueSortPlugin,
    PreFilterPlugin,
    PostFilterPlugin,
    PermitPlugin,
    ReservePlugin,
    EnqueueExtensions,
    PodHandler,
):
    """All or nothing for the pods of a group.

    `objects` holds objects of kind PodGroup.

    Gate sp930 (proposed here; issue 930). Upstream the pods of a group that have a node are counted by their names. A
    name stays while its pod's Unreserve is to come, though the pod was rejected, and for ever when the PodGroup is
    gone by then: with it the group seems complete, and a pod is bound without its siblings. With the proposal only pods
    count that are bound, wait undecided, or were let go.
    """

    name = "Coscheduling"
    custom = (POD_GROUP,)
    pod_labels = (LABEL,)
    activates = True
    _KEY: Final = "PermitCoscheduling"

    def __init__(
        self, args: Mapping[str, Any] | None, handle: Handle, objects: CustomObjects | None = None
    ) -> None:
        given = arguments(self.name, args)
        self._handle = handle
        self._objects = handle.custom if objects is None else objects
        self._wait = given["PermitWaitingTimeSeconds"]
        self._backoff = given["PodGroupBackoffSeconds"] * SECOND
        self._threshold = given["PodGroupRejectPercentage"] / 100
        self._counts_living = handle.fixes.fixed("sp930")
        self._assigned: dict[str, dict[str, str]] = {}
        """By group, the uids of its pods with a node by their names."""
        self._let_go: dict[str, None] = {}
        """UIDs of pods that were let go (gate sp930)."""
        self._failed: dict[str, int] = {}
        self._permitted: dict[str, int] = {}
        self._backed_off: dict[str, int] = {}

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """New pods, and PodGroups."""
        groups = ClusterEvent(POD_GROUP.event, events.ADD | events.UPDATE)
        return [
            ClusterEventWithHint(each) for each in (ClusterEvent(events.POD, events.ADD), groups)
        ]

    # -- notifications -----------------------------------------------------------------------------

    def pod_added(self, pod: Pod) -> None:
        """Count a pod that has a node."""
        if pod.spec.node_name and group_name(pod):
            self._assigned.setdefault(_key(pod), {})[pod.name] = pod.uid

    def pod_deleted(self, pod: Pod) -> None:
        """Count a pod no longer."""
        if pod.spec.node_name:
            self._release(pod)

    def _release(self, pod: Pod) -> None:
        assigned = self._assigned.get(_key(pod), {})
        assigned.pop(pod.name, None)
        self._let_go.pop(pod.uid, None)
        if not assigned:
            self._assigned.pop(_key(pod), None)

    # -- queue -------------------------------------------------------------------------------------

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Return whether `a` goes first: by priority, by the time of the group, by name."""
        mine, theirs = a.pod_info.pod, b.pod_info.pod
        first, second = mine.spec.priority or 0, theirs.spec.priority or 0
        if first != second:
            return first > second
        return (self._time(a), f"{mine.namespace}/{mine.name}") < (
            self._time(b),
            f"{theirs.namespace}/{theirs.name}",
        )

    def _time(self, info: QueuedPodInfo) -> int:
        """Return the last failure of the pod's group, else its creation, else the pod's first attempt."""
        pod, own = info.pod_info.pod, info.initial_attempt_timestamp
        own = info.timestamp if own is None else own
        if not group_name(pod):
            return own
        failed = self._failed.get(_key(pod))
        if failed is not None:
            return failed
        group = self._group(pod)
        if group is None:
            return own
        created = group["metadata"].get("creationTimestamp")
        return parse_time(created) if created else _NO_TIME

    def _group(self, pod: Pod) -> Tree | None:
        return self._objects.get("PodGroup", pod.namespace, group_name(pod))

    def _siblings(self, pod: Pod) -> list[Pod]:
        """Return the pods of a pod's group, it included, in whatever phase they are."""
        pods = self._handle.listers.pods.labelled(LABEL, group_name(pod))
        return [each for each in pods if each.namespace == pod.namespace]

    # -- pre filter --------------------------------------------------------------------------------

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Refuse a pod whose group cannot be complete."""
        told = self._refusal(pod)
        return None, unresolvable(told) if told else None

    def _refusal(self, pod: Pod) -> str:
        group, key, now = self._group(pod), _key(pod), self._handle.clock()
        if group is None:
            return ""
        if self._backed_off.get(key, _NO_TIME) > now:
            return f"podGroup {key} failed recently"
        pods, least = self._siblings(pod), _least(group)
        if least > len(pods):
            return (
                f"pre-filter pod {pod.name} cannot find enough sibling pods, current pods number:"
                f" {len(pods)}, minMember of group: {least}"
            )
        if sum(bool(p.tree["spec"].get("schedulingGates")) for p in pods) > len(pods) - least:
            return (
                f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup"
            )
        wanted = (group.get("spec") or {}).get("minResources")
        if wanted is None or self._permitted.get(key, _NO_TIME) > now:
            return ""
        gap = self._gap({name: parse(str(each)) for name, each in wanted.items()}, least, key)
        if not gap:
            self._permitted[key] = now + (self._wait * SECOND or _CACHE_TIME)
        return gap

    def _gap(self, wanted: dict[str, Quantity], least: int, key: str) -> str:
        """Return what the cluster lacks for a group; its own pods do not count."""
        wanted["pods"] = Quantity.new(least)
        for node in self._handle.snapshot.node_info_list:
            left = _left(node, key)
            for name in list(wanted):
                wanted[name] = wanted[name] - left.get(name, _ZERO)
                if wanted[name].sign() <= 0:
                    del wanted[name]
            if not wanted:
                return ""
        shown = " ".join(f"{name}:{wanted[name].go_struct()}" for name in sorted(wanted))
        return f"resource gap: map[{shown}]"

    # -- post filter -------------------------------------------------------------------------------

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Give up the pod's group unless only few pods are missing."""
        group, key = self._group(pod), _key(pod)
        nothing = PostFilterResult()
        if group is None:
            return nothing, unschedulable("can not find pod group")
        least, assigned = _least(group), len(self._assigned.get(key, ()))
        if assigned >= least or (least - assigned) / least <= self._threshold:
            return nothing, unschedulable()
        self._reject(pod, "optimistic rejection in PostFilter")
        now = self._handle.clock()
        free = self._backed_off.get(key, _NO_TIME) <= now
        if self._backoff and free and len(self._siblings(pod)) >= least:
            self._backed_off[key] = now + self._backoff
        self._fail(key)
        told = f"PodGroup {key} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        return nothing, unschedulable(told)

    def _waiting(self, pod: Pod) -> Iterator[WaitingPod]:
        for waiting in list(self._handle.waiting_pods.values()):
            if _key(waiting.pod) == _key(pod):
                yield waiting

    def _reject(self, pod: Pod, why: str) -> None:
        for waiting in self._waiting(pod):
            waiting.reject(self.name, why)

    def _fail(self, key: str) -> None:
        self._permitted.pop(key, None)
        self._failed[key] = self._handle.clock()

    # -- permit ------------------------------------------------------------------------------------

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, int]:
        """Hold the pod back until enough of its group have a node, then let all go."""
        if not group_name(pod):
            return None, 0
        group, key = self._group(pod), _key(pod)
        if group is None:
            return unschedulable("PodGroup not found"), 0
        assigned = self._assigned.setdefault(key, {})
        assigned[pod.name] = pod.uid
        if self._count(pod, assigned) >= _least(group):
            self._failed.pop(key, None)
            for waiting in self._waiting(pod):
                waiting.allow(self.name)
                self._admit(waiting.pod)
            self._admit(pod)
            return None, 0
        if len(assigned) == 1:
            state.write(self._KEY, True)
        if state.read(self._KEY):
            self._activate_siblings(state, pod)
        given = (group.get("spec") or {}).get("scheduleTimeoutSeconds")
        wait = self._wait or _DEFAULT_WAIT if given is None else given
        return Status(Code.WAIT), (wait or self._wait) * SECOND

    def _admit(self, pod: Pod) -> None:
        if self._counts_living:
            self._let_go[pod.uid] = None

    def _count(self, pod: Pod, assigned: Mapping[str, str]) -> int:
        """Return the number of pods of the group that have a node, `pod` included."""
        if not self._counts_living:
            return len(assigned)
        return sum(
            uid == pod.uid or self._lives(pod.namespace, name, uid)
            for name, uid in assigned.items()
        )

    def _lives(self, namespace: str, name: str, uid: str) -> bool:
        known = self._handle.listers.pods.get(namespace, name)
        if known is None or known.uid != uid:
            return False
        waiting = self._handle.waiting_pods.get(uid)
        if waiting is not None and waiting.status is not None:
            return False
        return bool(known.spec.node_name) or waiting is not None or uid in self._let_go

    def _activate_siblings(self, state: CycleState, pod: Pod) -> None:
        """Have the other pods of the group made ready when the scheduling cycle ends."""
        wanted = state.read(PODS_TO_ACTIVATE)
        if wanted is None:
            wanted = {}
            state.write(PODS_TO_ACTIVATE, wanted)
        wanted.update((each.key, each) for each in self._siblings(pod) if each.uid != pod.uid)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Nothing to take."""
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Reject the pods of the group that wait."""
        if self._group(pod) is None:
            if self._counts_living:
                self._release(pod)
            return
        self._release(pod)
        self._reject(pod, "rejection in Unreserve")
        self._fail(_key(pod))


_ZERO: Final = Quantity.new_milli(0)


def _least(group: Tree) -> int:
    return int((group.get("spec") or {}).get("minMember") or 0)


def _left(node: NodeInfo, key: str) -> dict[str, Quantity]:
    """Return what a node has left without the pods of a group."""
    rest = node.clone()
    for info in node.pods:
        if _key(info.pod) == key:
            rest.remove_pod(info.pod)
    there, used = rest.allocatable, rest.requested
    left = {
        "cpu": Quantity.new_milli(there.milli_cpu - used.milli_cpu),
        "memory": Quantity.new(there.memory - used.memory),
        "pods": Quantity.new(there.allowed_pod_number - len(rest.pods)),
        "ephemeral-storage": Quantity.new(there.ephemeral_storage - used.ephemeral_storage),
    }
    for name, amount in there.scalars.items():
        left[name] = Quantity.new(amount - used.scalars.get(name, 0))
    return left
