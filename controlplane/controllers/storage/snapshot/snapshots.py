"""Volume snapshots: their sync and their deletion. Upstream: pkg/common-controller/snapshot_controller.go."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.controllers.common.controller import NORMAL, WARNING
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.snapshot.binding import (
    REASONS,
    dynamic_content_name,
    given_content,
)
from controlplane.controllers.storage.snapshot.claims import source_claim
from controlplane.controllers.storage.snapshot.contents import is_deletion_candidate
from controlplane.controllers.storage.snapshot.names import (
    IN_GROUP_FINALIZER,
    SECRET_NAME,
    SECRET_NAMESPACE,
    SOURCE_FINALIZER,
)
from controlplane.controllers.storage.snapshot.objects import (
    GROUP,
    SNAPSHOT,
    Kind,
    finalizers_of,
    full_reference,
    is_bound,
    is_deleting,
    is_ready,
    key_of,
    name_of,
    owner_group,
    points_at,
    status_of,
    uid_of,
    update_error,
    with_finalizers,
)
from controlplane.controllers.storage.snapshot.parameters import (
    SNAPSHOTTER,
    ParameterError,
    SecretReference,
    secret_reference,
)
from controlplane.controllers.storage.snapshot.status import told_by

if TYPE_CHECKING:
    from controlplane.controllers.storage.snapshot.binding import Binding
    from controlplane.controllers.storage.snapshot.claims import SourceClaims
    from controlplane.controllers.storage.snapshot.classes import ClassChoice
    from controlplane.controllers.storage.snapshot.progress import Progress
    from controlplane.controllers.storage.snapshot.shared import Shared

PENDING = "SnapshotDeletePending"


class Snapshots:
    """Reconciles volume snapshots."""

    def __init__(
        self,
        shared: Shared,
        claims: SourceClaims,
        classes: ClassChoice,
        binding: Binding,
        progress: Progress,
    ) -> None:
        self._shared = shared
        self._claims = claims
        self._classes = classes
        self._binding = binding
        self._progress = progress

    def sync(self, snapshot: Tree) -> Reconcile[None]:
        """Bring a snapshot further; a failure to let its claim go does not stop that."""
        with suppress(*RequestFailed):  # it was reported
            yield from self._claims.release(snapshot, skip_own=False)
        if is_deleting(snapshot):
            yield from self._delete(snapshot)
            return
        shared = self._shared
        if (source_claim(snapshot) is None) == (given_content(SNAPSHOT, snapshot) is None):
            text = (
                "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName "
                "should be specified"
            )
            reason = "SnapshotValidationError"
            yield from shared.try_fail(SNAPSHOT, snapshot, reason, text, unready=True)
            raise Retry(text)
        try:
            yield from self._add_finalizers(snapshot)
        except (Retry, *RequestFailed) as error:
            text = f"Failed to check and update snapshot: {error}"
            shared.event(snapshot, WARNING, "SnapshotFinalizerError", text)
            raise
        if is_ready(snapshot) and is_bound(SNAPSHOT, snapshot):
            yield from self._sync_ready(snapshot)
        else:
            yield from self._sync_unready(snapshot)

    def _add_finalizers(self, snapshot: Tree) -> Reconcile[None]:
        content = yield from self._binding.content_of(SNAPSHOT, snapshot)
        held = finalizers_of(snapshot)
        added = [SOURCE_FINALIZER] if SOURCE_FINALIZER not in held else []
        if (
            SNAPSHOT.finalizer not in held
            and is_bound(SNAPSHOT, snapshot)
            and content is not None
            and content["spec"]["deletionPolicy"] == "Delete"
        ):
            added.append(SNAPSHOT.finalizer)
        yield from self._binding.add_finalizers(SNAPSHOT, snapshot, added)

    # ------------------------------------------------------------------ not being deleted

    def _sync_ready(self, snapshot: Tree) -> Reconcile[None]:
        shared = self._shared
        status = status_of(snapshot)
        content = shared.content(SNAPSHOT, status[SNAPSHOT.bound_field])
        if content is None:
            text = "VolumeSnapshotContent is missing"
            reason = REASONS[SNAPSHOT].missing
            yield from shared.fail(SNAPSHOT, snapshot, reason, text, unready=True)
            return
        if not points_at(content["spec"]["volumeSnapshotRef"], snapshot):
            text = "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly"
            yield from shared.fail(SNAPSHOT, snapshot, "SnapshotMisbound", text, unready=True)
            return
        group = status.get("volumeGroupSnapshotName")
        if (
            shared.flags.groups
            and group is not None
            and owner_group(shared.group, snapshot) is None
        ):
            yield from self._add_owner(snapshot, group)

    def _add_owner(self, snapshot: Tree, name: str) -> Reconcile[None]:
        """A pre-provisioned member belongs to its group from now on."""
        place = f"{snapshot['metadata']['namespace']}/{name}"
        found = self._shared.listers[GROUP].get(place)
        if found is None:
            raise Retry(f"volumegroupsnapshot.{GROUP.resource.group} {quote(name)} not found")
        owners = [
            *(snapshot["metadata"].get("ownerReferences") or ()),
            owner_reference(self._shared.group, found.tree),
        ]
        metadata = {**snapshot["metadata"], "ownerReferences": owners}
        try:
            written = yield from calls.update(SNAPSHOT.resource, {**snapshot, "metadata": metadata})
        except RequestFailed as error:
            raise update_error(key_of(snapshot), error) from None
        self._shared.stores[SNAPSHOT].put(written.tree)

    def _sync_unready(self, snapshot: Tree) -> Reconcile[None]:
        yield from self._progress.begin_creation(SNAPSHOT, snapshot)
        shared = self._shared
        if given_content(SNAPSHOT, snapshot) is not None:
            content = yield from self._binding.content_of(SNAPSHOT, snapshot)
            if content is None:
                text = "VolumeSnapshotContent is missing"
                reason = REASONS[SNAPSHOT].missing
                yield from shared.try_fail(SNAPSHOT, snapshot, reason, text, unready=True)
                raise Retry(
                    f"snapshot {key_of(snapshot)} requests an non-existing content "
                    f"{given_content(SNAPSHOT, snapshot)}"
                )
            content = yield from self._binding.bind(SNAPSHOT, snapshot, content)
        elif shared.flags.groups and owner_group(shared.group, snapshot):
            bound = status_of(snapshot).get(SNAPSHOT.bound_field)
            if not bound:
                raise Retry(
                    f"detected group snapshot member {key_of(snapshot)} with no content, retrying"
                )
            content = shared.content(SNAPSHOT, bound)
            if content is None:
                raise Retry(
                    f"group snapshot member {key_of(snapshot)} requests an non-existing "
                    f"content {bound}"
                )
        else:
            content = yield from self._binding.content_of(SNAPSHOT, snapshot)
            if content is None:
                content = yield from self._create_content_or_say_why(snapshot)
        try:
            yield from self._copy_status(snapshot, content)
        except (Retry, *RequestFailed) as error:
            text = f"Snapshot status update failed, {error}"
            reason = "SnapshotStatusUpdateFailed"
            yield from shared.try_fail(SNAPSHOT, snapshot, reason, text, unready=False)
            raise

    def _copy_status(self, snapshot: Tree, content: Tree) -> Reconcile[None]:
        shared = self._shared
        told = told_by(SNAPSHOT, content)
        handle = status_of(content).get("volumeGroupSnapshotHandle")
        if shared.flags.groups and handle is not None:
            told["volumeGroupSnapshotName"] = self._group_with(handle, snapshot)
        yield from self._progress.copy_status(SNAPSHOT, snapshot, content, told)

    def _group_with(self, handle: str, snapshot: Tree) -> str:
        for obj in self._shared.content_listers[GROUP]:
            if status_of(obj.tree).get(GROUP.handle_field) == handle:
                return str(obj.tree["spec"][GROUP.reference_field]["name"])
        raise Retry(
            "updateSnapshotStatus: cannot find the group snapshot for VolumeSnapshot "
            f"[{key_of(snapshot)}], will not update snapshot status"
        )

    # ------------------------------------------------------------------ the content of a new snapshot

    def _create_content_or_say_why(self, snapshot: Tree) -> Reconcile[Tree]:
        try:
            return (yield from self._create_content(snapshot))
        except (Retry, *RequestFailed) as error:
            text = f"Failed to create snapshot content with error {error}"
            reason = "SnapshotContentCreationFailed"
            yield from self._shared.try_fail(SNAPSHOT, snapshot, reason, text, unready=True)
            raise

    def _create_content(self, snapshot: Tree) -> Reconcile[Tree]:
        shared = self._shared
        yield from self._claims.ensure_finalizer(snapshot)
        name = dynamic_content_name(SNAPSHOT, snapshot)
        try:
            found, volume, secret = yield from self._inputs(snapshot, name)
        except (Retry, ParameterError, *RequestFailed) as error:
            raise Retry(
                f"failed to get input parameters to create snapshot {name_of(snapshot)}: "
                f"{quote(str(error))}"
            ) from None
        csi = volume["spec"].get("csi")
        if csi is None:
            raise Retry(f"cannot find CSI PersistentVolumeSource for volume {name_of(volume)}")
        tree = shared.to_be_created(SNAPSHOT, self._content(snapshot, name, found, volume, secret))
        try:
            made = (yield from calls.create(SNAPSHOT.contents, "", tree)).tree
        except RequestFailed as error:
            if not is_already_exists(error):
                text = f"Error creating volume snapshot content object for snapshot {key_of(snapshot)}: {error}."
                shared.event(snapshot, WARNING, "CreateSnapshotContentFailed", text)
                raise update_error(key_of(snapshot), error) from None
            made = tree  # upstream goes on with what it meant to create, which has no version
        text = f"Waiting for a snapshot {key_of(snapshot)} to be created by the CSI driver."
        shared.event(snapshot, NORMAL, "CreatingSnapshot", text)
        shared.content_stores[SNAPSHOT].put(made)
        return made

    def _inputs(
        self, snapshot: Tree, name: str
    ) -> Reconcile[tuple[Tree, Tree, SecretReference | None]]:
        named = snapshot["spec"].get(SNAPSHOT.class_field)
        if named is None:
            raise Retry(f"failed to take snapshot {name_of(snapshot)} without a snapshot class")
        found = self._classes.get(SNAPSHOT, named)
        volume = yield from self._claims.volume_of(self._claims.claim_of(snapshot))
        about = (snapshot["metadata"]["namespace"], name_of(snapshot))
        secret = secret_reference(SNAPSHOTTER, found.get("parameters") or {}, name, about)
        return found, volume, secret

    def _content(
        self, snapshot: Tree, name: str, found: Tree, volume: Tree, secret: SecretReference | None
    ) -> Tree:
        metadata: Tree = {"name": name}
        if secret is not None:
            metadata["annotations"] = {
                SECRET_NAME: secret.name,
                SECRET_NAMESPACE: secret.namespace,
            }
        spec: dict[str, Any] = {
            "volumeSnapshotRef": full_reference(snapshot),
            "source": {"volumeHandle": volume["spec"]["csi"]["volumeHandle"]},
            "volumeSnapshotClassName": name_of(found),
            "deletionPolicy": found["deletionPolicy"],
            "driver": found["driver"],
        }
        mode = volume["spec"].get("volumeMode")
        if self._shared.flags.prevent_volume_mode_conversion and mode:
            spec["sourceVolumeMode"] = mode
        return {
            "apiVersion": SNAPSHOT.contents.api_version,
            "kind": SNAPSHOT.content_kind,
            "metadata": metadata,
            "spec": spec,
        }

    # ------------------------------------------------------------------ deletion

    def _delete(self, snapshot: Tree) -> Reconcile[None]:
        shared = self._shared
        yield from self._progress.begin_deletion(SNAPSHOT, snapshot)
        name = status_of(snapshot).get(SNAPSHOT.bound_field)
        if not name and source_claim(snapshot) is not None:
            name = dynamic_content_name(SNAPSHOT, snapshot)
        content = shared.content(SNAPSHOT, name) if name else None
        if content is not None and not points_at(content["spec"]["volumeSnapshotRef"], snapshot):
            content = None
        if not is_deletion_candidate(snapshot):
            return
        if content is not None and self._claims.is_being_restored(snapshot):
            text = "Snapshot is being used to restore a PVC"
            shared.event(snapshot, WARNING, PENDING, text)
            if shared.fixes.fixed("1394"):
                raise Retry(f"snapshot {key_of(snapshot)} is being used to restore a PVC")
            return
        group_gone = self._check_group(snapshot)
        deletes = content is not None and content["spec"]["deletionPolicy"] == "Delete"
        if content is not None:
            # Before #249 only the content's own sync marked it, if it came before the snapshot was gone.
            if shared.fixes.fixed("249"):
                content = yield from self._binding.mark_being_deleted(SNAPSHOT, content)
            if deletes:
                yield from self._delete_content(snapshot, content)
        removed = {SOURCE_FINALIZER}
        if not deletes:
            removed.add(SNAPSHOT.finalizer)
        if group_gone:
            removed.add(IN_GROUP_FINALIZER)
        yield from self._remove_finalizers(snapshot, removed)

    def _check_group(self, snapshot: Tree) -> bool:
        """Return whether the snapshot's group is gone; a member cannot be deleted before its group."""
        group = status_of(snapshot).get("volumeGroupSnapshotName")
        if not self._shared.flags.groups or group is None:
            return False
        place = f"{snapshot['metadata']['namespace']}/{group}"
        if self._shared.listers[GROUP].get(place) is None:
            return True
        text = (
            f"deletion of the individual volume snapshot {key_of(snapshot)} is not allowed as it "
            f"belongs to group snapshot {place}. Deleting the group snapshot will trigger the "
            "deletion of all the individual volume snapshots that are part of the group."
        )
        self._shared.event(snapshot, WARNING, PENDING, text)
        raise Retry(text)

    def _delete_content(self, snapshot: Tree, content: Tree) -> Reconcile[None]:
        try:
            yield from calls.delete(SNAPSHOT.contents, "", name_of(content))
        except RequestFailed as error:
            # Before #1460 a content that was gone already was an error.
            gone = isinstance(error, ApiError) and is_not_found(error)
            if gone and self._shared.fixes.fixed("1460"):
                return
            text = "Failed to delete snapshot content API object"
            self._shared.event(snapshot, WARNING, "SnapshotContentObjectDeleteError", text)
            raise Retry(
                f"failed to delete VolumeSnapshotContent {name_of(content)} from API server: "
                f"{quote(str(error))}"
            ) from None

    def _remove_finalizers(self, snapshot: Tree, removed: set[str]) -> Reconcile[None]:
        """Remove finalizers; that of the claim first, as no other component removes it once the snapshot is gone
        (#413).
        """
        try:
            yield from self._claims.release(snapshot, skip_own=True)
        except RequestFailed as error:
            raise update_error(name_of(snapshot), error) from None
        left = [each for each in finalizers_of(snapshot) if each not in removed]
        try:
            written = yield from calls.update(SNAPSHOT.resource, with_finalizers(snapshot, left))
        except RequestFailed as error:
            raise update_error(name_of(snapshot), error) from None
        self._shared.stores[SNAPSHOT].put(written.tree)


def owner_reference(kind: Kind, group: Tree) -> Tree:
    """Return the owner reference that makes a snapshot a member of a group."""
    return {
        "apiVersion": kind.resource.api_version,
        "kind": kind.kind,
        "name": name_of(group),
        "uid": uid_of(group),
    }
