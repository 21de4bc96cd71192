"""Contents of group snapshots: when the driver is called, and what its answers become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.controllers.common.effects import Reconcile, Retry
from controlplane.controllers.storage.csi.messages import CsiError
from controlplane.controllers.storage.csi_snapshotter.decisions import (
    group_content_should_be_deleted,
    group_snapshot_name,
    is_final,
)
from controlplane.controllers.storage.snapshot.objects import (
    PAIRS,
    Kind,
    is_ready,
    name_of,
    status_of,
)
from controlplane.controllers.storage.snapshot.parameters import (
    GROUP_SNAPSHOTTER_GET,
    RESERVED,
    ParameterError,
    driver_parameters,
)

if TYPE_CHECKING:
    from controlplane.controllers.storage.csi_snapshotter.shared import SidecarShared

CLEARED = ("volumeGroupSnapshotHandle", "readyToUse", "creationTime", "error")


class Groups:
    """Reconciles contents of group snapshots; `sync` says whether to look again with backoff."""

    def __init__(self, shared: SidecarShared) -> None:
        self._shared = shared
        self._kind = shared.group

    def sync(self, content: Tree) -> Reconcile[bool]:
        """Bring one content further."""
        shared = self._shared
        spec, status = content["spec"], content.get("status")
        if group_content_should_be_deleted(content):
            handle = status_of(content).get(self._kind.handle_field)
            if spec["deletionPolicy"] == "Delete" and handle is not None:
                yield from self._delete(content, handle)
            else:
                yield from shared.remove_finalizer(self._kind, content)
            return False
        if spec["source"].get("volumeHandles") and status is None:
            reason, prefix = "GroupSnapshotCreationFailed", "Failed to create group snapshot: "
            work = self._create(content)
        elif is_ready(content):
            yield from shared.unmark_being_created(self._kind, content)
            return False
        else:
            reason = "GroupSnapshotContentCheckandUpdateFailed"
            prefix = "Failed to check and update group snapshot content: "
            work = self._check(content)
        try:
            written = yield from work
        except Retry as error:
            yield from shared.fail(self._kind, content, reason, f"{prefix}{error}")
            raise
        shared.stores[self._kind].put(written)
        # Before #1461 a group that was not ready waited for the next resync.
        return shared.fixes.fixed("1461") and not is_ready(written)

    def _check(self, content: Tree) -> Reconcile[Tree]:
        handles = content["spec"]["source"].get("groupSnapshotHandles")
        if handles is None:
            return (yield from self._create(content))
        secrets = yield from self._shared.class_secret(self._kind, content, GROUP_SNAPSHOTTER_GET)
        try:
            answer = yield from self._shared.call(
                "GetVolumeGroupSnapshot",
                group_snapshot_id=handles[self._kind.handle_field],
                snapshot_ids=list(handles["volumeSnapshotHandles"]),
                secrets=secrets,
            )
        except CsiError as error:
            raise Retry(
                f"failed to list group snapshot for group snapshot content {name_of(content)}: "
                f"{quote(str(error))}"
            ) from None
        found = {**answer["group_snapshot"], "snapshots": ()}
        return (yield from self._write_status(content, found))

    # ------------------------------------------------------------------ creation

    def _create(self, content: Tree) -> Reconcile[Tree]:
        shared = self._shared
        name = name_of(content)
        try:
            parameters, secrets = yield from shared.inputs(self._kind, content)
        except Retry as error:
            raise Retry(
                "failed to get input parameters to create group snapshot for group snapshot "
                f"content {name}: {quote(str(error))}"
            ) from None
        try:
            content = yield from shared.mark_being_created(self._kind, content)
        except Retry as error:
            raise Retry(
                "failed to add VolumeGroupSnapshotBeingCreated annotation on the group snapshot "
                f"content {name}: {quote(str(error))}"
            ) from None
        fields = self._request(content, parameters, secrets)
        try:
            answer = yield from shared.call("CreateVolumeGroupSnapshot", **fields)
        except CsiError as error:
            if is_final(error.code):
                yield from self._unmark(content, "from the group snapshot content")
            listed = " ".join(fields["source_volume_ids"])
            raise Retry(
                f"failed to take group snapshot of the volumes [{listed}]: {quote(str(error))}"
            ) from None
        try:
            content = yield from self._write_status(content, answer["group_snapshot"])
        except Retry as error:
            raise Retry(
                f"error updating status for volume group snapshot content {name}: {error}"
            ) from None
        return (yield from self._unmark(content, "on the groupSnapshotContent"))

    def _unmark(self, content: Tree, where: str) -> Reconcile[Tree]:
        try:
            return (yield from self._shared.unmark_being_created(self._kind, content))
        except Retry as error:
            said = str(error) if where.startswith("from") else quote(str(error))
            raise Retry(
                f"failed to remove VolumeGroupSnapshotBeingCreated annotation {where} "
                f"{name_of(content)}: {said}"
            ) from None

    def _request(
        self, content: Tree, parameters: dict[str, str], secrets: dict[str, str]
    ) -> dict[str, Any]:
        flags, reference = self._shared.flags, content["spec"][self._kind.reference_field]
        try:
            parameters = driver_parameters(parameters)
        except ParameterError as error:
            text = f"failed to remove CSI Parameters of prefixed keys: {error}"
            raise Retry(text) from None
        if flags.extra_create_metadata:
            parameters[f"{RESERVED}volumegroupsnapshot/name"] = reference["name"]
            parameters[f"{RESERVED}volumegroupsnapshot/namespace"] = reference["namespace"]
            parameters[f"{RESERVED}volumegroupsnapshotcontent/name"] = name_of(content)
        uid = reference.get("uid")
        if not uid:
            raise Retry(
                f"cannot create group snapshot. Group snapshot content {name_of(content)} "
                "not bound to a group snapshot"
            )
        return {
            "name": group_snapshot_name(flags.group_name_prefix, uid, flags.group_name_uuid_length),
            "source_volume_ids": list(content["spec"]["source"]["volumeHandles"]),
            "parameters": parameters,
            "secrets": secrets,
        }

    def _write_status(self, content: Tree, found: Mapping[str, Any]) -> Reconcile[Tree]:
        """Everything but whether it is ready is set once: later answers do not refresh the members."""
        shared = self._shared
        live = yield from shared.live(self._kind, content)
        status = status_of(live)
        new = dict(status)
        ready = found.get("ready_to_use") is True
        if new.get(self._kind.handle_field) is None:
            new[self._kind.handle_field] = found["group_snapshot_id"]
        if new.get("creationTime") is None:
            new["creationTime"] = format_time(found.get("creation_time", 0))
        if new.get("readyToUse") is not ready:
            new["readyToUse"] = ready
            if ready:
                new.pop("error", None)
        members = self._kind.members_field
        if not new.get(members) and found.get("snapshots"):
            new[members] = [_info(self._kind, each) for each in found["snapshots"]]
        if new == status:
            return live
        return (yield from shared.update_status(self._kind, {**live, "status": new}))

    # ------------------------------------------------------------------ deletion

    def _delete(self, content: Tree, handle: str) -> Reconcile[None]:
        shared = self._shared
        name, reason = name_of(content), "GroupSnapshotDeleteError"
        try:
            secrets = yield from shared.annotated_secret(self._kind, content)
        except Retry as error:
            shared.event(self._kind, content, reason, "Failed to get snapshot credentials")
            raise Retry(
                "failed to get input parameters to delete group snapshot for group snapshot "
                f"content {name}: {quote(str(error))}"
            ) from None
        ids = _snapshot_ids(self._kind, content)
        try:
            if not ids:
                raise Retry(
                    f"cannot delete group snapshot content {name}. "
                    "No snapshots found in the group snapshot"
                )
            yield from shared.call(
                "DeleteVolumeGroupSnapshot",
                group_snapshot_id=handle,
                snapshot_ids=ids,
                secrets=secrets,
            )
        except (CsiError, Retry) as error:
            shared.event(self._kind, content, reason, "Failed to delete group snapshot")
            raise Retry(f"failed to delete group snapshot {name}, err: {error}") from None
        try:
            cleared = yield from shared.clear_status(self._kind, content, CLEARED)
        except Retry:
            text = "Failed to clear group snapshot content status"
            shared.event(self._kind, content, reason, text)
            raise
        if shared.stores[self._kind].put(cleared):
            yield from self.sync(cleared)


def _snapshot_ids(kind: Kind, content: Tree) -> list[str]:
    infos = status_of(content).get(kind.members_field) or ()
    if infos:
        return [each["snapshotHandle"] for each in infos]
    handles = content["spec"]["source"].get("groupSnapshotHandles") or {}
    return list(handles.get("volumeSnapshotHandles") or ())


def _info(kind: Kind, snapshot: Mapping[str, Any]) -> Tree:
    info: Tree = {
        "volumeHandle": snapshot["source_volume_id"],
        "snapshotHandle": snapshot["snapshot_id"],
    }
    if kind.members_field == PAIRS:
        return info
    info["readyToUse"] = snapshot.get("ready_to_use") is True
    if snapshot.get("creation_time"):
        info["creationTime"] = snapshot["creation_time"]
    if snapshot.get("size_bytes"):
        info["restoreSize"] = snapshot["size_bytes"]
    return info
