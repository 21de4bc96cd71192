"""In-tree volumes that CSI drivers have taken over.

Upstream: `csi-translation-lib`, `pkg/scheduler/framework/plugins/nodevolumelimits/utils.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.api.storage import CSINode, PersistentVolume
    from controlplane.api.volumes import Volume

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

# In-tree plugin -> CSI driver.
DRIVERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


def inline_plugin(volume: Volume) -> tuple[str, str] | None:
    """(in-tree plugin, CSI handle) of a migratable inline volume; None for others."""
    if volume.aws_elastic_block_store is not None:
        volume_id = volume.aws_elastic_block_store.volume_id
        return "kubernetes.io/aws-ebs", volume_id.rpartition("/")[2]
    if volume.gce_persistent_disk is not None:
        disk = volume.gce_persistent_disk.pd_name
        return "kubernetes.io/gce-pd", f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{disk}"
    if volume.cinder is not None:
        return "kubernetes.io/cinder", volume.cinder.volume_id
    if volume.azure_disk is not None:
        return "kubernetes.io/azure-disk", volume.azure_disk.disk_uri
    return None


def persistent_plugin(volume: PersistentVolume) -> tuple[str, str] | None:
    """(in-tree plugin, CSI handle) of a migratable persistent volume; None for others."""
    spec = volume.spec
    if spec.aws_elastic_block_store is not None:
        volume_id = spec.aws_elastic_block_store.volume_id
        return "kubernetes.io/aws-ebs", volume_id.rpartition("/")[2]
    if spec.gce_persistent_disk is not None:
        zone = volume.labels.get("topology.kubernetes.io/zone", "UNSPECIFIED")
        disk = spec.gce_persistent_disk.pd_name
        return "kubernetes.io/gce-pd", f"projects/UNSPECIFIED/zones/{zone}/disks/{disk}"
    if spec.cinder is not None:
        return "kubernetes.io/cinder", spec.cinder.volume_id
    if spec.azure_disk is not None:
        return "kubernetes.io/azure-disk", spec.azure_disk.disk_uri
    return None


def is_migrated(csi_node: CSINode | None, plugin: str) -> bool:
    """Return whether the node's kubelet handed the in-tree plugin over to its driver."""
    if csi_node is None:
        return False
    return plugin in csi_node.annotations.get(MIGRATED_PLUGINS, "").split(",")
