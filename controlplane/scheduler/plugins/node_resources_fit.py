"""NodeResourcesFit: a node must have room for what a pod requests.

Upstream: `pkg/scheduler/framework/plugins/noderesources/fit.go`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from controlplane.api.pod_resources import CPU, EPHEMERAL_STORAGE, MEMORY
from controlplane.api.resize_policy import as_promised, resize_waits
from controlplane.scheduler.framework import deferred_resize as deferred
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.args import MOST_ALLOCATED, NodeResourcesFitArgs
from controlplane.scheduler.framework.column_forms import (
    NodeLocalFilter,
    NodeLocalScore,
    StatusTable,
)
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    Code,
    EnqueueExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Status,
    unresolvable,
    unschedulable,
)
from controlplane.scheduler.framework.placements import PlacementScorePlugin
from controlplane.scheduler.plugins.allocation_columns import fit_scores
from controlplane.scheduler.plugins.deferred_pod_scheduling import FITS
from controlplane.scheduler.plugins.device_totals import DeviceTotals, scores_devices
from controlplane.scheduler.plugins.resource_allocation import (
    make_scorer,
    node_vectors,
    request_amounts,
)
from controlplane.scheduler.state.node_info import NodeInfo
from controlplane.scheduler.state.pod_info import PodInfo
from controlplane.scheduler.state.resources import (
    Amounts,
    Resource,
    is_extended_resource,
    is_scalar_resource,
    missing_defaults,
    pod_requests,
)

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.columns.rows import Rows
    from controlplane.scheduler.framework.column_forms import Scores, StatusIds
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.placements import Assignments
    from controlplane.scheduler.state.pod_groups import Key

_PARKED = unresolvable(FITS).by(names.NODE_RESOURCES_FIT)
_NOTHING = Resource()
FILTER_KEY = "PreFilterNodeResourcesFit"
_FEW_REASONS = 12
"""Up to this number of bits, combinations are counted in an array instead of sorted."""
_SCORE_KEY = "PreScoreNodeResourcesFit"
_DEVICES_KEY = "PreScoreNodeResourcesFit.devices"
IMPLICIT_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def requested_by(pod: Pod) -> Resource:
    """Return the requests of the incoming pod; its status plays no part."""
    return Resource.from_requests(pod_requests(pod))


class NodeResourcesFit(
    PreFilterPlugin,
    NodeLocalFilter,
    PreScorePlugin,
    NodeLocalScore,
    PlacementScorePlugin,
    EnqueueExtensions,
):
    """Refuses nodes without room; rates the others by how full they would be."""

    name = names.NODE_RESOURCES_FIT
    keyed_by_spec = True

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        self.args = args
        self._resizes = handle.preempts_for_resizes
        self._form = handle.deferred
        self._extended_by_dra = handle.feature("DRAExtendedResource")
        self._dra = handle.dra
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._scorer = make_scorer(args)
        self._placement_scorer = make_scorer(
            NodeResourcesFitArgs(resources=args.resources, strategy=MOST_ALLOCATED)
        )

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Add up what the pod requests."""
        request = requested_by(pod)
        state.write(FILTER_KEY, request)
        if self._wants_devices(request.scalars):
            state.anew = state.anew | {self.name}
        return None, None

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """Requests are in the spec, but which of them devices meet is not."""
        return not self._dra.extended.classes or not self._wants_devices(requested_by(pod).scalars)

    def _wants_devices(self, scalars: Mapping[str, int]) -> bool:
        """Return whether a device class gives some of these resources."""
        if not self._dra.extended.classes:
            return False
        return any(amount and self._dra.delegates(name) for name, amount in scalars.items())

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse a node that lacks anything, and say everything it lacks."""
        request: Resource = state.data[FILTER_KEY]
        if self._resizes and pod.spec.node_name == node.name:
            own = next((each for each in node.pods if each.pod.uid == pod.uid), None)
            if own is not None:
                return self._filter_resize(request, own, node)
        lacking = self.lacking(request, node)
        if not lacking:
            return None
        return _refusal(lacking)

    def _filter_resize(self, request: Resource, own: PodInfo, node: NodeInfo) -> Status | None:
        """Return whether a pod on the node fits there with its current requests (KEP-5836)."""
        if self._form.others == deferred.ALLOCATED:
            node = _as_promised(node, own)
        if self._form.accounting == deferred.WITHOUT_POD:
            node = node.clone()
            node.remove_pod(own.pod)
            refused = _refusal(self.lacking(request, node))
        else:
            refused = _refusal(self.lacking(request, node, counted=own.resource.resource))
        if refused is None and self._form.parking == deferred.FILTER:
            return _PARKED
        return refused

    def counts(self, name: str) -> bool:
        """Return whether a scalar resource is checked here (some may be left to an extender)."""
        if not (self._ignored or self._ignored_groups) or not is_extended_resource(name):
            return True
        return name not in self._ignored and name.partition("/")[0] not in self._ignored_groups

    def lacking(
        self,
        request: Resource,
        node: NodeInfo,
        *,
        ignore: bool = True,
        counted: Resource | Amounts = _NOTHING,
    ) -> list[tuple[str, bool]]:
        """(reason, whether the node can never satisfy it) for everything that does not fit.

        `counted` is what the pod counts for on this node already.
        """
        out: list[tuple[str, bool]] = []
        allocatable, used = node.allocatable, node.requested
        if len(node.pods) + 1 > allocatable.allowed_pod_number:
            out.append(("Too many pods", False))
        cpu, memory, storage = request.milli_cpu, request.memory, request.ephemeral_storage
        if cpu > 0 and max(0, cpu - counted.milli_cpu) > allocatable.milli_cpu - used.milli_cpu:
            out.append(("Insufficient cpu", cpu > allocatable.milli_cpu))
        if memory > 0 and max(0, memory - counted.memory) > allocatable.memory - used.memory:
            out.append(("Insufficient memory", memory > allocatable.memory))
        more = max(0, storage - counted.ephemeral_storage)
        if storage > 0 and more > allocatable.ephemeral_storage - used.ephemeral_storage:
            out.append(("Insufficient ephemeral-storage", storage > allocatable.ephemeral_storage))
        # Upstream walks a map here; names in order are the canonical choice.
        for name in sorted(request.scalars):
            amount = request.scalars[name]
            if amount == 0 or (ignore and not self.counts(name)):
                continue
            capacity = allocatable.scalars.get(name, 0)
            if self._dra.extended.classes and self._dra.delegates(name, capacity):
                continue
            more = max(0, amount - counted.scalars.get(name, 0))
            if more > capacity - used.scalars.get(name, 0):
                out.append((f"Insufficient {name}", amount > capacity))
        return out

    def filter_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Return the requests of the pod."""
        request: Resource = state.data[FILTER_KEY]
        scalars = tuple(sorted(request.scalars.items())) if request.scalars else ()
        return request.milli_cpu, request.memory, request.ephemeral_storage, scalars

    def filter_all(
        self, state: CycleState, pod: Pod, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """Compare columns; each distinct combination of lacking resources is one status."""
        request: Resource = state.data[FILTER_KEY]
        checks = [
            ("Insufficient cpu", request.milli_cpu, columns.alloc_cpu, columns.used_cpu),
            ("Insufficient memory", request.memory, columns.alloc_memory, columns.used_memory),
            (
                "Insufficient ephemeral-storage",
                request.ephemeral_storage,
                columns.alloc_storage,
                columns.used_storage,
            ),
        ]
        for name in sorted(request.scalars):
            if self.counts(name):
                amounts = columns.scalar(name)
                checks.append((f"Insufficient {name}", request.scalars[name], *amounts))
        if not columns.holds(amount for _, amount, _, _ in checks):
            return super().filter_all(state, pod, columns, table)
        reasons: list[tuple[str, bool]] = [("Too many pods", False)]
        lacking = (columns.pod_count + 1 > columns.alloc_pods).astype(np.int64)
        for reason, amount, capacity, used in checks:
            if amount <= 0:
                continue
            short = amount > capacity - used
            if not short.any():
                continue
            never = amount > capacity
            bit = len(reasons)
            reasons += [(reason, False), (reason, True)]
            lacking |= (short & ~never).astype(np.int64) << bit
            lacking |= (short & never).astype(np.int64) << (bit + 1)
        if not lacking.any():
            return None
        if len(reasons) <= _FEW_REASONS:
            kinds, index = np.flatnonzero(np.bincount(lacking)), lacking
            numbers = np.zeros(1 << len(reasons), np.int32)
        else:
            kinds, index = np.unique(lacking, return_inverse=True)
            numbers = np.zeros(len(kinds), np.int32)
        for i, kind in enumerate(kinds.tolist()):
            said = _refusal([r for bit, r in enumerate(reasons) if kind >> bit & 1])
            numbers[kind if index is lacking else i] = table.id_of(said)
        return numbers[index]

    # -- score ---------------------------------------------------------------------------------

    def score_requests(self, pod: Pod) -> list[int]:
        """Requests of the scored resources, with defaults for containers that have none.

        Pod-level requests are not looked at here: so does upstream (1.36).
        """
        requests = pod_requests(pod, pod_level=False, non_missing=missing_defaults({}, False))
        return request_amounts(requests, self.args.resources)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Rows) -> Status | None:
        """Add up what the pod counts for."""
        amounts = self.score_requests(pod)
        state.write(_SCORE_KEY, amounts)
        if self._dra.extended.classes and scores_devices(self._dra, self.args.resources, amounts):
            state.anew = state.anew | {self.name}
            state.write(_DEVICES_KEY, DeviceTotals(self._dra))
        return None

    def pre_score_by_spec(self, pod: Pod) -> bool:
        """Requests are in the spec, but which of them devices meet is not."""
        if not self._dra.extended.classes:
            return True
        return not scores_devices(self._dra, self.args.resources, self.score_requests(pod))

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Points by the scoring strategy."""
        devices: DeviceTotals | None = state.read(_DEVICES_KEY) if state.anew else None
        return self.score_amounts(state.data[_SCORE_KEY], node, devices)

    def score_amounts(
        self, amounts: Sequence[int], node: NodeInfo, devices: DeviceTotals | None = None
    ) -> int:
        """Points of a node for a pod that counts for `amounts`."""
        requested, _, allocatable = node_vectors(
            node, self.args.resources, amounts, plain=False, devices=devices
        )
        return self._scorer(requested, allocatable)

    def score_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Return the resources that the pod counts for."""
        return tuple(state.data[_SCORE_KEY])

    def score_all(self, state: CycleState, pod: Pod, columns: Columns) -> Scores:
        """Points of all nodes at once."""
        requests = state.data[_SCORE_KEY]
        if columns.holds(requests):
            scores = fit_scores(self.args, requests, columns)
            if columns.exact:
                return scores
        return super().score_all(state, pod, columns)

    # -- pod groups ----------------------------------------------------------------------------

    def score_placement(self, group: Key, assignments: Assignments) -> int:
        """Points of a placement by how full the group would make it.

        Per resource; what the pods of the group ask for decides about the resources that count, and grows by what
        runs on the nodes so far, as upstream.
        """
        resources = self.args.resources
        requested = [0] * len(resources)
        for pod in assignments.pods:
            for at, amount in enumerate(self.score_requests(pod)):
                requested[at] += amount
        allocatable = [0] * len(resources)
        for node in assignments.placement.nodes:
            _, used, capacity = node_vectors(node, resources, requested, plain=False)
            for at in range(len(resources)):
                allocatable[at] += capacity[at]
                requested[at] += used[at]
        return self._placement_scorer(requested, allocatable)

    # -- hints ---------------------------------------------------------------------------------

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """A pod goes or shrinks; a node comes or grows; a device class offers the resource."""
        out = [
            ev.ClusterEventWithHint(
                ev.event_of(ev.POD, ev.DELETE | ev.UPDATE_POD_SCALE_DOWN), _pod_changed
            ),
            ev.ClusterEventWithHint(
                ev.event_of(ev.NODE, ev.ADD | ev.UPDATE_NODE_ALLOCATABLE), self._node_changed
            ),
        ]
        if self._resizes:
            grown = ev.event_of(ev.POD, ev.UPDATE_POD_SCALE_UP)
            out.append(ev.ClusterEventWithHint(grown, _pod_grew))
        if self._extended_by_dra:
            out.append(
                ev.ClusterEventWithHint(
                    ev.event_of(ev.DEVICE_CLASS, ev.ADD | ev.UPDATE), _device_class_changed
                )
            )
        return out

    def _node_changed(self, pod: Pod, old: Node | None, new: Node) -> ev.Hint:
        if pod.spec.node_name and pod.spec.node_name != new.name:
            return ev.Hint.SKIP
        request = requested_by(pod)
        empty = NodeInfo()
        empty.set_node(new)
        if self.lacking(request, empty, ignore=False):
            return ev.Hint.SKIP
        if old is None or _grew(request, Resource.from_requests(old.status.allocatable), empty):
            return ev.Hint.QUEUE
        own = empty.allocatable.scalars
        by_devices = any(
            amount and self._dra.delegates(name, own.get(name, 0))
            for name, amount in request.scalars.items()
        )
        return ev.Hint.QUEUE if by_devices else ev.Hint.SKIP

    def sign_pod(self, pod: Pod) -> signers.Fragments | Status:
        """Requests of the pod; a pod with requests that devices meet cannot share results."""
        if self._dra.extended.classes and self._wants_devices(
            Resource.from_requests(pod_requests(pod)).scalars
        ):
            return unschedulable(signers.BY_DEVICES)
        return ((signers.RESOURCES, signers.resources(pod)),)


