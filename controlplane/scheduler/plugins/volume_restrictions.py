"""VolumeRestrictions: disks that only one pod, or only readers, may use.

Upstream: `pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.cycle_state import Clonable, CycleState
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    SKIP,
    EnqueueExtensions,
    FilterPlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    Status,
    unresolvable,
    unschedulable,
)
from controlplane.scheduler.plugins.volume_claims import READ_WRITE_ONCE_POD, not_found, uses_claim

if TYPE_CHECKING:
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.pod import Pod
    from controlplane.api.volumes import Volume
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo

_DISK = unschedulable("node(s) had no available disk").by(names.VOLUME_RESTRICTIONS)
_IN_USE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
).by(names.VOLUME_RESTRICTIONS)
_KEY = "PreFilterVolumeRestrictions"


@attrs.define
class RestrictionState(Clonable):
    """Names of the pod's ReadWriteOncePod claims, and how many of them are in use."""

    claims: frozenset[str]
    in_use: int

    def clone(self) -> RestrictionState:
        """A copy for a what-if."""
        return RestrictionState(self.claims, self.in_use)


class VolumeRestrictions(PreFilterPlugin, PreFilterExtensions, FilterPlugin, EnqueueExtensions):
    """Refuses nodes with conflicting disks, and pods whose exclusive claim is taken."""

    name = names.VOLUME_RESTRICTIONS
    reads = ("persistent_volume_claims",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Look up exclusive claims and the pods that use them."""
        if not pod.spec.volumes:
            return None, SKIP
        exclusive: dict[str, None] = {}
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            if source is None:
                continue
            claims = self._handle.listers.persistent_volume_claims
            claim = claims.get(pod.namespace, source.claim_name)
            if claim is None:
                return None, unresolvable(not_found("persistentvolumeclaim", source.claim_name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive[claim.name] = None
        used = self._handle.snapshot.used_pvcs
        count = sum(1 for name in exclusive if f"{pod.namespace}/{name}" in used)
        if count == 0 and not any(map(_restricted, pod.spec.volumes)):
            return None, SKIP
        state.write(_KEY, RestrictionState(frozenset(exclusive), count))
        return None, None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
        """Count the pod's claims in, by name alone."""
        state.data[_KEY].in_use += _shared_names(state.data[_KEY], added.pod)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Count the pod's claims out, by name alone."""
        state.data[_KEY].in_use -= _shared_names(state.data[_KEY], removed.pod)
        return None

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """Without volumes nothing else is looked at."""
        return not pod.spec.volumes

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Disks first, then exclusive claims (which concern every node)."""
        for volume in pod.spec.volumes:
            if _restricted(volume) and any(conflict(volume, info.pod) for info in node.pods):
                return _DISK
        return _IN_USE if state.data[_KEY].in_use > 0 else None

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """A user of the disk goes, a node comes, the claim comes."""
        claim_added = ev.event_of(ev.PERSISTENT_VOLUME_CLAIM, ev.ADD)
        return [
            ev.ClusterEventWithHint(ev.event_of(ev.POD, ev.DELETE), _pod_deleted),
            ev.ClusterEventWithHint(ev.NODE_ADD),
            ev.ClusterEventWithHint(claim_added, _claim_added),
        ]

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """The volumes."""
        return ((signers.VOLUMES, signers.volumes(pod)),)


def _shared_names(kept: RestrictionState, pod: Pod) -> int:
    return sum(
        1
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
        and volume.persistent_volume_claim.claim_name in kept.claims
    )


def _restricted(volume: Volume) -> bool:
    return not (
        volume.gce_persistent_disk is None
        and volume.aws_elastic_block_store is None
        and volume.rbd is None
        and volume.iscsi is None
    )


def conflict(volume: Volume, pod: Pod) -> bool:
    """Return whether a volume of `pod` excludes `volume` on the same node."""
    return any(_exclude_each_other(volume, other) for other in pod.spec.volumes)


def _exclude_each_other(a: Volume, b: Volume) -> bool:
    if a.gce_persistent_disk is not None and b.gce_persistent_disk is not None:
        disk, other = a.gce_persistent_disk, b.gce_persistent_disk
        if disk.pd_name == other.pd_name and not (disk.read_only and other.read_only):
            return True
    if a.aws_elastic_block_store is not None and b.aws_elastic_block_store is not None:
        if a.aws_elastic_block_store.volume_id == b.aws_elastic_block_store.volume_id:
            return True
    if a.iscsi is not None and b.iscsi is not None:
        if a.iscsi.iqn == b.iscsi.iqn and not (a.iscsi.read_only and b.iscsi.read_only):
            return True
    if a.rbd is not None and b.rbd is not None:
        mine, theirs = a.rbd, b.rbd
        same = (mine.pool, mine.image) == (theirs.pool, theirs.image)
        if same and set(mine.monitors) & set(theirs.monitors):
            return not (mine.read_only and theirs.read_only)
    return False


def _pod_deleted(pod: Pod, old: Pod, _new: None) -> ev.Hint:
    if old.namespace != pod.namespace:
        return ev.Hint.SKIP
    if any(_restricted(volume) and conflict(volume, old) for volume in pod.spec.volumes):
        return ev.Hint.QUEUE
    mine, theirs = _direct_claims(pod), _direct_claims(old)
    return ev.Hint.QUEUE if any(name in theirs for name in mine) else ev.Hint.SKIP


def _direct_claims(pod: Pod) -> dict[str, None]:
    return {
        volume.persistent_volume_claim.claim_name: None
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }


def _claim_added(pod: Pod, _old: None, new: PersistentVolumeClaim) -> ev.Hint:
    return ev.Hint.QUEUE if uses_claim(pod, new) else ev.Hint.SKIP
