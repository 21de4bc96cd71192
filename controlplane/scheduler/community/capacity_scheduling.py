"""CapacityScheduling: namespaces lend each other what their ElasticQuotas guarantee and they do not use.

Upstream: pkg/capacityscheduling/capacity_scheduling.go. Victims are evicted within the scheduling cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from controlplane.client.resources import Resource as ApiResource
from controlplane.decisions import Point, at_once
from controlplane.scheduler.community.elastic_quota import Quota, Quotas, plus, pod_request
from controlplane.scheduler.framework import events
from controlplane.scheduler.framework.args import DefaultPreemptionArgs
from controlplane.scheduler.framework.custom import CustomKind, CustomObjects, Tree
from controlplane.scheduler.framework.events import ClusterEvent, ClusterEventWithHint
from controlplane.scheduler.framework.interface import (
    Code,
    Filters,
    NodeToStatus,
    PostFilterResult,
    PreFilterExtensions,
    PreFilterResult,
    ReservePlugin,
    Status,
    StatusError,
    SteppedPreFilterPlugin,
    error,
    unresolvable,
    unschedulable,
)
from controlplane.scheduler.framework.notified import ObjectHandler, PodHandler
from controlplane.scheduler.plugins.default_preemption import NEVER, TERMINATING, DefaultPreemption
from controlplane.scheduler.plugins.importance import more_important
from controlplane.scheduler.plugins.preemption import (
    Budget,
    DryRun,
    by_importance,
    dry_run,
    split_by_budgets,
)
from controlplane.scheduler.state.resources import Resource

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.decisions import Steps
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo

ELASTIC_QUOTA: Final = CustomKind(
    "ElasticQuota", ApiResource("scheduling.x-k8s.io", "v1alpha1", "elasticquotas")
)
ENDED: Final = ("Succeeded", "Failed")
NOMINATIONS: Final = Point("scheduler.plugin.nominations")
_FULL: Final = unschedulable("global quota max exceeded")
_UNREAD: Final = "not eligible due to failed to read from cycleState"


@attrs.frozen
class _Asked:
    """Requests of a pod: alone, with more important nominated pods of its namespace, with those of others too."""

    own: Resource
    in_namespace: Resource = attrs.Factory(Resource)
    everywhere: Resource = attrs.Factory(Resource)


class CapacityScheduling(
    DefaultPreemption,
    SteppedPreFilterPlugin,
    PreFilterExtensions,
    ReservePlugin,
    PodHandler,
    ObjectHandler,
):
    """Refuses what exceeds quotas, and takes back what was lent.

    `objects` holds objects of kind ElasticQuota.

    Gate here3 (proposed here; not reported). Upstream a quota that is created, or created again, begins with nothing
    used, and a scheduler that starts does not wait until the plugin was told of the pods that there are: pods with a
    node do not count, and more are let in than the quota allows. With the proposal a new quota counts the pods that
    have a node, and the start waits.
    """

    name = "CapacityScheduling"
    custom = (ELASTIC_QUOTA,)
    assigned_only = True
    _ASKED: Final = "PreFilterCapacityScheduling"
    _QUOTAS: Final = "ElasticQuotaSnapshot"

    def __init__(
        self, args: Mapping[str, Any] | None, handle: Handle, objects: CustomObjects | None = None
    ) -> None:
        super().__init__(DefaultPreemptionArgs(100, 0), handle)
        self._clears, self._async = True, False
        self.reads = ("pod_disruption_budgets",)
        self._objects = handle.custom if objects is None else objects
        self.quotas = Quotas()
        self._recounts = handle.fixes.fixed("here3")
        self._placed: dict[str, Pod] = {}
        """Pods with a node, by uid (gate here3)."""

    @property
    def awaited(self) -> bool:
        """Return whether nothing is scheduled before the pods that there are were counted."""
        return self._recounts

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """Pods that go, and quotas."""
        quotas = ClusterEvent(ELASTIC_QUOTA.event, events.ALL)
        pods = ClusterEvent(events.POD, events.DELETE)
        return [ClusterEventWithHint(each) for each in (pods, quotas)]

    # -- notifications -----------------------------------------------------------------------------

    def quota_added(self, tree: Tree) -> None:
        """Note a quota; the first one of a namespace counts. Pods that are bound already are not counted again."""
        namespace = tree["metadata"]["namespace"]
        if self.quotas.get(namespace) is not None:
            return
        quota = self.quotas.by_namespace[namespace] = Quota(tree)
        for pod in self._placed.values():
            if pod.namespace == namespace:
                quota.add(pod)

    def quota_changed(self, tree: Tree) -> None:
        """Note a changed quota; what is used remains."""
        quota, namespace = Quota(tree), tree["metadata"]["namespace"]
        before = self.quotas.get(namespace)
        if before is not None:
            quota.used, quota.pods = before.used, before.pods
        self.quotas.by_namespace[namespace] = quota

    def quota_deleted(self, tree: Tree) -> None:
        """Forget the quota of a namespace."""
        self.quotas.by_namespace.pop(tree["metadata"]["namespace"], None)

    def object_added(self, kind: str, tree: Tree) -> None:
        """Note a quota."""
        self.quota_added(tree)

    def object_updated(self, kind: str, old: Tree, new: Tree) -> None:
        """Note a changed quota."""
        self.quota_changed(new)

    def object_deleted(self, kind: str, tree: Tree) -> None:
        """Forget a quota."""
        self.quota_deleted(tree)

    def pod_added(self, pod: Pod) -> None:
        """Count a pod with a node; a quota not heard of yet is read."""
        if not pod.spec.node_name:
            return
        if self.quotas.get(pod.namespace) is None:
            listed = self._objects.list("ElasticQuota")
            own = [each for each in listed if each["metadata"].get("namespace") == pod.namespace]
            own.sort(key=lambda each: str(each["metadata"]["name"]))
            for tree in self._handle.choose_order("scheduler.plugin.quotas", own)[:1]:
                self.quota_added(tree)
        self._count(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Count a pod no longer that has ended."""
        ended = old.status.phase in ENDED
        if not ended and new.status.phase not in ("Running", "Pending"):
            self.pod_deleted(new)

    def pod_deleted(self, pod: Pod) -> None:
        """Count a pod no longer."""
        self._placed.pop(pod.uid, None)
        quota = self.quotas.get(pod.namespace)
        if quota is not None:
            quota.remove(pod)

    def _count(self, pod: Pod) -> None:
        if self._recounts and pod.status.phase not in ENDED:
            self._placed[pod.uid] = pod
        quota = self.quotas.get(pod.namespace)
        if quota is not None:
            quota.add(pod)

    # -- pre filter --------------------------------------------------------------------------------

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Refuse a pod that would exceed its quota, or all guarantees together."""
        return at_once(self.pre_filter_steps(state, pod, nodes))

    def pre_filter_steps(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> Steps[tuple[PreFilterResult | None, Status | None]]:
        """As `pre_filter`; quotas may change after they were copied, and upstream reads them again without a lock."""
        quotas, own = self.quotas.clone(), pod_request(pod)
        state.write(self._QUOTAS, quotas)
        quota = quotas.get(pod.namespace)
        if quota is None:
            state.write(self._ASKED, _Asked(own))
            return None, None
        yield NOMINATIONS
        asked = self._asked(pod, own)
        state.write(self._ASKED, asked)
        told = f"Pod {pod.namespace}/{pod.name} is rejected in PreFilter because"
        if quota.over_most(asked.in_namespace):
            return None, unschedulable(f"{told} ElasticQuota {pod.namespace} is more than Max")
        if quotas.over_all(asked.everywhere):
            return None, unschedulable(f"{told} total ElasticQuota used is more than min")
        return None, None

    def _asked(self, pod: Pod, own: Resource) -> _Asked:
        inside, everywhere = own, own
        for node in self._handle.snapshot.node_info_list:
            for info in self._handle.nominated_pods(node.name):
                other = info.pod
                quota = self.quotas.get(other.namespace)
                if other.uid == pod.uid or quota is None:
                    continue
                request = pod_request(other)
                if other.namespace != pod.namespace:
                    if not quota.over_least():
                        everywhere = plus(everywhere, request)
                elif (other.spec.priority or 0) >= (pod.spec.priority or 0):
                    inside, everywhere = plus(inside, request), plus(everywhere, request)
        return _Asked(own, inside, everywhere)

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
        """`added` uses its quota."""
        quotas = state.read(self._QUOTAS)
        quota = None if quotas is None else quotas.get(added.pod.namespace)
        if quota is not None:
            quota.add(added.pod)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        """`removed` uses its quota no longer."""
        quotas = state.read(self._QUOTAS)
        quota = None if quotas is None else quotas.get(removed.pod.namespace)
        if quota is not None:
            quota.remove(removed.pod)
        return None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Count the pod."""
        self._count(pod)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Count the pod no longer."""
        self.pod_deleted(pod)

    # -- preemption --------------------------------------------------------------------------------

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Choose victims on one node; without any the pod's nomination is taken back."""
        self.attempts += 1
        return self._preempt(state, pod, statuses, filters)

    def may_preempt(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> tuple[bool, str]:
        """Return whether the pod may preempt now, and the reason if not."""
        if pod.spec.preemption_policy == "Never":
            return False, NEVER
        asked, quotas = state.read(self._ASKED), state.read(self._QUOTAS)
        if asked is None:
            return False, _UNREAD
        nominated = pod.status.nominated_node_name
        if not nominated or statuses.get(nominated).code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return True, ""
        node = self._handle.snapshot.get(nominated)
        if node is None:
            return True, ""
        may_take, counts = _victim_rule(pod, asked, quotas), quotas.get(pod.namespace) is not None
        for info in node.pods:
            lower = (info.pod.spec.priority or 0) < (pod.spec.priority or 0)
            beside = counts and info.pod.namespace == pod.namespace and lower
            gone = info.pod.metadata.deletion_timestamp is not None
            if gone and (beside or may_take(info.pod)):
                return False, TERMINATING
        return True, ""

    def find_candidates(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> DryRun:
        """Try preemption on all potential nodes, in the order of the snapshot."""
        nodes = self.potential_nodes(statuses)
        budgets = list(self._handle.listers.pod_disruption_budgets.list())
        if not nodes:
            return DryRun()
        select = self._select
        return dry_run(filters, state, pod, nodes, budgets, 0, len(nodes), select=select)

    def _select(
        self,
        filters: Filters,
        state: CycleState,
        pod: Pod,
        node: NodeInfo,
        budgets: Sequence[Budget],
    ) -> tuple[list[Pod], int]:
        """Victims on `node` (a copy, changed here) and violated budgets. Raises StatusError."""
        asked, quotas = state.read(self._ASKED), state.read(self._QUOTAS)
        trial = _Trial(filters, state, pod, node)
        may_take, quota = _victim_rule(pod, asked, quotas), quotas.get(pod.namespace)
        potential = []
        for info in _least_important_first(node.pods, state.now):
            if may_take(info.pod):
                potential.append(info)
                trial.remove(info)
        if not potential:
            told = f"No victims found on node {node.name} for preemptor pod {pod.name}"
            raise StatusError(unresolvable(told))
        refused = filters.run_filter_with_nominated_pods(state, pod, node)
        if refused is None and quota is not None:
            full = quota.over_most(asked.own) or quotas.over_all(asked.own)
            refused = _FULL if full else None
        if refused is not None:
            raise StatusError(refused)
        order = by_importance(state.now)
        potential.sort(key=order)
        violating, clean = split_by_budgets(potential, budgets)
        victims: list[PodInfo] = []
        violations = 0
        for info in (*violating, *clean):
            fits = trial.reprieve(info)
            if not fits:
                victims.append(info)
                violations += any(info is each for each in violating)
            if quota is not None and (
                quota.over_most(asked.in_namespace) or quotas.over_all(asked.everywhere)
            ):
                # Upstream takes the pod away again also where it has done so already, and fails.
                trial.remove(info)
                victims.append(info)
        if violating and clean:
            victims.sort(key=order)
        return [info.pod for info in victims], violations


def _victim_rule(pod: Pod, asked: _Asked, quotas: Quotas) -> Any:
    """Return which pods a preemptor may take the place of.

    Within its guarantee it takes back what other namespaces borrow; above it, or without a quota, pods of lower
    priority make room, in its own namespace or in those without quotas.
    """
    quota, priority = quotas.get(pod.namespace), pod.spec.priority or 0
    above = quota is not None and quota.over_least(asked.in_namespace)

    def may_take(other: Pod) -> bool:
        theirs = quotas.get(other.namespace)
        lower = (other.spec.priority or 0) < priority
        if quota is None:
            return theirs is None and lower
        if theirs is None:
            return False
        same = other.namespace == pod.namespace
        return same and lower if above else not same and theirs.over_least()

    return may_take


def _least_important_first(pods: Sequence[PodInfo], now: int) -> list[PodInfo]:
    """Return pods in upstream's order: an insertion sort whose comparison holds for equal pods too."""
    order: list[PodInfo] = []
    for info in pods:
        at = len(order)
        while at and not more_important(info.pod, order[at - 1].pod, now):
            at -= 1
        order.insert(at, info)
    return order


@attrs.frozen
class _Trial:
    """A node without some of its pods."""

    filters: Filters
    state: CycleState
    pod: Pod
    node: NodeInfo

    def remove(self, info: PodInfo) -> None:
        """Take a pod away. Raises StatusError if it is not there."""
        if all(each.pod.uid != info.pod.uid for each in self.node.pods):
            told = f"no corresponding pod {info.pod.name} in pods of node {self.node.name}"
            raise StatusError(error(told))
        self.node.remove_pod(info.pod)
        _check(self.filters.run_remove_pod(self.state, self.pod, info, self.node))

    def reprieve(self, info: PodInfo) -> bool:
        """Put a pod back; it is taken away again if the preemptor does not fit beside it."""
        self.node.add_pod(info)
        _check(self.filters.run_add_pod(self.state, self.pod, info, self.node))
        told = self.filters.run_filter_with_nominated_pods(self.state, self.pod, self.node)
        if told is not None:
            self.remove(info)
        return told is None


def _check(status: Status | None) -> None:
    if status is not None:
        raise StatusError(status)
