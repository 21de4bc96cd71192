"""The external provisioner of a CSI driver: volumes for claims, empty, restored from a snapshot or cloned.

Upstream: kubernetes-csi/external-provisioner pkg/controller/controller.go, with the rules of
sig-storage-lib-external-provisioner v13. Not expressed: other namespaces' snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from attrs import frozen

from controlplane.api.csi import capability
from controlplane.api.quantity import Quantity
from controlplane.api.request import STRATEGIC_MERGE_PATCH
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.resources import (
    CLAIMS,
    CSI_NODES,
    NODES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUMES,
    Resource,
)
from controlplane.controllers.common.controller import (
    NORMAL,
    WARNING,
    Controller,
    Handlers,
    Periodic,
    Work,
    ignore,
)
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.csi.messages import (
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    SECOND,
    CsiError,
    call,
)
from controlplane.controllers.storage.snapshot.names import CONTENTS, SNAPSHOT_GROUP, SNAPSHOTS
from controlplane.controllers.storage.snapshot.objects import (
    annotations_of,
    finalizers_of,
    is_deleting,
    is_ready,
    points_at,
    status_of,
    with_finalizers,
)
from controlplane.controllers.storage.snapshot.parameters import SecretReference
from controlplane.controllers.storage.snapshot.status import binary_size
from controlplane.controllers.storage.volume import class_secrets, cloning
from controlplane.controllers.storage.volume.binder import PROVISIONERS, SELECTED_NODE
from controlplane.controllers.storage.volume.matching import PROVISIONED_BY
from controlplane.controllers.storage.volume.topology import (
    TopologyError,
    node_affinity,
    requirement,
)

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.controllers.common.controller import Caches, Host

FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
SOURCE_FINALIZER: Final = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"
NAME: Final = "volume.kubernetes.io/provisioner-deletion-secret-name"
NAMESPACE: Final = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
"""Annotations of volumes: the secret with which they are deleted."""
MODE_CHANGE: Final = "snapshot.storage.kubernetes.io/allow-volume-mode-change"
IN_BACKGROUND: Final = frozenset({"Canceled", "DeadlineExceeded", "Unavailable", "Aborted"})
"""Codes after which the driver may still be making the volume."""
BACKOFF_NS: Final = (SECOND, 300 * SECOND)
INFEASIBLE_NS: Final = 300 * SECOND
SWEEP_NS: Final = 300 * SECOND
TIMEOUT_NS: Final = 10 * SECOND
WORKERS: Final = 10


@frozen
class ProvisionerFlags:
    """The driver that the provisioner serves, and the actor that answers for it.

    `topology`: its volumes cannot be reached from everywhere. `attaches`: it can attach volumes.
    """

    driver: str
    process: str
    timeout_ns: int = TIMEOUT_NS
    topology: bool = False
    attaches: bool = False


class _Source(NamedTuple):
    """The source of a volume: a snapshot, or (without one) another volume."""

    snapshot: Tree | None
    handle: str

    @property
    def content(self) -> dict[str, Any]:
        """As it is passed to the driver."""
        if self.snapshot is None:
            return {"volume": {"volume_id": self.handle}}
        return {"snapshot": {"snapshot_id": self.handle}}


class CsiProvisioner(Controller):
    """Makes a volume for each claim that waits for this driver, and deletes released ones."""

    name = "csi-provisioner"
    flags: ClassVar[ProvisionerFlags]

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.claim_queue = host.queue("provisioner.claims")
        self.volume_queue = host.queue("provisioner.volumes")
        self._claims = caches.of(CLAIMS)
        self._volumes = caches.of(VOLUMES)
        self._classes = caches.of(STORAGE_CLASSES)
        self._snapshots = caches.of(SNAPSHOTS)
        self._clone_queue = host.queue("provisioner.clones")
        self._nodes = caches.of(NODES) if self.flags.topology else None
        self._csi_nodes = caches.of(CSI_NODES) if self.flags.topology else None
        self._attachments = caches.of(VOLUME_ATTACHMENTS) if self.flags.attaches else None
        self._in_progress: dict[str, Tree] = {}
        self._held_until: dict[str, int] = {}

    @classmethod
    def serving(
        cls, flags: ProvisionerFlags, name: str = "csi-provisioner"
    ) -> type[CsiProvisioner]:
        """The provisioner of a driver, as a process called `name`."""
        fields = {"name": name, "component": flags.driver, "flags": flags}
        return type("CsiProvisioner", (cls,), fields)

    def work(self) -> tuple[Work, ...]:
        """Claims and volumes, tried again without end."""
        return (
            Work("provisioner.claims", self.provision, workers=WORKERS, backoff_ns=BACKOFF_NS),
            Work("provisioner.volumes", self.delete, workers=WORKERS, backoff_ns=BACKOFF_NS),
            Work("provisioner.clones", self._release_source, workers=1, backoff_ns=BACKOFF_NS),
        )

    def periodic(self) -> tuple[Periodic, ...]:
        """The sweep that takes left-over finalizers off snapshots (external-provisioner #1519)."""
        return (Periodic("provisioner.sweep", SWEEP_NS, self._sweep, after_ns=SWEEP_NS),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """A claim is known by its uid: one that is in progress is finished even if it is gone."""

        def changed(obj: Object[Any]) -> None:
            self.claim_queue.add(obj.uid)

        def updated(_old: Object[Any], new: Object[Any]) -> None:
            changed(new)
            if is_deleting(new.tree):
                self._clone_queue.add(new.key)

        return {
            CLAIMS: Handlers(changed, updated, ignore),
            VOLUMES: Handlers(
                lambda obj: self.volume_queue.add(obj.key),
                lambda _old, new: self.volume_queue.add(new.key),
                ignore,
            ),
        }

    # ------------------------------------------------------------------ claims

    def provision(self, uid: str) -> Reconcile[None]:
        """Make the volume that a claim waits for."""
        claim = self._claim(uid)
        if claim is None:
            return
        storage_class = self._class_of(claim) if self._is_handed_over(claim) else None
        if storage_class is None or not self._is_for_driver(claim, storage_class):
            self._in_progress.pop(uid, None)
            return
        held = self._held_until.get(uid, 0) - self.host.now
        if held > 0:
            self.claim_queue.add_after(uid, held)
            return
        name = f"pvc-{uid}"
        if name in self._volumes:
            self._in_progress.pop(uid, None)
            return
        place = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
        text = f'External provisioner is provisioning volume for claim "{place}"'
        self._event(claim, NORMAL, "Provisioning", text)
        try:
            volume = yield from self._make(claim, storage_class, name)
        except CsiError as error:
            self._failed(claim, error)
            if error.code == RESOURCE_EXHAUSTED and self.flags.topology:
                yield from self._reschedule(claim)
            raise Retry(str(error)) from None
        except Retry as error:
            self._event(claim, WARNING, "ProvisioningFailed", str(error))
            raise
        self._in_progress.pop(uid, None)
        try:
            yield from calls.create(VOLUMES, "", volume)
        except ApiError as error:
            if not is_already_exists(error):
                raise
        text = f"Successfully provisioned volume {name}"
        self._event(claim, NORMAL, "ProvisioningSucceeded", text)

    def _claim(self, uid: str) -> Tree | None:
        for obj in self._claims:
            if obj.uid == uid:
                return obj.tree
        return self._in_progress.get(uid)

    def _class_of(self, claim: Tree) -> Tree:
        """Return the class of a claim.

        Raises Retry if the cache has none: the class may just not have been heard of, and its arrival wakes no claim
        (sig-storage-lib-external-provisioner, `shouldProvision`).
        """
        name = claim["spec"].get("storageClassName") or ""
        found = self._classes.get(name)
        if found is None:
            raise Retry(f'storageClass "{name}" not found')
        return found.tree

    def _is_handed_over(self, claim: Tree) -> bool:
        """Return whether the binder has asked this driver for a volume of the claim."""
        if claim["spec"].get("volumeName"):
            return False
        if claim["metadata"]["uid"] in self._in_progress:
            return True
        notes = annotations_of(claim)
        return not is_deleting(claim) and any(
            notes.get(each) == self.flags.driver for each in PROVISIONERS
        )

    def _is_for_driver(self, claim: Tree, storage_class: Tree) -> bool:
        """Return whether the class is this driver's, and a node has been selected if the class waits for one."""
        if claim["metadata"]["uid"] in self._in_progress:
            return True
        if storage_class["provisioner"] != self.flags.driver:
            return False
        delayed = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        return not delayed or SELECTED_NODE in annotations_of(claim)

    def _failed(self, claim: Tree, error: CsiError) -> None:
        uid = claim["metadata"]["uid"]
        # Before external-provisioner 311 a deleted claim was not processed any more.
        if error.code in IN_BACKGROUND and self.host.fixes.fixed("ep311"):
            self._in_progress[uid] = claim
        else:
            self._in_progress.pop(uid, None)
        text = str(error)
        if error.code == INVALID_ARGUMENT:
            self._held_until[uid] = self.host.now + INFEASIBLE_NS
            prefix = "Volume provisioning failed with infeasible error. Retries will be delayed."
            text = f"{prefix} {error}"
        self._event(claim, WARNING, "ProvisioningFailed", text)

    def _reschedule(self, claim: Tree) -> Reconcile[None]:
        """There is no room where the selected node can reach: let the scheduler choose another one."""
        metadata = claim["metadata"]
        notes = {key: value for key, value in annotations_of(claim).items() if key != SELECTED_NODE}
        if SELECTED_NODE in annotations_of(claim):
            changed = {**claim, "metadata": {**metadata, "annotations": notes}}
            yield from calls.update(CLAIMS, changed)

    def _places(self, claim: Tree, storage_class: Tree) -> dict[str, Any] | None:
        """Return the topology in which the volume may be made."""
        if self._nodes is None or self._csi_nodes is None:
            return None
        try:
            return requirement(
                self.flags.driver,
                claim["metadata"]["name"],
                storage_class.get("allowedTopologies") or (),
                annotations_of(claim).get(SELECTED_NODE, ""),
                {obj.name: obj.tree for obj in self._csi_nodes},
                {obj.name: obj.tree["metadata"].get("labels") or {} for obj in self._nodes},
            )
        except TopologyError as error:
            raise Retry(f"error generating accessibility requirements: {error}") from None

    def _make(self, claim: Tree, storage_class: Tree, name: str) -> Reconcile[Tree]:
        source = yield from self._source(claim, storage_class)
        size = _bytes(claim["spec"]["resources"]["requests"]["storage"])
        if source is not None and source.snapshot is None:
            yield from cloning.protect(claim, self._claims)
        given: Mapping[str, str] = storage_class.get("parameters") or {}
        places = self._places(claim, storage_class)
        named = class_secrets.reference(class_secrets.PROVISIONER, given, name, claim)
        secrets = yield from class_secrets.credentials(named)
        references = class_secrets.for_volume(given, name, claim)
        parameters = class_secrets.driver_parameters(given)
        if source is not None and source.snapshot is not None and self.host.fixes.fixed("ep1448"):
            yield from self._protect(source.snapshot)
        fields: dict[str, Any] = {
            "name": name,
            "capacity_range": {"required_bytes": size},
            "volume_capabilities": [_capability_of(claim)],
            "parameters": parameters,
            "secrets": secrets,
            "accessibility_requirements": places,
        }
        if source is not None:
            fields["volume_content_source"] = source.content
        answer = yield from call(self.flags.process, "CreateVolume", fields, self.flags.timeout_ns)
        volume = answer["volume"]
        capacity = volume.get("capacity_bytes") or size
        lacks_source = source is not None and not volume.get("content_source")
        if capacity < size or lacks_source:
            failed = {"volume_id": volume["volume_id"], "secrets": secrets}
            yield from call(self.flags.process, "DeleteVolume", failed, self.flags.timeout_ns)
            self._in_progress[claim["metadata"]["uid"]] = claim
            if lacks_source:
                raise Retry("volume content source missing")
            raise Retry(f"created volume capacity {capacity} less than requested capacity {size}")
        if source is not None and source.snapshot is not None:
            yield from self._unprotect(source.snapshot)
        made = _volume(name, claim, storage_class, volume, self.flags.driver)
        made["spec"]["csi"].update(references)
        if named is not None:
            made["metadata"]["annotations"].update({NAME: named.name, NAMESPACE: named.namespace})
        affinity = node_affinity(volume.get("accessible_topology") or ())
        if affinity is not None:
            made["spec"]["nodeAffinity"] = affinity
        # Before external-provisioner 679 nothing kept a deleted volume until its storage was gone.
        return made if self.host.fixes.fixed("ep679") else with_finalizers(made, [])

    # ------------------------------------------------------------------ snapshots as sources

    def _source(self, claim: Tree, storage_class: Tree) -> Reconcile[_Source | None]:
        """Return the source that a claim names, if all checks pass."""
        given = claim["spec"].get("dataSource")
        if given and given.get("kind") == cloning.KIND:
            try:
                handle = yield from cloning.source_handle(claim, storage_class, self._claims)
            except Retry as error:
                raise Retry(
                    f"error getting handle for DataSource Type {cloning.KIND} by Name "
                    f"{given['name']}: {error}"
                ) from None
            return _Source(None, handle)
        if not given or given.get("kind") != "VolumeSnapshot":
            return None
        name = given["name"]
        if given.get("apiGroup") != SNAPSHOT_GROUP:
            raise Retry(
                "the PVC source does not belong to the right APIGroup. Expected "
                f"{SNAPSHOT_GROUP}, Got {given.get('apiGroup', '')}"
            )
        try:
            return (yield from self._checked_source(claim, storage_class, name))
        except Retry as error:
            raise Retry(
                f"error getting handle for DataSource Type VolumeSnapshot by Name {name}: {error}"
            ) from None

    def _checked_source(self, claim: Tree, storage_class: Tree, name: str) -> Reconcile[_Source]:
        namespace = claim["metadata"]["namespace"]
        try:
            snapshot = (yield from calls.get(SNAPSHOTS, namespace, name)).tree
        except RequestFailed as error:
            raise Retry(f"error getting snapshot {name} from api server: {error}") from None
        if is_deleting(snapshot) and SOURCE_FINALIZER not in finalizers_of(snapshot):
            raise Retry(f"snapshot {name} is being deleted")
        status = status_of(snapshot)
        bound = status.get("boundVolumeSnapshotContentName")
        if not bound:
            raise Retry(f"snapshot {name} not bound")
        try:
            content = (yield from calls.get(CONTENTS, "", bound)).tree
        except RequestFailed as error:
            raise Retry(
                f"error getting snapshotcontent {bound} for snapshot {name} from api server: {error}"
            ) from None
        about = f"snapshotcontent {bound} for snapshot {name} is"
        if not points_at(content["spec"]["volumeSnapshotRef"], snapshot):
            raise Retry(f"{about} bound to a different snapshot")
        if content["spec"]["driver"] != storage_class["provisioner"]:
            class_name = storage_class["metadata"]["name"]
            raise Retry(f"{about} not handled by CSI driver of StorageClass {class_name}")
        if not is_ready(snapshot):
            raise Retry(f"snapshot {name} is not Ready")
        handle = status_of(content).get("snapshotHandle")
        if not handle:
            raise Retry(f"snapshot handle {name} is not available")
        wanted = _bytes(claim["spec"]["resources"]["requests"]["storage"])
        size = status.get("restoreSize")
        if size is not None and wanted < _bytes(size):
            raise Retry(
                f"requested volume size {wanted} is less than the size {_bytes(size)} for the "
                f"source snapshot {name}"
            )
        _check_mode(claim, content)
        return _Source(snapshot, handle)

    def _protect(self, snapshot: Tree) -> Reconcile[None]:
        """Keep the snapshot until the volume is made (external-provisioner #1448)."""
        held = finalizers_of(snapshot)
        if SOURCE_FINALIZER not in held:
            changed = with_finalizers(snapshot, [*held, SOURCE_FINALIZER])
            yield from calls.update(SNAPSHOTS, changed)

    def _unprotect(self, snapshot: Tree) -> Reconcile[None]:
        metadata = snapshot["metadata"]
        try:
            found = yield from calls.get(SNAPSHOTS, metadata["namespace"], metadata["name"])
        except ApiError as error:
            if is_not_found(error):
                return
            raise
        held = finalizers_of(found.tree)
        if SOURCE_FINALIZER in held:
            left = [each for each in held if each != SOURCE_FINALIZER]
            yield from calls.update(SNAPSHOTS, with_finalizers(found.tree, left))

    def _release_source(self, key: str) -> Reconcile[None]:
        """A claim that is being deleted may be the source of copies."""
        found = self._claims.get(key)
        if found is not None and is_deleting(found.tree):
            yield from cloning.release(found.tree, self._claims)

    def _sweep(self) -> Reconcile[None]:
        """Snapshots that no pending claim names need no protection."""
        if not self.host.fixes.fixed("ep1519"):
            return
        for obj in list(self._snapshots):
            if SOURCE_FINALIZER not in finalizers_of(obj.tree) or self._is_source(obj):
                continue
            yield from self._unprotect(obj.tree)

    def _is_source(self, snapshot: Object[Any]) -> bool:
        for obj in self._claims:
            source = obj.tree["spec"].get("dataSource") or {}
            if (
                obj.namespace == snapshot.namespace
                and source.get("kind") == "VolumeSnapshot"
                and source.get("name") == snapshot.name
                and status_of(obj.tree).get("phase", "Pending") == "Pending"
            ):
                return True
        return False

    # ------------------------------------------------------------------ volumes

    def delete(self, key: str) -> Reconcile[None]:
        """Delete a released volume that is not retained."""
        found = self._volumes.get(key)
        if found is None:
            return
        volume = found.tree
        spec = volume["spec"]
        if (
            status_of(volume).get("phase") != "Released"
            or spec.get("persistentVolumeReclaimPolicy") != "Delete"
            or annotations_of(volume).get(PROVISIONED_BY) != self.flags.driver
            or (is_deleting(volume) and FINALIZER not in finalizers_of(volume))
        ):
            return
        given: dict[str, Any] = {"volume_id": spec["csi"]["volumeHandle"]}
        given["secrets"] = yield from self._deletion_secrets(volume)
        self._check_detached(volume)
        try:
            yield from call(self.flags.process, "DeleteVolume", given, self.flags.timeout_ns)
        except CsiError as error:
            self._event(volume, WARNING, "VolumeFailedDelete", str(error))
            raise Retry(str(error)) from None
        try:
            yield from calls.delete(VOLUMES, "", key)
            left = [each for each in finalizers_of(volume) if each != FINALIZER]
            body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
            if len(left) != len(finalizers_of(volume)):
                yield from calls.patch(VOLUMES, "", key, body, kind=STRATEGIC_MERGE_PATCH)
        except ApiError as error:
            if not is_not_found(error):
                raise

    def _deletion_secrets(self, volume: Tree) -> Reconcile[dict[str, str]]:
        """Return the secrets that were noted on the volume; a deleted one is not waited for."""
        notes = annotations_of(volume)
        if not notes.get(NAME) or not notes.get(NAMESPACE):
            return {}
        try:
            return (
                yield from class_secrets.credentials(SecretReference(notes[NAME], notes[NAMESPACE]))
            )
        except Retry:
            return {}

    def _check_detached(self, volume: Tree) -> None:
        """Refuse to delete a volume that is attached to a node."""
        name = volume["metadata"]["name"]
        for obj in self._attachments or ():
            spec = obj.tree["spec"]
            if spec["source"].get("persistentVolumeName") == name:
                text = f"persistentvolume {name} is still attached to node {spec['nodeName']}"
                self._event(volume, WARNING, "VolumeFailedDelete", text)
                raise Retry(text)

    def _event(self, about: Tree, kind: str, reason: str, message: str) -> None:
        metadata = about["metadata"]
        reference = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "resourceVersion": metadata["resourceVersion"],
            "uid": metadata["uid"],
        }
        named = {key: value for key, value in reference.items() if value}
        self.host.event(named, kind, reason, message)


def _bytes(text: Any) -> int:
    return Quantity.parse(str(text)).value()


def _check_mode(claim: Tree, content: Tree) -> None:
    mode = content["spec"].get("sourceVolumeMode")
    wanted = claim["spec"].get("volumeMode") or "Filesystem"
    if mode is None or mode == wanted:
        return
    allowed = annotations_of(content).get(MODE_CHANGE)
    if allowed == "true":
        return
    place = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
    raise Retry(
        f"requested volume {place} modifies the mode of the source volume but does not have "
        f"permission to do so. {MODE_CHANGE} annotation is not present on snapshotcontent "
        f"{content['metadata']['name']}"
    )


def _capability_of(claim: Tree) -> dict[str, Any]:
    return capability(claim["spec"]["accessModes"], claim["spec"].get("volumeMode"))


def _volume(
    name: str, claim: Tree, storage_class: Tree, volume: Mapping[str, Any], driver: str
) -> Tree:
    metadata, spec = claim["metadata"], claim["spec"]
    capacity = volume.get("capacity_bytes") or _bytes(spec["resources"]["requests"]["storage"])
    source: Tree = {
        "driver": driver,
        "volumeHandle": volume["volume_id"],
        "volumeAttributes": {"storage.kubernetes.io/csiProvisionerIdentity": f"1-1-{driver}"},
    }
    tree: Tree = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "finalizers": [FINALIZER],
            "annotations": {
                PROVISIONED_BY: driver,
                NAME: "",
                NAMESPACE: "",
            },
        },
        "spec": {
            "accessModes": list(spec["accessModes"]),
            "capacity": {"storage": binary_size(capacity)},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "csi": source,
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": spec.get("volumeMode") or "Filesystem",
        },
    }
    parameters: Mapping[str, str] = storage_class.get("parameters") or {}
    fs_type = parameters.get(class_secrets.FS_TYPE) or parameters.get("fstype")
    if fs_type:
        source["fsType"] = fs_type
    if storage_class.get("mountOptions"):
        tree["spec"]["mountOptions"] = list(storage_class["mountOptions"])
    return tree
