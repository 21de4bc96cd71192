"""Contents of single snapshots: when the driver is called, and what its answers become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.controllers.common.effects import Reconcile, Retry
from controlplane.controllers.storage.csi.messages import CsiError
from controlplane.controllers.storage.csi_snapshotter.decisions import (
    content_should_be_deleted,
    is_final,
    snapshot_name,
)
from controlplane.controllers.storage.snapshot.names import MEMBER_OF
from controlplane.controllers.storage.snapshot.objects import (
    SNAPSHOT,
    annotations_of,
    is_ready,
    name_of,
    replace,
    status_of,
)
from controlplane.controllers.storage.snapshot.parameters import (
    RESERVED,
    SNAPSHOTTER_LIST,
    ParameterError,
    driver_parameters,
)

if TYPE_CHECKING:
    from controlplane.controllers.storage.csi_snapshotter.shared import SidecarShared

CLEARED = ("snapshotHandle", "readyToUse", "creationTime", "restoreSize")
LIST_SNAPSHOTS = "LIST_SNAPSHOTS"


class Single:
    """Reconciles contents of single snapshots; `sync` says whether to look again with backoff."""

    def __init__(self, shared: SidecarShared) -> None:
        self._shared = shared

    def sync(self, content: Tree) -> Reconcile[bool]:
        """Bring one content further."""
        shared = self._shared
        spec, status = content["spec"], content.get("status")
        # With #1446 (proposed) a bound content that is being deleted need not have the controller's mark.
        marked = not self._shared.fixes.fixed("1446")
        if content_should_be_deleted(content, marked=marked):
            told = status_of(content)
            member = told.get("volumeGroupSnapshotHandle") is not None
            if (
                spec["deletionPolicy"] == "Delete"
                and told.get("snapshotHandle") is not None
                and not (member and shared.fixes.fixed("1231"))
            ):
                yield from self._delete(content)
            else:
                yield from shared.remove_finalizer(SNAPSHOT, content)
            return False
        member = MEMBER_OF in annotations_of(content)
        if spec["source"].get("volumeHandle") is not None and status is None and not member:
            reason, prefix = "SnapshotCreationFailed", "Failed to create snapshot: "
            work = self._create(content)
        elif is_ready(content):
            yield from shared.unmark_being_created(SNAPSHOT, content)
            return False
        else:
            reason = "SnapshotContentCheckandUpdateFailed"
            prefix = "Failed to check and update snapshot content: "
            work = self._check(content)
        try:
            written = yield from work
        except Retry as error:
            yield from shared.fail(SNAPSHOT, content, reason, f"{prefix}{error}")
            raise
        shared.stores[SNAPSHOT].put(written)
        return not is_ready(written)

    def _check(self, content: Tree) -> Reconcile[Tree]:
        status = status_of(content)
        handle = content["spec"]["source"].get("snapshotHandle")
        member = MEMBER_OF in annotations_of(content)
        if handle is None and member:
            if not status.get("snapshotHandle") or not status.get("volumeGroupSnapshotHandle"):
                return content
            handle = status["snapshotHandle"]
        if handle is None:
            return (yield from self._create(content))
        if member:
            secrets = yield from self._shared.annotated_secret(SNAPSHOT, content)
        else:
            secrets = yield from self._shared.class_secret(SNAPSHOT, content, SNAPSHOTTER_LIST)
        try:
            found = yield from self._query(handle, secrets)
        except (CsiError, Retry) as error:
            raise Retry(
                f"failed to list snapshot for content {name_of(content)}: {quote(str(error))}"
            ) from None
        return (yield from self._write_status(content, handle, found))

    def _query(self, handle: str, secrets: dict[str, str]) -> Reconcile[Tree]:
        """Ask the driver for a snapshot; without the capability it counts as ready."""
        shared = self._shared
        answer = yield from shared.call("ControllerGetCapabilities")
        if LIST_SNAPSHOTS not in answer["capabilities"]:
            return {"ready_to_use": True, "creation_time": shared.host.now}
        answer = yield from shared.call("ListSnapshots", snapshot_id=handle, secrets=secrets)
        entries = answer.get("entries") or ()
        if not entries:
            raise Retry(f"can not find snapshot for snapshotID {handle}")
        found: Tree = entries[0]["snapshot"]
        return found

    # ------------------------------------------------------------------ creation

    def _create(self, content: Tree) -> Reconcile[Tree]:
        shared = self._shared
        name = name_of(content)
        try:
            parameters, secrets = yield from shared.inputs(SNAPSHOT, content)
        except Retry as error:
            raise Retry(
                f"failed to get input parameters to create snapshot for content {name}: "
                f"{quote(str(error))}"
            ) from None
        try:
            content = yield from shared.mark_being_created(SNAPSHOT, content)
        except Retry as error:
            raise Retry(
                f"failed to add VolumeSnapshotBeingCreated annotation on the content {name}: "
                f"{quote(str(error))}"
            ) from None
        fields = self._request(content, parameters, secrets)
        try:
            answer = yield from shared.call("CreateSnapshot", **fields)
        except CsiError as error:
            if is_final(error.code):
                yield from self._unmark(content, "from")
            handle = content["spec"]["source"]["volumeHandle"]
            raise Retry(
                f"failed to take snapshot of the volume {handle}: {quote(str(error))}"
            ) from None
        found = answer["snapshot"]
        try:
            content = yield from self._write_status(content, found["snapshot_id"], found)
        except Retry as error:
            raise Retry(
                f"error updating status for volume snapshot content {name}: {error}"
            ) from None
        return (yield from self._unmark(content, "on"))

    def _unmark(self, content: Tree, where: str) -> Reconcile[Tree]:
        try:
            return (yield from self._shared.unmark_being_created(SNAPSHOT, content))
        except Retry as error:
            said = str(error) if where == "from" else quote(str(error))
            raise Retry(
                f"failed to remove VolumeSnapshotBeingCreated annotation {where} the content "
                f"{name_of(content)}: {said}"
            ) from None

    def _request(
        self, content: Tree, parameters: dict[str, str], secrets: dict[str, str]
    ) -> dict[str, Any]:
        flags, reference = self._shared.flags, content["spec"]["volumeSnapshotRef"]
        try:
            parameters = driver_parameters(parameters)
        except ParameterError as error:
            text = f"failed to remove CSI Parameters of prefixed keys: {error}"
            raise Retry(text) from None
        if flags.extra_create_metadata:
            parameters[f"{RESERVED}volumesnapshot/name"] = reference["name"]
            parameters[f"{RESERVED}volumesnapshot/namespace"] = reference["namespace"]
            parameters[f"{RESERVED}volumesnapshotcontent/name"] = name_of(content)
        uid = reference.get("uid")
        if not uid:
            raise Retry(
                f"cannot create snapshot. Snapshot content {name_of(content)} not bound to a snapshot"
            )
        return {
            "name": snapshot_name(flags.name_prefix, uid, flags.name_uuid_length),
            "source_volume_id": content["spec"]["source"]["volumeHandle"],
            "parameters": parameters,
            "secrets": secrets,
        }

    def _write_status(self, content: Tree, handle: str, found: Tree) -> Reconcile[Tree]:
        """Handle, times, sizes and group are set once; whether it is ready follows the driver."""
        shared = self._shared
        live = yield from shared.live(SNAPSHOT, content)
        status = status_of(live)
        new = dict(status)
        ready = found.get("ready_to_use") is True
        set_once = {
            "snapshotHandle": handle,
            "creationTime": found.get("creation_time", 0),  # a missing time is the year 1970
            "restoreSize": found.get("size_bytes") or None,
            "volumeGroupSnapshotHandle": found.get("group_snapshot_id") or None,
        }
        for field, value in set_once.items():
            if new.get(field) is None and value is not None:
                new[field] = value
        if new.get("readyToUse") is not ready:
            new["readyToUse"] = ready
            if ready:
                new.pop("error", None)
        if new == status:
            return live
        return (yield from shared.patch(SNAPSHOT, live, [replace("/status", new)], "status"))

    # ------------------------------------------------------------------ deletion

    def _delete(self, content: Tree) -> Reconcile[None]:
        shared = self._shared
        name, reason = name_of(content), "SnapshotDeleteError"
        try:
            secrets = yield from shared.annotated_secret(SNAPSHOT, content)
        except Retry as error:
            shared.event(SNAPSHOT, content, reason, "Failed to get snapshot credentials")
            raise Retry(
                f"failed to get input parameters to delete snapshot for content {name}: "
                f"{quote(str(error))}"
            ) from None
        handle = status_of(content)["snapshotHandle"]
        try:
            yield from shared.call("DeleteSnapshot", snapshot_id=handle, secrets=secrets)
        except CsiError as error:
            shared.event(SNAPSHOT, content, reason, "Failed to delete snapshot")
            raise Retry(f"failed to delete snapshot {name}, err: {error}") from None
        try:
            cleared = yield from shared.clear_status(SNAPSHOT, content, CLEARED)
        except Retry:
            shared.event(SNAPSHOT, content, reason, "Failed to clear content status")
            raise
        if not shared.stores[SNAPSHOT].put(cleared):
            return
        try:
            yield from self.sync(cleared)
        except Retry:
            # Before #1303 what the second half failed with was only logged.
            if shared.fixes.fixed("1303"):
                raise
