"""The persistent volume binder. Upstream: pkg/controller/volume/persistentvolume/pv_controller.go.

Like upstream it keeps what the server answered to its own writes, as long as the informers lag behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import CLAIMS, PODS, STORAGE_CLASSES, VOLUMES, Resource
from controlplane.controllers.common.controller import (
    NORMAL,
    WARNING,
    Controller,
    Handlers,
    Periodic,
    Work,
)
from controlplane.controllers.common.effects import Reconcile, Retry
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.controllers.storage.volume.matching import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    best_match,
    claim_class,
    is_bound_to,
    unfit,
)
from controlplane.decisions import immediate

if TYPE_CHECKING:
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.object import Object
    from controlplane.api.storage import PersistentVolume
    from controlplane.client.indexer import Indexer
    from controlplane.controllers.common.controller import Caches, Host

RESYNC_NS: Final = 15 * SECOND
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONERS: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
IN_TREE: Final = "kubernetes.io/"
EXTERNAL: Final = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the "
    "system administrator. If volume creation is delayed, please verify that the provisioner is "
    "running and correctly registered."
)


class _Seen:
    """A cache with the answers to own writes, where they are newer."""

    def __init__(self, store: Indexer[Any]) -> None:
        self._store = store
        self._written: dict[str, Object[Any]] = {}

    def note(self, obj: Object[Any]) -> None:
        self._written[obj.key] = obj

    def get(self, key: str) -> Object[Any] | None:
        """The newest that is known; what was deleted since is gone."""
        heard, written = self._store.get(key), self._written.get(key)
        if heard is None or written is None or heard.uid != written.uid:
            return heard
        if heard.resource_version >= written.resource_version:
            del self._written[key]
            return heard
        return written

    def all(self) -> list[Any]:
        """The views of everything that is known."""
        return [found.view for obj in list(self._store) if (found := self.get(obj.key)) is not None]


class VolumeBinderController(Controller):
    """Brings claims and volumes together, and lets volumes go whose claim is gone."""

    name = "persistentvolume-binder-controller"
    component = "persistentvolume-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.claim_queue = host.queue("claims")
        self.volume_queue = host.queue("volumes")
        self._claims = _Seen(caches.of(CLAIMS))
        self._volumes = _Seen(caches.of(VOLUMES))
        self._classes = caches.of(STORAGE_CLASSES)
        self._pods = caches.of(PODS, namespace=namespace_index)

    def work(self) -> tuple[Work, ...]:
        """One worker for volumes and one for claims."""
        return (
            Work("volumes", self.sync_volume, workers=1),
            Work("claims", self.sync_claim, workers=1),
        )

    def periodic(self) -> tuple[Periodic, ...]:
        """Everything again from time to time."""
        return (Periodic("volumes.resync", RESYNC_NS, immediate(self._resync), after_ns=RESYNC_NS),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """A claim that goes concerns its volume, a volume that goes its claim."""
        return {
            CLAIMS: Handlers(
                lambda obj: self.claim_queue.add(obj.key),
                lambda _old, new: self.claim_queue.add(new.key),
                self._claim_deleted,
            ),
            VOLUMES: Handlers(
                lambda obj: self.volume_queue.add(obj.key),
                lambda _old, new: self.volume_queue.add(new.key),
                self._volume_deleted,
            ),
        }

    def _claim_deleted(self, obj: Object[PersistentVolumeClaim], _unknown: bool) -> None:
        if obj.view.spec.volume_name:
            self.volume_queue.add(obj.view.spec.volume_name)

    def _volume_deleted(self, obj: Object[PersistentVolume], _unknown: bool) -> None:
        reference = obj.view.spec.claim_ref
        if reference is not None:
            self.claim_queue.add(f"{reference.namespace}/{reference.name}")

    def _resync(self) -> None:
        for claim in self._claims.all():
            self.claim_queue.add(claim.key)
        for volume in self._volumes.all():
            self.volume_queue.add(volume.key)

    # ------------------------------------------------------------------ claims

    def sync_claim(self, key: str) -> Reconcile[None]:
        """Bring a claim further on its way to a volume."""
        obj = self._claims.get(key)
        if obj is None:
            return
        claim: PersistentVolumeClaim = obj.view
        if BIND_COMPLETED in claim.annotations:
            yield from self._sync_bound(claim)
        elif claim.spec.volume_name:
            yield from self._sync_named(claim)
        else:
            yield from self._sync_unbound(claim)

    def _sync_unbound(self, claim: PersistentVolumeClaim) -> Reconcile[None]:
        """A claim that takes any volume."""
        delayed = self._is_delayed(claim)
        volume = best_match(self._volumes.all(), claim, delayed=delayed)
        if volume is not None:
            yield from self._bind(volume, claim)
            return
        if delayed and SELECTED_NODE not in claim.annotations:
            self._tell_what_is_waited_for(claim)
        elif claim_class(claim):
            yield from self._provision(claim)
            return
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            self.host.event(claim, NORMAL, "FailedBinding", text)
        yield from self._claim_status(claim, "Pending", None)

    def _is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether the scheduler has to choose a node first."""
        found = self._classes.get(claim_class(claim))
        return found is not None and found.view.volume_binding_mode == "WaitForFirstConsumer"

    def _tell_what_is_waited_for(self, claim: PersistentVolumeClaim) -> None:
        users = sorted(
            obj.name
            for obj in self._pods.by_index("namespace", claim.namespace)
            if not obj.view.spec.node_name and claim.name in claims_of(obj.view)
        )
        if users:
            text = f"waiting for pod {','.join(users)} to be scheduled"
            self.host.event(claim, NORMAL, "WaitForPodScheduled", text)
        else:
            text = "waiting for first consumer to be created before binding"
            self.host.event(claim, NORMAL, "WaitForFirstConsumer", text)

    def _provision(self, claim: PersistentVolumeClaim) -> Reconcile[None]:
        """Ask the class's provisioner, always another component, for a volume."""
        name = claim_class(claim)
        found = self._classes.get(name)
        if found is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            self.host.event(claim, WARNING, "ProvisioningFailed", text)
            return
        provisioner: str = found.view.provisioner
        if provisioner.startswith(IN_TREE):
            text = f"no volume plugin matched name: {provisioner}"
            self.host.event(claim, WARNING, "ProvisioningFailed", text)
            return
        if any(claim.annotations.get(each) != provisioner for each in PROVISIONERS):
            asked = dict.fromkeys(PROVISIONERS, provisioner)
            yield from self._write_claim(_annotated(claim.tree, asked))
        self.host.event(claim, NORMAL, "ExternalProvisioning", EXTERNAL.format(provisioner))

    def _sync_named(self, claim: PersistentVolumeClaim) -> Reconcile[None]:
        """A claim that asks for one volume by name."""
        name = claim.spec.volume_name
        found = self._volumes.get(name)
        if found is None:
            yield from self._claim_status(claim, "Pending", None)
            return
        volume: PersistentVolume = found.view
        if volume.spec.claim_ref is None:
            problem = unfit(volume, claim)
            if problem is not None:
                text = f'Cannot bind to requested volume "{name}": {problem}'
                self.host.event(claim, WARNING, "VolumeMismatch", text)
                yield from self._claim_status(claim, "Pending", None)
                return
            yield from self._bind(volume, claim)
        elif is_bound_to(volume, claim):
            yield from self._bind(volume, claim)
        elif BOUND_BY_CONTROLLER not in claim.annotations:
            text = f'volume "{name}" already bound to a different claim.'
            self.host.event(claim, WARNING, "FailedBinding", text)
            yield from self._claim_status(claim, "Pending", None)
        else:
            raise Retry(
                f'invalid binding of claim "{claim.key}" to volume "{name}": volume already claimed'
            )

    def _sync_bound(self, claim: PersistentVolumeClaim) -> Reconcile[None]:
        """A claim whose binding was completed: its volume has to be there, and its own."""
        lost = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        if not claim.spec.volume_name:
            lost = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            yield from self._lose(claim, "ClaimLost", lost)
            return
        found = self._volumes.get(claim.spec.volume_name)
        if found is None:
            yield from self._lose(claim, "ClaimLost", lost)
            return
        reference = found.view.spec.claim_ref
        if reference is None or reference.uid == claim.uid:
            yield from self._bind(found.view, claim)
            return
        text = "Two claims are bound to the same volume, this one is bound incorrectly"
        yield from self._lose(claim, "ClaimMisbound", text)

    def _lose(self, claim: PersistentVolumeClaim, reason: str, text: str) -> Reconcile[None]:
        if claim.status.phase != "Lost":
            self.host.event(claim, WARNING, reason, text)
        yield from self._claim_status(claim, "Lost", None)

    # ------------------------------------------------------------------ binding

    def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> Reconcile[None]:
        """The four writes of a binding, those of them that are still to be made."""
        volume = yield from self._bind_volume(volume, claim)
        volume = yield from self._volume_phase(volume, "Bound")
        claim = yield from self._bind_claim(claim, volume)
        yield from self._claim_status(claim, "Bound", volume)

    def _bind_volume(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim
    ) -> Reconcile[PersistentVolume]:
        reference = volume.spec.claim_ref
        if reference is not None and reference.uid == claim.uid:
            return volume
        tree = volume.tree
        if not is_bound_to(volume, claim):
            tree = _annotated(tree, {BOUND_BY_CONTROLLER: "yes"})
        meant = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        }
        spec = {**tree["spec"], "claimRef": meant}
        written = yield from calls.update(VOLUMES, {**tree, "spec": spec})
        self._volumes.note(written)
        return written.view

    def _bind_claim(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume
    ) -> Reconcile[PersistentVolumeClaim]:
        notes: dict[str, str] = {}
        tree = claim.tree
        if claim.spec.volume_name != volume.name:
            tree = {**tree, "spec": {**tree["spec"], "volumeName": volume.name}}
            notes[BOUND_BY_CONTROLLER] = "yes"
        if BIND_COMPLETED not in claim.annotations:
            notes[BIND_COMPLETED] = "yes"
        if not notes:
            return claim
        written = yield from self._write_claim(_annotated(tree, notes))
        return written.view

    def _write_claim(self, tree: Tree) -> Reconcile[Object[PersistentVolumeClaim]]:
        written = yield from calls.update(CLAIMS, tree)
        self._claims.note(written)
        return written

    def _claim_status(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None
    ) -> Reconcile[None]:
        before: Tree = claim.tree.get("status") or {}
        status: Tree = {**before, "phase": phase}
        if volume is None:
            status.pop("accessModes", None)
            status.pop("capacity", None)
        else:
            status["accessModes"] = list(volume.spec.access_modes)
            if before.get("phase") != phase or "capacity" not in before:
                status["capacity"] = volume.tree["spec"].get("capacity") or {}
        if status == before:
            return
        tree = {**claim.tree, "status": status}
        self._claims.note((yield from calls.update(CLAIMS, tree, "status")))

    # ------------------------------------------------------------------ volumes

    def sync_volume(self, key: str) -> Reconcile[None]:
        """Bring a volume's phase up to what its claim is."""
        found = self._volumes.get(key)
        if found is None:
            return
        volume: PersistentVolume = found.view
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            yield from self._volume_phase(volume, "Available")
            return
        place = f"{reference.namespace}/{reference.name}"
        obj = self._claims.get(place)
        # Until #67062 a claim that the cache lacks, and until #105211 one whose uid is another there, was gone.
        unsure = "67062" if obj is None else "105211" if obj.uid != reference.uid else ""
        if unsure and self.host.fixes.fixed(unsure):
            obj = yield from self._live_claim(reference.namespace, reference.name)
        if obj is None or obj.uid != reference.uid:
            if volume.status.phase not in {"Released", "Failed"}:
                volume = yield from self._volume_phase(volume, "Released")
            yield from self._reclaim(volume)
            return
        claim: PersistentVolumeClaim = obj.view
        if not claim.spec.volume_name:
            self.claim_queue.add(place)
        elif claim.spec.volume_name == volume.name:
            yield from self._volume_phase(volume, "Bound")
        elif (
            PROVISIONED_BY in volume.annotations
            and volume.spec.persistent_volume_reclaim_policy == "Delete"
        ):
            if volume.status.phase not in {"Released", "Failed"}:
                yield from self._volume_phase(volume, "Released")
        else:
            yield from self._unbind(volume)

    def _live_claim(
        self, namespace: str, name: str
    ) -> Reconcile[Object[PersistentVolumeClaim] | None]:
        try:
            return (yield from calls.get(CLAIMS, namespace, name))
        except ApiError as error:
            if is_not_found(error):
                return None
            raise

    def _reclaim(self, volume: PersistentVolume) -> Reconcile[None]:
        """Reclaim a released volume: retained ones stay; the provisioner of the others deletes them."""
        policy = volume.spec.persistent_volume_reclaim_policy
        if policy in {"", "Retain"} or PROVISIONED_BY in volume.annotations:
            return
        text = f"error getting {'deleter' if policy == 'Delete' else 'recycler'} volume plugin"
        text = f'{text} for volume "{volume.name}": no volume plugin matched'
        reason = "VolumeFailedDelete" if policy == "Delete" else "VolumeFailedRecycle"
        if volume.status.phase != "Failed":
            self.host.event(volume, WARNING, reason, text)
        yield from self._volume_phase(volume, "Failed", text)

    def _unbind(self, volume: PersistentVolume) -> Reconcile[None]:
        """The claim is bound elsewhere: free the volume, or keep it for the name it was made for."""
        tree = volume.tree
        if BOUND_BY_CONTROLLER in volume.annotations:
            spec = {key: value for key, value in tree["spec"].items() if key != "claimRef"}
            notes = {
                key: value
                for key, value in volume.annotations.items()
                if key != BOUND_BY_CONTROLLER
            }
            metadata = {**tree["metadata"], "annotations": notes}
            tree = {**tree, "metadata": metadata, "spec": spec}
        else:
            reference = {
                key: value for key, value in tree["spec"]["claimRef"].items() if key != "uid"
            }
            tree = {**tree, "spec": {**tree["spec"], "claimRef": reference}}
        written = yield from calls.update(VOLUMES, tree)
        self._volumes.note(written)
        yield from self._volume_phase(written.view, "Available")

    def _volume_phase(
        self, volume: PersistentVolume, phase: str, message: str = ""
    ) -> Reconcile[PersistentVolume]:
        if volume.status.phase == phase:
            return volume
        before: Tree = volume.tree.get("status") or {}
        status = {key: value for key, value in before.items() if key != "message"}
        status["phase"] = phase
        if message:
            status["message"] = message
        written = yield from calls.update(VOLUMES, {**volume.tree, "status": status}, "status")
        self._volumes.note(written)
        return written.view


def claims_of(pod: Any) -> list[str]:
    """The claims that a pod's volumes name; an ephemeral volume's claim is called after pod and volume."""
    names = []
    for volume in pod.tree["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            names.append(volume["persistentVolumeClaim"]["claimName"])
        elif volume.get("ephemeral"):
            names.append(f"{pod.name}-{volume['name']}")
    return names


def _annotated(tree: Tree, notes: dict[str, str]) -> Tree:
    metadata = tree["metadata"]
    annotations = {**(metadata.get("annotations") or {}), **notes}
    return {**tree, "metadata": {**metadata, "annotations": annotations}}