def _refusal(lacking: Sequence[tuple[str, bool]]) -> Status | None:
    return _refused(tuple(lacking)) if lacking else None


@lru_cache(maxsize=4096)
def _refused(lacking: tuple[tuple[str, bool], ...]) -> Status:
    never = any(never for _, never in lacking)
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if never else Code.UNSCHEDULABLE
    return Status(code, tuple(reason for reason, _ in lacking), names.NODE_RESOURCES_FIT)


def _grew(request: Resource, before: Resource, now: NodeInfo) -> bool:
    after = now.allocatable
    if after.allowed_pod_number > before.allowed_pod_number:
        return True
    wanted = [name for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if request.get(name) > 0]
    wanted += [name for name, amount in request.scalars.items() if amount != 0]
    return any(after.get(name) > before.get(name) for name in wanted)


def _pod_grew(pod: Pod, _old: Pod, new: Pod) -> ev.Hint:
    """A pod on the node took more of it, or the pod itself requests more: other pods may have to be preempted."""
    own = pod.spec.node_name
    return ev.Hint.QUEUE if own and new.spec.node_name == own else ev.Hint.SKIP


def _as_promised(node: NodeInfo, own: PodInfo) -> NodeInfo:
    """The node with the allocated resources of other pods in place of what they wait for."""
    node = node.clone()
    for info in list(node.pods):
        if info is not own and resize_waits(info.pod):
            node.remove_pod(info.pod)
            node.add_pod(PodInfo(as_promised(info.pod)))
    return node


