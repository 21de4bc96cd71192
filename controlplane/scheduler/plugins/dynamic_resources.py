"""DynamicResources: a pod's claims must be allocated, or allocatable, where the pod goes.

What the claims of one cycle need stands in `plugins.claim_cycle`, the search for devices in `dra.allocator`, writes in
`plugins.claim_writing`. Upstream: `pkg/scheduler/framework/plugins/dynamicresources`.

Points: those of `dra.tracker` in PreFilter, those of `plugins.claim_writing` in PostFilter, Unreserve and PreBind,
and that of `plugins.device_wait` in PreBind.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.labels import SelectorError as BadSelector
from controlplane.decisions import at_once
from controlplane.scheduler.dra import conditions
from controlplane.scheduler.dra.allocator import Allocator
from controlplane.scheduler.dra.claims import (
    ClaimError,
    bindings_of,
    claims_of,
    group_claim_name,
    group_name,
    is_controlled_by,
    is_reserved_for,
)
from controlplane.scheduler.dra.extended import (
    IN_MEMORY,
    is_extended_by_class,
    new_claim,
)
from controlplane.scheduler.dra.hints import queue_after_claim, queue_after_pod
from controlplane.scheduler.dra.pools import selector_of
from controlplane.scheduler.dra.requests import claim_name, requests_of
from controlplane.scheduler.dra.tracker import allocation_of
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.column_forms import NodeLocalScore, NormalizeRows
from controlplane.scheduler.framework.interface import (
    SKIP,
    CallingPostFilterPlugin,
    CallingPreBindPlugin,
    CallingReservePlugin,
    EnqueueExtensions,
    FilterPlugin,
    Filters,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterResult,
    Status,
    StatusError,
    SteppedPreFilterPlugin,
    error,
    unresolvable,
    unschedulable,
)
from controlplane.scheduler.framework.scores import normalized
from controlplane.scheduler.plugins import claim_writing as writing
from controlplane.scheduler.plugins.claim_cycle import (
    KEY,
    Claims,
    CycleData,
    GroupData,
    NodeAllocation,
    Offered,
)
from controlplane.scheduler.plugins.device_wait import DeviceWait
from controlplane.scheduler.plugins.node_allocatable import (
    NodeResources,
    clear_patch,
    status_patch,
)
from controlplane.scheduler.state.pod_groups import group_of, not_found
from controlplane.scheduler.state.resources import Resource, pod_requests

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.decisions import Steps
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.dra.manager import DRAManager
    from controlplane.scheduler.framework.args import DynamicResourcesArgs
    from controlplane.scheduler.framework.column_forms import Scores
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.interface import ApiWrite, NodeToStatus
    from controlplane.scheduler.state.node_info import NodeInfo

STEPS_PER_MS: Final = 20
"""Steps of the allocator that stand for a millisecond of the time limit of Filter: here they take no time."""
COST_PER_MS: Final = 500
"""Cost units of selectors that stand for a millisecond: five selectors at their limit fit into the default time."""
_MS: Final = 1_000_000
_UNAVAILABLE: Final = unresolvable("resourceclaim not available on the node").by(
    names.DYNAMIC_RESOURCES
)


class DynamicResources(
    PreEnqueuePlugin,
    SteppedPreFilterPlugin,
    FilterPlugin,
    CallingPostFilterPlugin,
    NodeLocalScore,
    NormalizeRows,
    CallingReservePlugin,
    CallingPreBindPlugin,
    EnqueueExtensions,
):
    """Allocates devices for claims; pods without any pass."""

    name = names.DYNAMIC_RESOURCES
    keyed_by_spec = True

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        self._handle = handle
        self._dra: DRAManager = handle.dra
        self._enabled = handle.feature("DynamicResourceAllocation")
        self._groups = handle.feature("DRAWorkloadResourceClaims")
        self._extends = handle.feature("DRAExtendedResource")
        self._binding_conditions = self._dra.features.device_binding_and_status
        self._binding_timeout = args.binding_timeout or 600_000_000_000
        self._wait = DeviceWait(self._dra, handle, self._binding_timeout)
        self._most_steps: int | None = None
        self._most_cost: int | None = None
        if handle.feature("DRASchedulerFilterTimeout") and args.filter_timeout:
            self._most_steps = max(1, args.filter_timeout // _MS * STEPS_PER_MS)
            self._most_cost = max(1, args.filter_timeout // _MS * COST_PER_MS)
        self._node_resources: NodeResources | None = None
        if handle.feature("DRANodeAllocatableResources"):
            self._node_resources = NodeResources(self._dra, self._claims_of)

    # -- queue ---------------------------------------------------------------------------------

    def _claims_of(self, pod: Tree) -> list[tuple[str, Tree]]:
        """Return the pod's names of its claims, and the claims. ClaimError."""
        return list(claims_of(pod, self._dra.tracker.find, groups=self._groups))

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a pod back whose claims are not there."""
        if not self._enabled or not pod.spec.resource_claims:
            return None
        try:
            self._claims_of(pod.tree)
        except ClaimError as failed:
            self._handle.held_back(pod, self.name, str(failed))
            return unresolvable(str(failed))
        return None

    def sign_pod(self, pod: Pod) -> signers.Fragments | Status:
        """Pods with claims cannot share results."""
        if pod.spec.resource_claims:
            return unschedulable("pods with dra resource claims are not signable")
        return ()

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """As upstream registers them."""
        nodes = ev.ADD | ev.UPDATE_NODE_LABEL | ev.UPDATE_NODE_ALLOCATABLE
        if not self._handle.feature("SchedulerQueueingHints"):
            nodes |= ev.UPDATE_NODE_TAINT
        claims = ev.event_of(ev.POD, ev.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
        changed = ev.ADD | ev.UPDATE
        return [
            ev.ClusterEventWithHint(ev.event_of(ev.NODE, nodes)),
            ev.ClusterEventWithHint(ev.event_of(ev.RESOURCE_CLAIM, changed), self._claim_changed),
            ev.ClusterEventWithHint(claims, self._pod_changed),
            ev.ClusterEventWithHint(ev.event_of(ev.DEVICE_CLASS, changed)),
            ev.ClusterEventWithHint(ev.event_of(ev.RESOURCE_SLICE, changed)),
        ]

    def _claim_changed(self, pod: Pod, old: Any, new: Any) -> ev.Hint:
        before = None if old is None else old.tree
        find = self._dra.tracker.find
        queued = queue_after_claim(pod.tree, before, new.tree, find, groups=self._groups)
        return ev.Hint.QUEUE if queued else ev.Hint.SKIP

    def _pod_changed(self, pod: Pod, _old: Pod, new: Pod) -> ev.Hint:
        find = self._dra.tracker.find
        queued = queue_after_pod(pod.tree, new.tree, find, groups=self._groups)
        return ev.Hint.QUEUE if queued else ev.Hint.SKIP

    # -- pre filter ----------------------------------------------------------------------------

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """A pod without claims, and without resources that a class gives, is skipped."""
        return not self._concerns(pod)

    def _concerns(self, pod: Pod) -> bool:
        """Return whether the pod has claims, or requests what a class gives."""
        if pod.spec.resource_claims:
            return self._enabled
        return bool(self._dra.extended.classes) and self._enabled and self._extended_of(pod)

    def _extended_of(self, pod: Pod) -> bool:
        """Return whether the pod requests a resource that a class gives."""
        if not self._extends or not self._dra.extended.classes:
            return False
        return any(
            is_extended_by_class(name) and not amount.is_zero() and self._dra.delegates(name)
            for name, amount in pod_requests(pod).items()
        )

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """The same without gaps for others."""
        if not self._concerns(pod):
            return None, SKIP
        return at_once(self.pre_filter_steps(state, pod, nodes))

    def pre_filter_steps(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> Steps[tuple[PreFilterResult | None, Status | None]]:
        """Find the claims, and prepare the allocation of those that have none."""
        if not self._concerns(pod):
            return None, SKIP
        data = CycleData()
        state.write(KEY, data)
        try:
            claims = self._find_claims(data, pod)
        except ClaimError as failed:
            return None, unresolvable(str(failed))
        if not claims:
            return None, SKIP
        if claims.has_alternatives():
            state.anew = state.anew | {self.name}  # else no node gets points
        group = self._group_data(state)
        unallocated = False
        for index, claim in enumerate(claims):
            allocation = allocation_of(claim)
            if allocation is not None:
                selector = allocation.get("nodeSelector")
                if selector is not None:
                    try:
                        data.selectors[index] = selector_of(selector)
                    except BadSelector as bad:
                        return None, error(str(bad))
                continue
            unallocated = True
            refused = self._check_unallocated(data, claims, index, group)
            if refused is not None:
                return None, refused
        if unallocated:
            gathered = yield from self._dra.tracker.gather()
            data.allocator = Allocator(
                self._dra.features,
                gathered.state,
                self._dra.classes,
                self._dra.read_slices(),
                self._dra.select,
                self._handle.new_uid,
                self._most_steps,
                self._most_cost,
            )
        data.claims = claims
        if self._node_resources is None:
            data.note_plain()
        return None, None

    def _find_claims(self, data: CycleData, pod: Pod) -> Claims:
        tree = pod.tree
        users = [claim for _, claim in self._claims_of(tree)]
        extended = None
        if self._extended_of(pod):
            data.scalars = Resource.from_requests(pod_requests(pod)).scalars
            extended = self._dra.tracker.extended_of(tree)
            if extended is None:
                extended = new_claim(tree, self._handle.new_uid())
        bindings: list[Tree] = []
        if self._groups:
            bindings = bindings_of(tree, self._group_of(tree))
        return Claims(users, extended, bindings)

    def _group_of(self, pod: Tree) -> Tree | None:
        """Return the PodGroup of a pod, None if it has none. ClaimError."""
        name = group_name(pod)
        if not self._groups or name is None:
            return None
        found = self._dra.group(pod["metadata"].get("namespace", ""), name)
        if found is None:
            raise ClaimError(f'podgroup.scheduling.k8s.io "{name}" not found')
        return found

    def _group_data(self, state: CycleState) -> GroupData | None:
        """Return the data of the pod group's cycle, None outside of one."""
        if state.group is None:
            return None
        found: GroupData | None = state.group.read(KEY)
        if found is None:
            found = GroupData()
            state.group.write(KEY, found)
        return found

    def _check_unallocated(
        self, data: CycleData, claims: Claims, index: int, group: GroupData | None
    ) -> Status | None:
        """Return why a claim cannot be allocated now."""
        claim = claims[index]
        uid = claim["metadata"].get("uid", "")
        pending = self._dra.tracker.pending(uid)
        if pending is not None and group is not None and uid in group.pending:
            data.allocations[index] = pending
            return None
        shown = claim_name(claim)
        if pending is not None:
            return unresolvable(f"resource claim {shown} is in the process of being allocated")
        if claims.is_extended(index):
            return None
        for request in requests_of(claim):
            name = request.get("name", "")
            if request.get("exactly") is not None:
                refused = self._check_class(request["exactly"], name)
                if refused is not None:
                    return refused
            elif request.get("firstAvailable"):
                if not self._dra.features.prioritized_list:
                    return unresolvable(
                        f"resource claim {shown}, request {name}: has subrequests, but the"
                        " DRAPrioritizedList feature is disabled"
                    )
                for sub in request["firstAvailable"]:
                    refused = self._check_class(sub, f"{name}/{sub.get('name', '')}")
                    if refused is not None:
                        return refused
            else:
                return unresolvable(f"resource claim {shown}, request {name}: unknown request type")
        return None

    def _check_class(self, request: Tree, name: str) -> Status | None:
        wanted = request.get("deviceClassName", "")
        if not wanted:
            return error(f"request {name}: unsupported request type")
        if self._dra.classes.get(wanted) is None:
            return unresolvable(f"request {name}: device class {wanted} does not exist")
        return None

    # -- filter --------------------------------------------------------------------------------

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse a node where a claim cannot be used, or devices are missing."""
        data: CycleData | None = state.read(KEY)
        if data is None or not data.claims:
            return None
        if data.plain is not None:
            return data.find_plain(node, data.plain)
        extended, mappings, refused = self._extended_on(data, pod, node)
        if refused is not None or (extended is None and not data.claims.users):
            return refused
        unavailable = []
        for index, claim in enumerate(data.claims):
            usable, refused = self._usable(data, index, claim, pod, node)
            if refused is not None:
                return refused
            if not usable:
                unavailable.append(index)
        found = None
        if data.allocator is not None:
            found, refused = self._allocate(data, pod, node, extended, mappings)
            if refused is not None:
                return refused
        if unavailable:
            data.unavailable |= dict.fromkeys(unavailable)
            return _UNAVAILABLE
        if found is not None:
            data.nodes[node.name] = found
        return None

    def _extended_on(
        self, data: CycleData, pod: Pod, node: NodeInfo
    ) -> tuple[Tree | None, Sequence[Tree], Status | None]:
        """Return the claim for extended resources as the node needs it; None where device plugins give them all."""
        claim = data.claims.extended
        if claim is None:
            return None, (), None
        if (claim["spec"].get("devices") or {}).get("requests") is not None:
            return None, (), unresolvable("cannot schedule extended resource claim")
        offers = self._dra.extended
        if data.offered is None or data.offered.revision != offers.revision:
            data.offered = Offered.of(data.scalars, offers)
        wanted = data.offered.wanted_on(node.allocatable.scalars)
        if wanted is None:
            return None, (), unresolvable("cannot fit resource")
        if not (data.claims.users or wanted) or allocation_of(claim) is not None:
            return None, (), None
        return *data.offered.claim_for(claim, pod.tree, wanted, offers), None

    def _usable(
        self, data: CycleData, index: int, claim: Tree, pod: Pod, node: NodeInfo
    ) -> tuple[bool, Status | None]:
        """Return whether a claim that is allocated can be used on a node, or why the node is refused at once."""
        assert node.node is not None
        selector = data.selectors.get(index)
        if selector is not None and not selector.matches(node.name, node.node.metadata.labels):
            return False, None
        if allocation_of(claim) is None:
            return True, None
        usable = True
        if self._binding_conditions:
            try:
                usable = conditions.is_ready(claim) or not self._is_overdue(claim)
            except conditions.BindingFailed:
                usable = False
        if self._node_resources is not None:
            return usable, self._node_resources.sharing(pod, node, claim)
        return usable, None

    def _is_overdue(self, claim: Tree) -> bool:
        return conditions.is_overdue(claim, self._binding_timeout, self._handle.clock())

    def _allocate(
        self,
        data: CycleData,
        pod: Pod,
        node: NodeInfo,
        extended: Tree | None,
        mappings: Sequence[Tree],
    ) -> tuple[NodeAllocation | None, Status | None]:
        """Search devices on a node for the claims without an allocation."""
        wanted, pending = data.to_ask(extended)
        results, refused = data.search(node, wanted)
        if results is None:
            return None, refused
        of_node: Sequence[Tree] = ()
        if self._node_resources is not None:
            by_uid = {
                claim["metadata"].get("uid", ""): result
                for claim, result in zip(wanted, results, strict=True)
            }
            for index, claim in data.claims.to_allocate():
                if index in data.allocations:
                    by_uid[claim["metadata"].get("uid", "")] = data.allocations[index]
            of_node, refused = self._node_resources.check(data.claims, pod, node, by_uid)
            if refused is not None:
                return None, refused
        return NodeAllocation([*results, *pending], extended, mappings, of_node), None

    # -- post filter ---------------------------------------------------------------------------

    def post_filter_calls(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> Effects[tuple[PostFilterResult | None, Status | None]]:
        """Take the allocation of one claim back that no node can use, if no other pod has it."""
        if not self._enabled:
            return None, unschedulable()
        if filters.ended_before(state, self.name):
            return None, error("not found")
        data: CycleData | None = state.read(KEY)
        if data is None or not data.claims:
            return None, unschedulable("no new claims to deallocate")
        try:
            status = yield from self._give_back(data, pod)
        except writing.WriteError as failed:
            status = error(str(failed))
        if status is None and self._groups:
            status = yield from self._unreserve_group(pod)
        return None, status or unschedulable("still not schedulable")

    def _give_back(self, data: CycleData, pod: Pod) -> Effects[Status | None]:
        """Deallocate or delete a claim; None where there is none to give back. WriteError."""
        extended = data.claims.extended
        written = extended is not None and extended["metadata"].get("name") != IN_MEMORY
        order = sorted(data.unavailable)
        if len(order) > 1:  # upstream takes any
            order = self._handle.choose_order("scheduler.dra.deallocate", order)
        for index in order:
            if data.claims.is_extended(index):
                if written:
                    break
                continue
            claim = data.claims[index]
            users = (claim.get("status") or {}).get("reservedFor") or ()
            if not users or (len(users) == 1 and users[0].get("uid", "") == pod.uid):
                yield from writing.deallocate(claim)
                return unschedulable("deallocation of ResourceClaim completed")
        if extended is not None and written:
            yield from writing.delete_claim(extended)
            return unschedulable("deletion of ResourceClaim completed")
        return None

    def _unreserve_group(self, pod: Pod) -> Effects[Status | None]:
        """Take the reservation of the pod's group from one of its claims, if no pod of the group is scheduled."""
        key = group_of(pod)
        if key is None:
            return None
        members = self._handle.pod_groups.get(key)
        if members is None:
            return error(not_found(key))
        if members.scheduled_count:
            return None
        try:
            group = self._group_of(pod.tree)
            assert group is not None
            for entry in (group.get("spec") or {}).get("resourceClaims") or ():
                claim = self._group_claim(group, entry)
                if claim is None or allocation_of(claim) is None:
                    continue
                if is_reserved_for(claim, pod.tree, groups=True):
                    uid = group["metadata"].get("uid", "")
                    problem = yield from writing.unreserve(claim, uid)
                    if not problem:
                        return unresolvable("ResourceClaim unreserved for PodGroup")
        except ClaimError as failed:
            return error(str(failed))
        return None

    def _group_claim(self, group: Tree, entry: Tree) -> Tree | None:
        """Return a claim of a group; None for one that is not needed, or not the group's. ClaimError."""
        name, must_own = group_claim_name(group, entry)
        if name is None:
            return None
        namespace = group["metadata"].get("namespace", "")
        claim = self._dra.tracker.find(namespace, name)
        if claim is None:
            raise ClaimError(f'could not find resource claim "{namespace}/{name}"')
        return None if must_own and not is_controlled_by(claim, group) else claim

    # -- score ---------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """More points the earlier the alternatives stand that the claims get."""
        if self.name not in state.anew:
            return 0
        data: CycleData | None = state.read(KEY)
        if data is None or not data.claims or not self._dra.features.prioritized_list:
            return 0
        try:
            return data.score(node.name)
        except ValueError as failed:
            raise StatusError(error(str(failed))) from None

    def normalize_rows(self, state: CycleState, pod: Pod, raw: Scores) -> Scores:
        """In proportion to the highest."""
        return normalized(raw)

    def normalized_zero(self) -> int | None:
        """No points remain none."""
        return 0

    def score_key(self, state: CycleState, pod: Pod) -> Hashable:
        """All pods without claims are alike; those with claims are asked anew."""
        return ()

    def score_all(self, state: CycleState, pod: Pod, columns: Columns) -> Scores:
        """Nothing for any node."""
        return columns.alloc_pods * 0

    # -- reserve -------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Put the allocations that Filter found for the node in flight."""
        data: CycleData | None = state.read(KEY)
        if data is None or not data.claims:
            return None
        wanted = data.claims.to_allocate()
        if not wanted or data.allocator is None:
            return None
        found = data.nodes.get(node_name)
        if found is None or not found.results:
            if all(data.claims.is_extended(index) for index, _ in wanted):
                return None  # a device plugin of the node gives what the pod wants
            return error("claim allocation not found for node")
        if len(found.results) != len(wanted):
            return error(
                f"internal error, have {len(found.results)} allocations, {len(wanted)} claims to"
                f" allocate, want {len(wanted)} claims"
            )
        group = self._group_data(state)
        for (index, claim), allocation in zip(wanted, found.results, strict=True):
            data.allocations[index] = allocation
            if data.claims.is_extended(index):
                assert found.extended is not None
                claim = found.extended
            uid = claim["metadata"].get("uid", "")
            self._dra.tracker.signal(uid, writing.with_allocation(claim, allocation))
            if group is not None:
                group.pending[uid] = None
        return None

    def unreserve_calls(self, state: CycleState, pod: Pod, node_name: str) -> Effects[None]:
        """Take allocations in flight and reservations back; what was allocated stays allocated."""
        data: CycleData | None = state.read(KEY)
        if data is None or not data.claims:
            return
        group = self._group_data(state)
        tracker = self._dra.tracker
        for claim in list(data.claims.users):
            uid = claim["metadata"].get("uid", "")
            if tracker.release(uid):
                yield from writing.restore(tracker, claim)
                if group is not None:
                    group.pending.pop(uid, None)
            if allocation_of(claim) is not None and is_reserved_for(claim, pod.tree):
                yield from writing.unreserve(claim, pod.uid)
        yield from self._unreserve_extended(data)
        found = data.nodes.get(node_name)
        if found is not None and found.node_resources:
            yield from clear_patch(pod)

    def _unreserve_extended(self, data: CycleData) -> Effects[None]:
        claim = data.claims.extended
        if claim is None:
            return
        tracker = self._dra.tracker
        if tracker.release(data.claims.extended_uid):
            yield from writing.restore(tracker, claim)
        if claim["metadata"].get("name") == IN_MEMORY:
            return
        try:
            yield from writing.delete_claim(claim)
        except writing.WriteError as failed:
            self._handle.log(f"delete resourceclaim {claim_name(claim)}: {failed}")

    # -- pre bind ------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Nothing to do for pods without claims."""
        data: CycleData | None = state.read(KEY)
        return SKIP if data is None or not data.claims else None

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Sequence[ApiWrite]:
        """Nothing: `pre_bind_calls` does it all."""
        return ()

    def pre_bind_calls(self, state: CycleState, pod: Pod, node_name: str) -> Effects[Status | None]:
        """Write allocations and reservations, and wait until the devices are ready."""
        data: CycleData | None = state.read(KEY)
        if data is None or not data.claims:
            return None
        group = self._group_data(state)
        for index, claim in enumerate(data.claims):
            if is_reserved_for(claim, pod.tree, groups=self._groups):
                continue
            binding = writing.ClaimBinding(
                self._dra,
                data,
                index,
                pod.tree,
                node_name,
                group,
                self._binding_conditions,
                self._handle.clock,
            )
            try:
                data.claims[index] = yield from binding.run()
            except writing.WriteError as failed:
                return error(str(failed))
        found = data.nodes.get(node_name)
        if found is not None and found.node_resources:
            problem = yield from status_patch(pod, found.node_resources)
            if problem:
                return error(problem)
        if self._binding_conditions and conditions.has_conditions(data.claims):
            return (yield from self._wait.run(data, pod, node_name))
        return None
