"""The external attacher of a CSI driver: carries out what VolumeAttachments ask for, and says how it went.

Upstream: kubernetes-csi/external-attacher pkg/controller (controller.go, csi_handler.go, trivial_handler.go,
util.go). Not expressed: volumes that are named inline, and the comparison with ListVolumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from attrs import frozen

from controlplane.api.csi import capability, decoded
from controlplane.api.request import MERGE_PATCH
from controlplane.api.times import format_time
from controlplane.client import calls
from controlplane.client.resources import (
    CSI_NODES,
    SECRETS,
    VOLUME_ATTACHMENTS,
    VOLUMES,
    Resource,
)
from controlplane.controllers.common.controller import Controller, Handlers, Work, ignore
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.csi.messages import SECOND, CsiError, call

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.controllers.common.controller import Caches, Host

NODE_ID: Final = "csi.alpha.kubernetes.io/node-id"
"""Annotation of VolumeAttachments: what the driver calls the node."""
BACKOFF_NS: Final = (SECOND, 300 * SECOND)
TIMEOUT_NS: Final = 15 * SECOND
WORKERS: Final = 10


@frozen
class AttacherFlags:
    """The driver that the attacher serves, the actor that answers for it, and whether it can attach at all."""

    driver: str
    process: str
    publishes: bool = True
    timeout_ns: int = TIMEOUT_NS


class CsiAttacher(Controller):
    """Attaches and detaches what VolumeAttachments of its driver say."""

    name = "csi-attacher"
    flags: ClassVar[AttacherFlags]

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self._queue = host.queue("attacher.attachments")
        self._volume_queue = host.queue("attacher.volumes")
        self._attachments = caches.of(VOLUME_ATTACHMENTS)
        self._volumes = caches.of(VOLUMES)
        self._nodes = caches.of(CSI_NODES)

    @classmethod
    def serving(cls, flags: AttacherFlags, name: str = "csi-attacher") -> type[CsiAttacher]:
        """The attacher of a driver, as a process called `name`."""
        fields = {"name": name, "component": f"external-attacher {flags.driver}", "flags": flags}
        return type("CsiAttacher", (cls,), fields)

    @property
    def finalizer(self) -> str:
        """The finalizer on attachments, and on attached volumes."""
        return f"external-attacher/{self.flags.driver.replace('/', '-')}"

    def work(self) -> tuple[Work, ...]:
        """Attachments and volumes, tried again without end."""
        return (
            Work("attacher.attachments", self._sync, workers=WORKERS, backoff_ns=BACKOFF_NS),
            Work("attacher.volumes", self._release, workers=WORKERS, backoff_ns=BACKOFF_NS),
        )

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Return the handlers; the attacher's own report of a failure is no reason to try at once."""

        def added(obj: Object[Any]) -> None:
            self._queue.add(obj.name)

        def updated(old: Object[Any], new: Object[Any]) -> None:
            if _compared(old.tree) != _compared(new.tree) or old.tree is new.tree:
                self._queue.add(new.name)

        def gone(obj: Object[Any], _unknown: bool) -> None:
            volume = obj.tree["spec"]["source"].get("persistentVolumeName")
            if volume:
                self._volume_queue.add(volume)

        def volume(obj: Object[Any]) -> None:
            self._volume_queue.add(obj.name)

        return {
            VOLUME_ATTACHMENTS: Handlers(added, updated, gone),
            VOLUMES: Handlers(volume, lambda _old, new: volume(new), ignore),
        }

    # ------------------------------------------------------------------ attachments

    def _sync(self, name: str) -> Reconcile[None]:
        obj = self._attachments.get(name)
        if obj is None or obj.tree["spec"]["attacher"] != self.flags.driver:
            return
        attachment = obj.tree
        attached = bool((attachment.get("status") or {}).get("attached"))
        if not self.flags.publishes:
            if not attached:
                yield from self._mark_attached(attachment, {})
        elif not attachment["metadata"].get("deletionTimestamp"):
            if not attached:
                yield from self._attach(attachment)
        elif self.finalizer in (attachment["metadata"].get("finalizers") or ()):
            yield from self._detach(attachment)

    def _attach(self, attachment: Tree) -> Reconcile[None]:
        try:
            attachment, context = yield from self._publish(attachment)
        except (Retry, CsiError, *RequestFailed) as error:
            yield from self._save_error(attachment, "attachError", str(error))
            raise Retry(f"failed to attach: {error}") from None
        yield from self._mark_attached(attachment, context)

    def _publish(self, attachment: Tree) -> Reconcile[tuple[Tree, Tree]]:
        """As much as possible is checked before the finalizer goes on, which would keep the attachment."""
        volume = self._volume(attachment)
        metadata, spec = volume["metadata"], volume["spec"]
        if metadata.get("deletionTimestamp"):
            raise Retry(f'PersistentVolume "{metadata["name"]}" is marked for deletion')
        if self.finalizer not in (metadata.get("finalizers") or ()):
            held = [*(metadata.get("finalizers") or ()), self.finalizer]
            body = {"metadata": {"finalizers": held}}
            try:
                yield from calls.patch(VOLUMES, "", metadata["name"], body, kind=MERGE_PATCH)
            except RequestFailed as error:
                raise Retry(f"could not add PersistentVolume finalizer: {error}") from None
        source = _csi_source(volume)
        secrets = yield from self._secrets(source)
        node_id = self._node_id(attachment, known=False)
        attachment = yield from self._prepare(attachment, node_id)
        fields = {
            "volume_id": source["volumeHandle"],
            "node_id": node_id,
            "volume_capability": capability(spec.get("accessModes") or (), spec.get("volumeMode")),
            "volume_context": source.get("volumeAttributes") or {},
            "secrets": secrets,
        }
        flags = self.flags
        answer = yield from call(flags.process, "ControllerPublishVolume", fields, flags.timeout_ns)
        return attachment, dict(answer.get("publish_context") or {})

    def _prepare(self, attachment: Tree, node_id: str) -> Reconcile[Tree]:
        """The finalizer, and the node's id, which is needed when the node is gone."""
        metadata = attachment["metadata"]
        held = metadata.get("finalizers") or ()
        change: Tree = {}
        if self.finalizer not in held:
            change["finalizers"] = [*held, self.finalizer]
        if (metadata.get("annotations") or {}).get(NODE_ID) != node_id:
            change["annotations"] = {NODE_ID: node_id}
        if not change:
            return attachment
        try:
            saved = yield from self._patch(attachment, {"metadata": change})
        except RequestFailed as error:
            raise Retry(f"could not save VolumeAttachment: {error}") from None
        return saved

    def _mark_attached(self, attachment: Tree, context: Tree) -> Reconcile[None]:
        before = attachment.get("status") or {}
        if before.get("attached"):
            return
        status: Tree = {"attached": True}
        if context:
            status["attachmentMetadata"] = context
        if "attachError" in before:
            status["attachError"] = None
        try:
            yield from self._patch(attachment, {"status": status}, "status")
        except RequestFailed as error:
            raise Retry(f"failed to mark as attached: {error}") from None

    def _detach(self, attachment: Tree) -> Reconcile[None]:
        try:
            yield from self._unpublish(attachment)
        except (Retry, CsiError, *RequestFailed) as error:
            yield from self._save_error(attachment, "detachError", str(error))
            raise Retry(f"failed to detach: {error}") from None

    def _unpublish(self, attachment: Tree) -> Reconcile[None]:
        source = _csi_source(self._volume(attachment))
        secrets = yield from self._secrets(source)
        fields = {
            "volume_id": source["volumeHandle"],
            "node_id": self._node_id(attachment, known=True),
            "secrets": secrets,
        }
        flags = self.flags
        yield from call(flags.process, "ControllerUnpublishVolume", fields, flags.timeout_ns)
        held = attachment["metadata"].get("finalizers") or ()
        left = [each for each in held if each != self.finalizer]
        before = attachment.get("status") or {}
        cleared = {key: None for key in ("detachError", "attachmentMetadata") if key in before}
        try:
            status = {"status": {"attached": False, **cleared}}
            yield from self._patch(attachment, status, "status")
            yield from self._patch(attachment, {"metadata": {"finalizers": left or None}})
        except RequestFailed as error:
            raise Retry(f"could not mark as detached: {error}") from None

    def _save_error(self, attachment: Tree, which: str, message: str) -> Reconcile[None]:
        told = {"message": message, "time": format_time(self.host.now)}
        try:
            yield from self._patch(attachment, {"status": {which: told}}, "status")
        except RequestFailed:
            return  # what went wrong at first is what is tried again

    def _patch(self, attachment: Tree, body: Tree, subresource: str = "") -> Reconcile[Tree]:
        name = attachment["metadata"]["name"]
        saved = yield from calls.patch(
            VOLUME_ATTACHMENTS, "", name, body, subresource=subresource, kind=MERGE_PATCH
        )
        return saved.tree

    # ------------------------------------------------------------------ what it has to know

    def _volume(self, attachment: Tree) -> Tree:
        name = attachment["spec"]["source"].get("persistentVolumeName") or ""
        found = self._volumes.get(name)
        if found is None:
            raise Retry(f'persistentvolume "{name}" not found')
        return found.tree

    def _node_id(self, attachment: Tree, *, known: bool) -> str:
        """Return the driver's name of the node; `known`: the name that the attachment holds will do."""
        node, driver = attachment["spec"]["nodeName"], self.flags.driver
        found = self._nodes.get(node)
        error = f'csinode.storage.k8s.io "{node}" not found'
        if found is not None:
            for each in found.tree["spec"].get("drivers") or ():
                if each["name"] == driver:
                    node_id: str = each["nodeID"]
                    return node_id
            error = f"CSINode {node} does not contain driver {driver}"
        remembered: str = (attachment["metadata"].get("annotations") or {}).get(NODE_ID, "")
        if known and remembered:
            return remembered
        raise Retry(error)

    def _secrets(self, source: Tree) -> Reconcile[dict[str, str]]:
        named = source.get("controllerPublishSecretRef")
        if not named:
            return {}
        namespace, name = named["namespace"], named["name"]
        try:
            secret = yield from calls.get(SECRETS, namespace, name)
        except RequestFailed as error:
            raise Retry(f'failed to load secret "{namespace}/{name}": {error}') from None
        return decoded(secret.tree)

    # ------------------------------------------------------------------ volumes

    def _release(self, name: str) -> Reconcile[None]:
        """A volume that is being deleted goes once nothing attaches it."""
        found = self._volumes.get(name)
        if found is None or not found.metadata.get("deletionTimestamp"):
            return
        held = found.metadata.get("finalizers") or ()
        if self.finalizer not in held:
            return
        for each in self._attachments:
            if each.tree["spec"]["source"].get("persistentVolumeName") == name:
                return
        left = [each for each in held if each != self.finalizer]
        body = {"metadata": {"finalizers": left or None}}
        yield from calls.patch(VOLUMES, "", name, body, kind=MERGE_PATCH)


def _csi_source(volume: Tree) -> Tree:
    source: Tree = volume["spec"].get("csi") or {}
    if not source:
        raise Retry("pv spec contained non-csi source that was not migrated")
    return source


def _compared(tree: Tree) -> Tree:
    """An attachment without its version and what went wrong."""
    metadata = {
        key: value
        for key, value in tree["metadata"].items()
        if key not in ("resourceVersion", "managedFields")
    }
    status = {
        key: value
        for key, value in (tree.get("status") or {}).items()
        if key not in ("attachError", "detachError")
    }
    return {**tree, "metadata": metadata, "status": status}