def _pod_changed(pod: Pod, old: Pod, new: Pod | None) -> ev.Hint:
    own = pod.spec.node_name
    if own and own != (old if new is None else new).spec.node_name:
        return ev.Hint.SKIP  # a pod whose resize waits profits from its own node alone
    if new is None:
        scheduled = old.spec.node_name or old.status.nominated_node_name
        return ev.Hint.QUEUE if scheduled else ev.Hint.SKIP
    if new.uid == pod.uid:
        return ev.Hint.QUEUE
    if not new.spec.node_name:
        return ev.Hint.SKIP
    before = Resource.from_requests(pod_requests(old, use_status=True))
    after = Resource.from_requests(pod_requests(new, use_status=True))
    for name, quantity in pod_requests(pod, use_status=True).items():
        if quantity.is_zero():
            continue
        counted = name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar_resource(name)
        if counted and before.get(name) > after.get(name):
            return ev.Hint.QUEUE
    return ev.Hint.SKIP


def _device_class_changed(pod: Pod, old: Any, new: Any) -> ev.Hint:
    request = requested_by(pod)
    now = (new.tree.get("spec") or {}).get("extendedResourceName") or ""
    before = "" if old is None else (old.tree.get("spec") or {}).get("extendedResourceName") or ""
    offered = [now] if now != before else []
    if old is None:
        offered.append(IMPLICIT_DEVICE_CLASS_PREFIX + new.name)
    wanted = any(request.scalars.get(name, 0) != 0 for name in offered)
    return ev.Hint.QUEUE if wanted else ev.Hint.SKIP
