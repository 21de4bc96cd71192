"""Volume sources of pods and persistent volumes, as far as components look into them."""

from __future__ import annotations

import attrs

from controlplane.api.claims import PersistentVolumeClaimTemplate
from controlplane.api.constraints import NodeSelector
from controlplane.api.quantity import Quantity
from controlplane.api.references import LocalObjectReference, SecretReference
from controlplane.api.tree import EMPTY_MAP, Tree


@attrs.frozen
class AWSElasticBlockStoreVolumeSource:
    """An EBS disk."""

    fs_type: str = ""
    partition: int = 0
    read_only: bool = False
    volume_id: str = ""


@attrs.frozen
class AzureDiskVolumeSource:
    """An Azure disk."""

    caching_mode: str = ""
    disk_name: str = ""
    disk_uri: str = ""
    fs_type: str = ""
    kind: str = ""
    read_only: bool = False


@attrs.frozen
class CinderVolumeSource:
    """A Cinder disk."""

    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None
    volume_id: str = ""


@attrs.frozen
class ConfigMapVolumeSource:
    """Files from a config map."""

    default_mode: int | None = None
    name: str = ""
    optional: bool | None = None


@attrs.frozen
class CSIVolumeSource:
    """An inline volume of a CSI driver."""

    driver: str = ""
    fs_type: str = ""
    read_only: bool = False
    volume_attributes: dict[str, str] = EMPTY_MAP


@attrs.frozen
class EmptyDirVolumeSource:
    """A directory that lives as long as the pod."""

    medium: str = ""
    size_limit: Quantity | None = None


@attrs.frozen
class EphemeralVolumeSource:
    """A volume whose claim lives as long as the pod."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


@attrs.frozen
class GCEPersistentDiskVolumeSource:
    """A GCE disk."""

    fs_type: str = ""
    partition: int = 0
    pd_name: str = ""
    read_only: bool = False


@attrs.frozen
class HostPathVolumeSource:
    """A path of the node."""

    path: str = ""
    type: str = ""


@attrs.frozen
class ISCSIVolumeSource:
    """An iSCSI disk."""

    fs_type: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False
    target_portal: str = ""


@attrs.frozen
class NFSVolumeSource:
    """An NFS export."""

    path: str = ""
    read_only: bool = False
    server: str = ""


@attrs.frozen
class PersistentVolumeClaimVolumeSource:
    """A claim of the same namespace."""

    claim_name: str = ""
    read_only: bool = False


@attrs.frozen
class RBDVolumeSource:
    """A Ceph block device."""

    fs_type: str = ""
    image: str = ""
    monitors: tuple[str, ...] = ()
    pool: str = ""
    read_only: bool = False


@attrs.frozen
class SecretVolumeSource:
    """Files from a secret."""

    default_mode: int | None = None
    optional: bool | None = None
    secret_name: str = ""


@attrs.frozen
class ProjectedVolumeSource:
    """Several sources in one directory."""

    default_mode: int | None = None
    sources: tuple[Tree, ...] = ()


@attrs.frozen
class Volume:
    """A named volume of a pod; exactly one source is set."""

    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    downward_api: Tree | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    name: str = ""
    nfs: NFSVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    secret: SecretVolumeSource | None = None


@attrs.frozen
class CSIPersistentVolumeSource:
    """A volume handled by a CSI driver."""

    controller_expand_secret_ref: SecretReference | None = None
    controller_publish_secret_ref: SecretReference | None = None
    driver: str = ""
    fs_type: str = ""
    node_expand_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    read_only: bool = False
    volume_attributes: dict[str, str] = EMPTY_MAP
    volume_handle: str = ""


@attrs.frozen
class LocalVolumeSource:
    """A disk or directory of one node."""

    fs_type: str = ""
    path: str = ""


@attrs.frozen
class RBDPersistentVolumeSource:
    """A Ceph block device behind a persistent volume."""

    fs_type: str = ""
    image: str = ""
    monitors: tuple[str, ...] = ()
    pool: str = ""
    read_only: bool = False


@attrs.frozen
class ISCSIPersistentVolumeSource:
    """An iSCSI disk behind a persistent volume."""

    fs_type: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False
    target_portal: str = ""


@attrs.frozen
class CinderPersistentVolumeSource:
    """A Cinder disk behind a persistent volume."""

    fs_type: str = ""
    read_only: bool = False
    volume_id: str = ""


@attrs.frozen
class VolumeNodeAffinity:
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None
