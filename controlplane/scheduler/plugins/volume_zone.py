"""VolumeZone: a volume with zone labels is reachable from its zone only.

Upstream: `pkg/scheduler/framework/plugins/volumezone/volume_zone.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    SKIP,
    EnqueueExtensions,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    Status,
    unresolvable,
)
from controlplane.scheduler.plugins.volume_claims import (
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    not_found,
    uses_claim,
)
from controlplane.scheduler.state.node_tree import BETA_REGION, BETA_ZONE, REGION, ZONE

if TYPE_CHECKING:
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.pod import Pod
    from controlplane.api.storage import PersistentVolume, StorageClass
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

_CONFLICT = unresolvable("node(s) had no available volume zone").by(names.VOLUME_ZONE)
_KEY = "PreFilterVolumeZone"
TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_GA_LABELS = {BETA_ZONE: ZONE, BETA_REGION: REGION}

Topology = tuple[str, frozenset[str]]
"""Label key and allowed values."""


def volume_topologies(volume: PersistentVolume) -> list[Topology]:
    """Zone and region labels of a volume; an unreadable value is left out."""
    out: list[Topology] = []
    for key in TOPOLOGY_LABELS:
        if key in volume.labels:
            zones = [zone.strip() for zone in volume.labels[key].split("__")]
            if all(zones):
                out.append((key, frozenset(zones)))
    return out


class VolumeZone(PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    """Refuses nodes outside the zones of the pod's volumes."""

    name = names.VOLUME_ZONE
    reads = ("persistent_volume_claims", "persistent_volumes", "storage_classes")

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Collect zone labels of bound volumes."""
        found: list[Topology] = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            status = self._collect(pod, volume.persistent_volume_claim.claim_name, found)
            if status is not None:
                return None, status
        if not found:
            return None, SKIP
        state.write(_KEY, found)
        return None, None

    def _collect(self, pod: Pod, name: str, found: list[Topology]) -> Status | None:
        listers = self._handle.listers
        if not name:
            return unresolvable("PersistentVolumeClaim had no name")
        claim = listers.persistent_volume_claims.get(pod.namespace, name)
        if claim is None:
            return unresolvable(not_found("persistentvolumeclaim", name))
        volume_name = claim.spec.volume_name
        if volume_name:
            volume = listers.persistent_volumes.get("", volume_name)
            if volume is None:
                return unresolvable(not_found("persistentvolume", volume_name))
            found.extend(volume_topologies(volume))
            return None
        class_name = claim_class(claim)
        if not class_name:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = listers.storage_classes.get("", class_name)
        if storage_class is None:
            return unresolvable(not_found("storageclass.storage.k8s.io", class_name))
        mode = storage_class.volume_binding_mode
        if mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        if mode == WAIT_FOR_FIRST_CONSUMER:
            return None
        return unresolvable("PersistentVolume had no name")

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """Without volumes nothing else is looked at."""
        return not pod.spec.volumes

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """A node without any zone or region label is taken to reach everything."""
        assert node.node is not None
        labels = node.node.metadata.labels
        if not any(key in labels for key in TOPOLOGY_LABELS):
            return None
        return None if _within(labels, state.data[_KEY]) else _CONFLICT

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """Classes, nodes, claims and volumes come or change."""
        changed = ev.ADD | ev.UPDATE
        return [
            ev.ClusterEventWithHint(ev.event_of(ev.STORAGE_CLASS, ev.ADD), _class_added),
            ev.ClusterEventWithHint(ev.event_of(ev.NODE, ev.ADD | ev.UPDATE_NODE_LABEL)),
            ev.ClusterEventWithHint(
                ev.event_of(ev.PERSISTENT_VOLUME_CLAIM, changed), _claim_changed
            ),
            ev.ClusterEventWithHint(ev.event_of(ev.PERSISTENT_VOLUME, changed), _volume_changed),
        ]

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """The volumes."""
        return ((signers.VOLUMES, signers.volumes(pod)),)


def _within(labels: Mapping[str, str], topologies: Sequence[Topology]) -> bool:
    for key, values in topologies:
        value = labels.get(key)
        if value is None and key in _GA_LABELS:
            value = labels.get(_GA_LABELS[key])
        if value is None or value not in values:
            return False
    return True


def _class_added(_pod: Pod, _old: None, new: StorageClass) -> ev.Hint:
    waits = new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return ev.Hint.QUEUE if waits else ev.Hint.SKIP


def _claim_changed(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> ev.Hint:
    return ev.Hint.QUEUE if uses_claim(pod, new) else ev.Hint.SKIP


def _volume_changed(_pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> ev.Hint:
    if old is None or volume_topologies(old) != volume_topologies(new):
        return ev.Hint.QUEUE
    return ev.Hint.SKIP
