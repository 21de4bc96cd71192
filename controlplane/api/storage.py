"""Volumes, storage classes and what CSI drivers publish."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.meta import LabelSelector
from controlplane.api.quantity import Quantity
from controlplane.api.references import ObjectReference
from controlplane.api.times import Time
from controlplane.api.tree import EMPTY_MAP
from controlplane.api.view import View
from controlplane.api.volumes import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    CinderPersistentVolumeSource,
    CSIPersistentVolumeSource,
    GCEPersistentDiskVolumeSource,
    HostPathVolumeSource,
    ISCSIPersistentVolumeSource,
    LocalVolumeSource,
    NFSVolumeSource,
    RBDPersistentVolumeSource,
    VolumeNodeAffinity,
)


@attrs.frozen
class PersistentVolumeSpec:
    """Capacity, source, class and claim of a volume."""

    access_modes: tuple[str, ...] = ()
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    capacity: dict[str, Quantity] = EMPTY_MAP
    cinder: CinderPersistentVolumeSource | None = None
    claim_ref: ObjectReference | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    iscsi: ISCSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    mount_options: tuple[str, ...] = ()
    nfs: NFSVolumeSource | None = None
    node_affinity: VolumeNodeAffinity | None = None
    persistent_volume_reclaim_policy: str = ""
    rbd: RBDPersistentVolumeSource | None = None
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    volume_mode: str = ""


@attrs.frozen
class PersistentVolumeStatus:
    """Phase of a volume."""

    last_phase_transition_time: Time | None = None
    message: str = ""
    phase: str = ""
    reason: str = ""


@attrs.frozen(eq=False)
class PersistentVolume(View):
    """A piece of storage."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "PersistentVolume"

    spec: PersistentVolumeSpec = attrs.field(factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = attrs.field(factory=PersistentVolumeStatus)


@attrs.frozen
class TopologySelectorLabelRequirement:
    """Allowed values of one topology label."""

    key: str = ""
    values: tuple[str, ...] = ()


@attrs.frozen
class TopologySelectorTerm:
    """Topology labels that must all fit."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


@attrs.frozen(eq=False)
class StorageClass(View):
    """A class of volumes and their provisioner."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "StorageClass"

    allow_volume_expansion: bool | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    mount_options: tuple[str, ...] = ()
    parameters: dict[str, str] = EMPTY_MAP
    provisioner: str = ""
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None


@attrs.frozen
class VolumeNodeResources:
    """The number of volumes of a driver that a node can hold; None means no limit."""

    count: int | None = None


@attrs.frozen
class CSINodeDriver:
    """A CSI driver on a node."""

    allocatable: VolumeNodeResources | None = None
    name: str = ""
    node_id: str = ""
    topology_keys: tuple[str, ...] = ()


@attrs.frozen
class CSINodeSpec:
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


@attrs.frozen(eq=False)
class CSINode(View):
    """The CSI drivers installed on the node of the same name."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "CSINode"

    spec: CSINodeSpec = attrs.field(factory=CSINodeSpec)


@attrs.frozen
class TokenRequest:
    """A service account token that a driver wants."""

    audience: str = ""
    expiration_seconds: int | None = None


@attrs.frozen
class CSIDriverSpec:
    """The requirements and capabilities of a driver; None means the default of the server."""

    attach_required: bool | None = None
    fs_group_policy: str = ""
    node_allocatable_update_period_seconds: int | None = None
    pod_info_on_mount: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None
    requires_republish: bool | None = None
    se_linux_mount: bool | None = None
    service_account_token_in_secrets: bool = False
    storage_capacity: bool | None = None
    token_requests: tuple[TokenRequest, ...] = ()
    volume_lifecycle_modes: tuple[str, ...] = ()


@attrs.frozen(eq=False)
class CSIDriver(View):
    """A CSI driver."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "CSIDriver"

    spec: CSIDriverSpec = attrs.field(factory=CSIDriverSpec)


@attrs.frozen
class VolumeError:
    """The reason why attaching or detaching failed."""

    error_code: int | None = None
    message: str = ""
    time: Time | None = None


@attrs.frozen
class VolumeAttachmentSource:
    """The volume to attach."""

    inline_volume_spec: PersistentVolumeSpec | None = None
    persistent_volume_name: str | None = None


@attrs.frozen
class VolumeAttachmentSpec:
    """The driver, the volume and the node of an attachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = attrs.field(factory=VolumeAttachmentSource)


@attrs.frozen
class VolumeAttachmentStatus:
    """The state of an attachment."""

    attach_error: VolumeError | None = None
    attached: bool = False
    attachment_metadata: dict[str, str] = EMPTY_MAP
    detach_error: VolumeError | None = None


@attrs.frozen(eq=False)
class VolumeAttachment(View):
    """The wish to attach a volume to a node."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "VolumeAttachment"

    spec: VolumeAttachmentSpec = attrs.field(factory=VolumeAttachmentSpec)
    status: VolumeAttachmentStatus = attrs.field(factory=VolumeAttachmentStatus)


@attrs.frozen(eq=False)
class CSIStorageCapacity(View):
    """Storage left for one class in one topology segment."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "CSIStorageCapacity"

    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
