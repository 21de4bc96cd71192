"""NodeVolumeLimits: a node can attach a limited number of volumes of a CSI driver.

Upstream: `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    StatusError,
    error,
    unresolvable,
    unschedulable,
)
from controlplane.scheduler.plugins import csi_migration as migration
from controlplane.scheduler.plugins.volume_claims import (
    claim_class,
    claim_name,
    not_found,
    ownership_error,
    uses_claim,
)

if TYPE_CHECKING:
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.pod import Pod
    from controlplane.api.storage import CSINode, VolumeAttachment
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

_FULL = unschedulable("node(s) exceed max volume count").by(names.NODE_VOLUME_LIMITS)

Volumes = dict[tuple[str, str], str]
"""(driver, handle) -> driver."""


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    """Counts attachable volumes against the limits in the node's CSINode."""

    name = names.NODE_VOLUME_LIMITS
    reads = (
        "persistent_volume_claims",
        "persistent_volumes",
        "storage_classes",
        "csi_nodes",
        "volume_attachments",
    )

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Skip pods without volumes that could be attached."""
        for volume in pod.spec.volumes:
            if claim_name(pod, volume) is not None or migration.inline_plugin(volume):
                return None, None
        return None, SKIP

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """Without volumes nothing else is looked at."""
        return not pod.spec.volumes

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse a node where a driver would get too many volumes."""
        csi_node: CSINode | None = self._handle.listers.csi_nodes.get("", node.name)
        try:
            new = self._volumes(pod, csi_node, incoming=True)
            if not new:
                return None
            limits = _limits(csi_node)
            if not limits:
                return None
            attached: Volumes = {}
            for info in node.pods:
                attached.update(self._volumes(info.pod, csi_node, incoming=False))
        except StatusError as failed:
            return failed.status
        attached.update(self._attachments(node.name))
        counts: dict[str, int] = {}
        for driver in attached.values():
            counts[driver] = counts.get(driver, 0) + 1
        wanted: dict[str, int] = {}
        for key, driver in new.items():
            if key not in attached:
                wanted[driver] = wanted.get(driver, 0) + 1
        for driver, count in wanted.items():
            limit = limits.get(driver)
            if limit is not None and counts.get(driver, 0) + count > limit:
                return _FULL
        return None

    def _volumes(self, pod: Pod, csi_node: CSINode | None, *, incoming: bool) -> Volumes:
        out: Volumes = {}
        for volume in pod.spec.volumes:
            name = claim_name(pod, volume)
            if name is None:
                inline = migration.inline_plugin(volume)
                if inline is not None and migration.is_migrated(csi_node, inline[0]):
                    driver = migration.DRIVERS[inline[0]]
                    out[driver, inline[1]] = driver
                continue
            if not name:
                raise StatusError(error("PersistentVolumeClaim had no name"))
            claim = self._handle.listers.persistent_volume_claims.get(pod.namespace, name)
            if claim is None:
                if incoming:
                    text = not_found("persistentvolumeclaim", name)
                    raise StatusError(
                        unresolvable(f"looking up PVC {pod.namespace}/{name}: {text}")
                    )
                continue
            if volume.ephemeral is not None:
                foreign = ownership_error(pod, claim)
                if foreign is not None:
                    raise StatusError(error(foreign))
            known = self._driver_and_handle(csi_node, claim)
            if known is not None:
                out[known] = known[0]
        return out

    def _driver_and_handle(
        self, csi_node: CSINode | None, claim: PersistentVolumeClaim
    ) -> tuple[str, str] | None:
        volume = None
        if claim.spec.volume_name:
            volume = self._handle.listers.persistent_volumes.get("", claim.spec.volume_name)
        if volume is None:
            return self._from_class(csi_node, claim)
        if volume.spec.csi is not None:
            source = volume.spec.csi
            return (source.driver, source.volume_handle) if source.volume_handle else None
        in_tree = migration.persistent_plugin(volume)
        if in_tree is None or not migration.is_migrated(csi_node, in_tree[0]):
            return None
        return migration.DRIVERS[in_tree[0]], in_tree[1]

    def _from_class(
        self, csi_node: CSINode | None, claim: PersistentVolumeClaim
    ) -> tuple[str, str] | None:
        """An unbound claim counts as a volume of its class's provisioner, once per claim."""
        name = claim_class(claim)
        storage_class = self._handle.listers.storage_classes.get("", name) if name else None
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        if driver in migration.DRIVERS:
            if not migration.is_migrated(csi_node, driver):
                return None
            driver = migration.DRIVERS[driver]
        # Upstream puts a random prefix here, so that no real volume has this handle.
        return (driver, f"\0unbound-{claim.key}") if driver else None

    def _attachments(self, node: str) -> Volumes:
        out: Volumes = {}
        for attachment in self._handle.listers.volume_attachments.list():
            spec = attachment.spec
            name = spec.source.persistent_volume_name
            if spec.node_name != node or name is None:
                continue
            volume = self._handle.listers.persistent_volumes.get("", name)
            if volume is not None and volume.spec.csi is not None:
                source = volume.spec.csi
                out[source.driver, source.volume_handle] = source.driver
        return out

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """Limits grow, volumes go, claims come."""
        claim_added = ev.event_of(ev.PERSISTENT_VOLUME_CLAIM, ev.ADD)
        detached = ev.event_of(ev.VOLUME_ATTACHMENT, ev.DELETE)
        return [
            ev.ClusterEventWithHint(ev.event_of(ev.CSI_NODE, ev.ADD)),
            ev.ClusterEventWithHint(ev.event_of(ev.CSI_NODE, ev.UPDATE), _csi_node_changed),
            ev.ClusterEventWithHint(ev.event_of(ev.POD, ev.DELETE), _pod_deleted),
            ev.ClusterEventWithHint(claim_added, _claim_added),
            ev.ClusterEventWithHint(detached, _detached),
        ]

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """The volumes."""
        return ((signers.VOLUMES, signers.volumes(pod)),)


def _limits(csi_node: CSINode | None) -> dict[str, int]:
    if csi_node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _csi_node_changed(_pod: Pod, old: CSINode | None, new: CSINode) -> ev.Hint:
    before, after = _limits(old), _limits(new)
    grew = any(limit > before.get(driver, 0) for driver, limit in after.items())
    return ev.Hint.QUEUE if grew else ev.Hint.SKIP


def _pod_deleted(_pod: Pod, old: Pod, _new: None) -> ev.Hint:
    if not old.spec.volumes:
        return ev.Hint.SKIP
    if not old.spec.node_name and not old.status.nominated_node_name:
        return ev.Hint.SKIP
    attachable = any(
        claim_name(old, volume) is not None or migration.inline_plugin(volume)
        for volume in old.spec.volumes
    )
    return ev.Hint.QUEUE if attachable else ev.Hint.SKIP


def _claim_added(pod: Pod, _old: None, new: PersistentVolumeClaim) -> ev.Hint:
    return ev.Hint.QUEUE if uses_claim(pod, new) else ev.Hint.SKIP


def _detached(pod: Pod, old: VolumeAttachment, _new: None) -> ev.Hint:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return ev.Hint.QUEUE
        inline = migration.inline_plugin(volume)
        if inline is not None and migration.DRIVERS[inline[0]] == old.spec.attacher:
            return ev.Hint.QUEUE
    return ev.Hint.SKIP
