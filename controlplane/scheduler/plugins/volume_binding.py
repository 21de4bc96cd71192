"""VolumeBinding: claims must be bound, or bindable, where the pod goes.

Upstream: `pkg/scheduler/framework/plugins/volumebinding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.args import VolumeBindingArgs
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    SKIP,
    ApiWrite,
    EnqueueExtensions,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
    StatusError,
    WaitingPreBindPlugin,
    error,
    unresolvable,
)
from controlplane.scheduler.plugins.csi_migration import MIGRATED_PLUGINS
from controlplane.scheduler.plugins.volume_binder import (
    ClaimSets,
    Decisions,
    VolumeBinder,
)
from controlplane.scheduler.plugins.volume_claims import (
    claim_name,
    not_found,
    ownership_error,
    uses_claim,
)

if TYPE_CHECKING:
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.pod import Pod
    from controlplane.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
    from controlplane.scheduler.columns.rows import Rows
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

_KEY = "PreFilterVolumeBinding"


@attrs.define
class BindingState:
    """Claims of the pod, and per node what would be bound or provisioned there."""

    claims: ClaimSets
    by_node: dict[str, Decisions] = attrs.Factory(dict)
    all_bound: bool = False


class VolumeBinding(
    PreFilterPlugin,
    FilterPlugin,
    ReservePlugin,
    WaitingPreBindPlugin,
    PreScorePlugin,
    ScorePlugin,
    EnqueueExtensions,
):
    """Finds volumes for unbound claims and checks where bound ones can be reached."""

    name = names.VOLUME_BINDING
    reads = (
        "persistent_volume_claims",
        "persistent_volumes",
        "storage_classes",
        "csi_nodes",
        "csi_drivers",
        "csi_storage_capacities",
    )

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        self.args = args
        self._handle = handle
        self.binder = VolumeBinder(handle.listers)

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Every claim must exist, and be bound or wait for its first consumer."""
        has_claims = False
        for volume in pod.spec.volumes:
            name = claim_name(pod, volume)
            if name is None:
                continue
            has_claims = True
            problem = self._claim_problem(pod, name, ephemeral=volume.ephemeral is not None)
            if problem is not None:
                return None, unresolvable(problem)
        if not has_claims:
            return None, SKIP
        try:
            claims = self.binder.claim_sets(pod)
        except StatusError as failed:
            return None, failed.status
        if claims.immediate:
            return None, unresolvable("pod has unbound immediate PersistentVolumeClaims")
        state.write(_KEY, BindingState(claims))
        return None, None

    def _claim_problem(self, pod: Pod, name: str, *, ephemeral: bool) -> str | None:
        claim = self._handle.listers.persistent_volume_claims.get(pod.namespace, name)
        if claim is None:
            if ephemeral:
                return (
                    "waiting for ephemeral volume controller to create "
                    f'the persistentvolumeclaim "{name}"'
                )
            return not_found("persistentvolumeclaim", name)
        if claim.status.phase == "Lost":
            return (
                f'persistentvolumeclaim "{claim.name}" bound to non-existent '
                f'persistentvolume "{claim.spec.volume_name}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        return ownership_error(pod, claim) if ephemeral else None

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """Without volumes nothing else is looked at."""
        return not pod.spec.volumes

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse nodes from which volumes cannot be reached or got."""
        kept: BindingState = state.data[_KEY]
        assert node.node is not None
        try:
            decisions, reasons = self.binder.find(kept.claims, node.node)
        except StatusError as failed:
            return failed.status
        if reasons:
            return unresolvable(*reasons)
        kept.by_node[node.name] = decisions
        return None

    def pre_score(self, state: CycleState, pod: Pod, nodes: Rows) -> Status | None:
        """There is a score only with the gate StorageCapacityScoring, which is not emulated."""
        return SKIP

    def pre_score_by_spec(self, pod: Pod) -> bool:
        """The answer is always Skip."""
        return True

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Without the gate: nothing."""
        return 0

    # -- reserve and bind ----------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Remember in memory what will be written, so that other pods do not take it."""
        kept: BindingState | None = state.read(_KEY)
        if kept is None:
            return None
        decisions = kept.by_node.get(node_name)
        if decisions is None:
            kept.all_bound = True
            return None
        kept.all_bound = self.binder.assume(decisions, node_name)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Forget it again; API writes already made stay."""
        kept: BindingState | None = state.read(_KEY)
        if kept is not None and node_name in kept.by_node:
            self.binder.forget(kept.by_node[node_name])

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Nothing to do when all claims are bound."""
        kept: BindingState | None = state.read(_KEY)
        return SKIP if kept is None or kept.all_bound else None

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Sequence[ApiWrite]:
        """Write claim references and selected nodes; the actor then waits until `is_bound`."""
        kept: BindingState | None = state.read(_KEY)
        if kept is None or kept.all_bound:
            return ()
        decisions = kept.by_node.get(node_name)
        if decisions is None:
            raise StatusError(error(f'no pod volumes found for node "{node_name}"'))
        return self.binder.writes(decisions, node_name)

    @property
    def bind_timeout(self) -> int:
        """As configured, nanoseconds."""
        return self.args.bind_timeout_seconds * 1_000_000_000

    def is_bound(self, state: CycleState, pod: Pod, node_name: str) -> bool:
        """Return whether every claim is bound now. Raises StatusError when that became impossible."""
        kept: BindingState | None = state.read(_KEY)
        if kept is None or kept.all_bound:
            return True
        return self.binder.is_bound(kept.by_node[node_name], pod, node_name)

    # -- hints ---------------------------------------------------------------------------------

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """Anything that can bind a claim or bring storage."""
        changed = ev.ADD | ev.UPDATE
        hints: list[tuple[str, int, ev.HintFn | None]] = [
            (ev.STORAGE_CLASS, changed, _class_changed),
            (ev.PERSISTENT_VOLUME_CLAIM, changed, _claim_changed),
            (ev.PERSISTENT_VOLUME, changed, None),
            (ev.NODE, ev.ADD | ev.UPDATE_NODE_LABEL, None),
            (ev.CSI_NODE, changed, _csi_node_changed),
            (ev.CSI_DRIVER, ev.UPDATE, _csi_driver_changed),
            (ev.CSI_STORAGE_CAPACITY, changed, _capacity_changed),
        ]
        return [
            ev.ClusterEventWithHint(ev.event_of(resource, action), hint)
            for resource, action, hint in hints
        ]

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """The volumes."""
        return ((signers.VOLUMES, signers.volumes(pod)),)


def _class_changed(_pod: Pod, old: StorageClass | None, new: StorageClass) -> ev.Hint:
    if old is None or old.allowed_topologies != new.allowed_topologies:
        return ev.Hint.QUEUE
    return ev.Hint.SKIP


def _claim_changed(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> ev.Hint:
    return ev.Hint.QUEUE if uses_claim(pod, new) else ev.Hint.SKIP


def _csi_node_changed(_pod: Pod, old: CSINode | None, new: CSINode) -> ev.Hint:
    if old is None:
        return ev.Hint.QUEUE
    before, after = (each.annotations.get(MIGRATED_PLUGINS, "") for each in (old, new))
    return ev.Hint.SKIP if set(before.split(",")) == set(after.split(",")) else ev.Hint.QUEUE


def _csi_driver_changed(pod: Pod, old: CSIDriver, new: CSIDriver) -> ev.Hint:
    inline = any(v.csi is not None and v.csi.driver == new.name for v in pod.spec.volumes)
    if inline and old.spec.storage_capacity and not new.spec.storage_capacity:
        return ev.Hint.QUEUE
    return ev.Hint.SKIP


def _capacity_changed(
    _pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> ev.Hint:
    if old is None:
        return ev.Hint.QUEUE
    before = old.maximum_volume_size or old.capacity
    after = new.maximum_volume_size or new.capacity
    grew = after is not None and (before is None or before.cmp(after) < 0)
    return ev.Hint.QUEUE if grew else ev.Hint.SKIP
