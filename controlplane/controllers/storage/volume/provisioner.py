"""An emulated external provisioner: makes and deletes the volumes of every storage class that is not in-tree.

It stands in for the sidecar of whatever driver a class names: the names, annotations, events and order of
sigs.k8s.io/sig-storage-lib-external-provisioner v11 (controller.go), volumes without content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.client import calls
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.resources import CLAIMS, STORAGE_CLASSES, VOLUMES, Resource
from controlplane.controllers.common.controller import NORMAL, Controller, Handlers, Work, ignore
from controlplane.controllers.common.effects import Reconcile, Retry
from controlplane.controllers.storage.volume.binder import IN_TREE, PROVISIONERS, SELECTED_NODE
from controlplane.controllers.storage.volume.matching import PROVISIONED_BY, claim_class

if TYPE_CHECKING:
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.object import Object
    from controlplane.api.storage import PersistentVolume, StorageClass
    from controlplane.api.tree import Tree
    from controlplane.controllers.common.controller import Caches, Host

MAX_RETRIES: Final = 15
DELAYED: Final = "WaitForFirstConsumer"


class ExternalProvisioner(Controller):
    """Makes a volume for each claim that waits for one, and deletes released volumes that it made."""

    name = "external-provisioner"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.claim_queue = host.queue("provisioner.claims")
        self.volume_queue = host.queue("provisioner.volumes")
        self._claims = caches.of(CLAIMS)
        self._volumes = caches.of(VOLUMES)
        self._classes = caches.of(STORAGE_CLASSES)

    def work(self) -> tuple[Work, ...]:
        """Claims and volumes."""
        return (
            Work("provisioner.claims", self.provision, max_retries=MAX_RETRIES),
            Work("provisioner.volumes", self.delete, max_retries=MAX_RETRIES),
        )

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Claims and volumes as they change."""
        return {
            CLAIMS: Handlers(
                lambda obj: self.claim_queue.add(obj.key),
                lambda _old, new: self.claim_queue.add(new.key),
                ignore,
            ),
            VOLUMES: Handlers(
                lambda obj: self.volume_queue.add(obj.key),
                lambda _old, new: self.volume_queue.add(new.key),
                ignore,
            ),
        }

    def provision(self, key: str) -> Reconcile[None]:
        """Make the volume that a claim waits for."""
        obj = self._claims.get(key)
        if obj is None:
            return
        claim: PersistentVolumeClaim = obj.view
        if not _is_handed_over(claim):
            return
        found = self._classes.get(claim_class(claim))
        if found is None:  # it may just not have been heard of, and its arrival wakes no claim
            raise Retry(f'storageClass "{claim_class(claim)}" not found')
        if not _is_asked(claim, found.view):
            return
        name = f"pvc-{claim.uid}"
        if name in self._volumes:
            return
        text = f'External provisioner is provisioning volume for claim "{claim.key}"'
        self.host.event(claim, NORMAL, "Provisioning", text)
        try:
            yield from calls.create(VOLUMES, "", _volume(name, claim, found))
        except ApiError as error:
            if not is_already_exists(error):
                raise
        text = f"Successfully provisioned volume {name}"
        self.host.event(claim, NORMAL, "ProvisioningSucceeded", text)

    def delete(self, key: str) -> Reconcile[None]:
        """Delete a released volume that is not retained."""
        obj = self._volumes.get(key)
        if obj is None:
            return
        volume: PersistentVolume = obj.view
        if (
            volume.status.phase != "Released"
            or volume.spec.persistent_volume_reclaim_policy != "Delete"
            or volume.annotations.get(PROVISIONED_BY, IN_TREE).startswith(IN_TREE)
            or volume.metadata.deletion_timestamp is not None
        ):
            return
        try:
            yield from calls.delete(VOLUMES, "", volume.name)
        except ApiError as error:
            if not is_not_found(error):
                raise


def _is_handed_over(claim: PersistentVolumeClaim) -> bool:
    """Return whether the binder has asked a provisioner for a volume of the claim."""
    if claim.spec.volume_name or claim.metadata.deletion_timestamp is not None:
        return False
    return any(each in claim.annotations for each in PROVISIONERS)


def _is_asked(claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
    """Return whether the claim names the class's provisioner, and has a node if the class waits for one."""
    provisioner = storage_class.provisioner
    if provisioner.startswith(IN_TREE):
        return False
    if not any(claim.annotations.get(each) == provisioner for each in PROVISIONERS):
        return False
    delayed = storage_class.volume_binding_mode == DELAYED
    return not delayed or SELECTED_NODE in claim.annotations


def _source(provisioner: str, name: str) -> Tree:
    """Return a volume of a CSI driver, or a directory where the provisioner is no driver."""
    if "/" in provisioner:
        return {"hostPath": {"path": f"/var/lib/{provisioner}/{name}", "type": "DirectoryOrCreate"}}
    return {"csi": {"driver": provisioner, "volumeHandle": name}}


def _volume(name: str, claim: PersistentVolumeClaim, found: Object[StorageClass]) -> Tree:
    storage_class = found.view
    spec: Tree = {
        "accessModes": list(claim.spec.access_modes),
        "capacity": {"storage": str(claim.spec.resources.requests.get("storage", "0"))},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        },
        **_source(storage_class.provisioner, name),
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy or "Delete",
        "storageClassName": storage_class.name,
        "volumeMode": claim.spec.volume_mode or "Filesystem",
    }
    if storage_class.mount_options:
        spec["mountOptions"] = list(storage_class.mount_options)
    annotations = {PROVISIONED_BY: storage_class.provisioner}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }
