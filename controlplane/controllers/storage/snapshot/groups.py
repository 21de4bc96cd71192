"""Volume group snapshots. Upstream: pkg/common-controller/groupsnapshot_controller_helper.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from controlplane.controllers.storage.snapshot.names import (
    GROUP_SECRET_NAME,
    GROUP_SECRET_NAMESPACE,
)
from controlplane.controllers.storage.snapshot.objects import (
    SNAPSHOT,
    Kind,
    finalizers_of,
    full_reference,
    is_bound,
    is_deleting,
    is_ready,
    key_of,
    name_of,
    points_at,
    status_of,
    uid_of,
    update_error,
    with_finalizers,
)
from controlplane.controllers.storage.snapshot.parameters import (
    GROUP_SNAPSHOTTER,
    ParameterError,
    SecretReference,
    secret_reference,
)
from controlplane.controllers.storage.snapshot.status import told_by

if TYPE_CHECKING:
    from controlplane.controllers.storage.snapshot.binding import Binding
    from controlplane.controllers.storage.snapshot.claims import SourceClaims
    from controlplane.controllers.storage.snapshot.classes import ClassChoice
    from controlplane.controllers.storage.snapshot.members import Members
    from controlplane.controllers.storage.snapshot.progress import Progress
    from controlplane.controllers.storage.snapshot.shared import Shared


class Groups:
    """Reconciles volume group snapshots."""

    def __init__(
        self,
        shared: Shared,
        claims: SourceClaims,
        classes: ClassChoice,
        binding: Binding,
        members: Members,
        progress: Progress,
    ) -> None:
        self._shared = shared
        self._kind = shared.group
        self._claims = claims
        self._classes = classes
        self._binding = binding
        self._members = members
        self._progress = progress

    def sync(self, group: Tree) -> Reconcile[None]:
        """Bring a group snapshot further."""
        if is_deleting(group):
            yield from self._delete(group)
            return
        shared = self._shared
        source = group["spec"]["source"]
        if (source.get("selector") is None) == (given_content(self._kind, group) is None):
            text = "Exactly one of Selector and VolumeGroupSnapshotContentName should be specified"
            reason = "GroupSnapshotValidationError"
            yield from shared.try_fail(self._kind, group, reason, text, unready=True)
            raise Retry(text)
        try:
            content = yield from self._binding.content_of(self._kind, group)
            wanted = self._kind.finalizer not in finalizers_of(group) and is_bound(
                self._kind, group
            )
            # Before #1224 a retained group had no finalizer.
            kept = content is not None and (
                shared.fixes.fixed("1224") or content["spec"]["deletionPolicy"] == "Delete"
            )
            added = [self._kind.finalizer] if wanted and kept else []
            yield from self._binding.add_finalizers(self._kind, group, added)
        except (Retry, *RequestFailed) as error:
            text = f"Failed to check and update group snapshot: {error}"
            shared.event(group, WARNING, "GroupSnapshotFinalizerError", text)
            raise
        if is_ready(group) and is_bound(self._kind, group):
            yield from self._sync_ready(group)
        else:
            yield from self._sync_unready(group)

    # ------------------------------------------------------------------ not being deleted

    def _sync_ready(self, group: Tree) -> Reconcile[None]:
        content = self._shared.content(self._kind, status_of(group)[self._kind.bound_field])
        if content is None:
            text, reason = "VolumeGroupSnapshotContent is missing", REASONS[self._kind].missing
        elif not points_at(content["spec"][self._kind.reference_field], group):
            text = "VolumeGroupSnapshotContent is not bound to the VolumeGroupSnapshot correctly"
            reason = "GroupSnapshotMisbound"
        else:
            return
        yield from self._shared.fail(self._kind, group, reason, text, unready=True)

    def _sync_unready(self, group: Tree) -> Reconcile[None]:
        yield from self._progress.begin_creation(self._kind, group)
        shared = self._shared
        content = yield from self._binding.content_of(self._kind, group)
        if given_content(self._kind, group) is not None:
            if content is None:
                text, reason = "VolumeGroupSnapshotContent is missing", REASONS[self._kind].missing
                yield from shared.try_fail(self._kind, group, reason, text, unready=True)
                raise Retry(
                    f"group snapshot {key_of(group)} requests an non-existing group snapshot "
                    f"content {given_content(self._kind, group)}"
                )
            content = yield from self._binding.bind(self._kind, group, content)
        elif content is None:
            content = yield from self._create_content_or_say_why(group)
        else:
            yield from self._members.create(group, content)
        try:
            told = told_by(self._kind, content)
            yield from self._progress.copy_status(self._kind, group, content, told)
        except (Retry, *RequestFailed) as error:
            text = f"GroupSnapshot status update failed, {error}"
            reason = "GroupSnapshotStatusUpdateFailed"
            yield from shared.try_fail(self._kind, group, reason, text, unready=False)
            raise

    # ------------------------------------------------------------------ the content of a new group

    def _create_content_or_say_why(self, group: Tree) -> Reconcile[Tree]:
        try:
            return (yield from self._create_content(group))
        except (Retry, *RequestFailed) as error:
            text = f"failed to create group snapshot content with error {error}"
            reason = "GroupSnapshotContentCreationFailed"
            yield from self._shared.try_fail(self._kind, group, reason, text, unready=True)
            raise

    def _create_content(self, group: Tree) -> Reconcile[Tree]:
        shared = self._shared
        name, place = dynamic_content_name(self._kind, group), key_of(group)
        try:
            found, volumes, secret = yield from self._inputs(group, name)
        except (Retry, ParameterError, *RequestFailed) as error:
            raise Retry(
                f"failed to get input parameters to create group snapshot {name_of(group)}: "
                f"{quote(str(error))}"
            ) from None
        handles = [self._handle(group, volume, found["driver"]) for volume in volumes]
        content = _content(self._kind, group, name, found, handles, secret)
        tree = shared.to_be_created(self._kind, content)
        try:
            made = (yield from calls.create(self._kind.contents, "", tree)).tree
        except RequestFailed as error:
            if not is_already_exists(error):
                text = (
                    "Error creating volume group snapshot content object for group snapshot "
                    f"{place}: {error}."
                )
                shared.event(group, WARNING, "CreateGroupSnapshotContentFailed", text)
                raise update_error(place, error) from None
            made = tree  # as with single snapshots: what was meant, without a version
        text = f"Waiting for a group snapshot {place} to be created by the CSI driver."
        shared.event(group, NORMAL, "CreatingGroupSnapshot", text)
        shared.content_stores[self._kind].put(made)
        return made

    def _inputs(
        self, group: Tree, name: str
    ) -> Reconcile[tuple[Tree, list[Tree], SecretReference | None]]:
        named = group["spec"].get(self._kind.class_field)
        if named is None:
            raise Retry(
                f"failed to take group snapshot {name_of(group)} without a group snapshot class"
            )
        found = self._classes.get(self._kind, named)
        volumes = yield from self._claims.volumes_of_group(group)
        about = (group["metadata"]["namespace"], name_of(group))
        secret = secret_reference(GROUP_SNAPSHOTTER, found.get("parameters") or {}, name, about)
        return found, volumes, secret

    def _handle(self, group: Tree, volume: Tree, driver: str) -> str:
        """The handle of a volume that can be in the group; all have to be of the class's driver."""
        csi = volume["spec"].get("csi")
        place, name = key_of(group), name_of(volume)
        reason = "CreateGroupSnapshotContentFailed"
        if csi is None:
            self._shared.event(group, WARNING, reason, f"Cannot snapshot a non-CSI volume: {name}")
            raise Retry(f"cannot snapshot a non-CSI volume for group snapshot {place}: {name}")
        if csi["driver"] != driver:
            text = (
                f"Volume CSI driver ({csi['driver']}) mismatch with VolumeGroupSnapshotClass "
                f"({driver}) {place}: {name}"
            )
            self._shared.event(group, WARNING, reason, text)
            raise update_error(place, text)
        return str(csi["volumeHandle"])

    # ------------------------------------------------------------------ deletion

    def _delete(self, group: Tree) -> Reconcile[None]:
        shared = self._shared
        yield from self._progress.begin_deletion(self._kind, group)
        name = status_of(group).get(self._kind.bound_field)
        content = shared.content(self._kind, name) if name else None
        if content is not None and not points_at(
            content["spec"][self._kind.reference_field], group
        ):
            content = None
        if self._kind.finalizer not in finalizers_of(group):
            return
        members = [obj.tree for obj in shared.snapshots.by_index("group", uid_of(group))]
        for member in members:
            if self._claims.is_being_restored(member):
                text = (
                    f"Snapshot {key_of(member)} belonging to VolumeGroupSnapshot {key_of(group)} "
                    "is being used to restore a PVC"
                )
                shared.event(group, WARNING, "SnapshotDeletePending", text)
                if shared.fixes.fixed("1394"):
                    raise Retry(text)
                return
        deletes = content is not None and content["spec"]["deletionPolicy"] == "Delete"
        if content is not None:
            content = yield from self._binding.mark_being_deleted(self._kind, content)
            if deletes:
                yield from self._delete_content(group, content)
        for member in members:
            yield from self._delete_member(group, member)
        if not deletes:
            yield from self._remove_finalizer(group)

    def _delete_content(self, group: Tree, content: Tree) -> Reconcile[None]:
        try:
            yield from calls.delete(self._kind.contents, "", name_of(content))
        except RequestFailed as error:
            text = "Failed to delete group snapshot content API object"
            self._shared.event(group, WARNING, "GroupSnapshotContentObjectDeleteError", text)
            raise Retry(
                f"failed to delete VolumeGroupSnapshotContent {name_of(content)} from API server: "
                f"{quote(str(error))}"
            ) from None

    def _delete_member(self, group: Tree, member: Tree) -> Reconcile[None]:
        metadata = member["metadata"]
        try:
            yield from calls.delete(SNAPSHOT.resource, metadata["namespace"], metadata["name"])
        except RequestFailed as error:
            if isinstance(error, ApiError) and is_not_found(error):
                return
            text = f"Failed to delete snapshot {key_of(member)} of the group: {error}"
            self._shared.event(group, WARNING, "SnapshotDeleteError", text)
            raise

    def _remove_finalizer(self, group: Tree) -> Reconcile[None]:
        left = [each for each in finalizers_of(group) if each != self._kind.finalizer]
        try:
            written = yield from calls.update(self._kind.resource, with_finalizers(group, left))
        except RequestFailed as error:
            raise update_error(name_of(group), error) from None
        self._shared.stores[self._kind].put(written.tree)


def _content(
    kind: Kind,
    group: Tree,
    name: str,
    found: Tree,
    handles: list[str],
    secret: SecretReference | None,
) -> Tree:
    metadata: Tree = {"name": name}
    if secret is not None:
        metadata["annotations"] = {
            GROUP_SECRET_NAME: secret.name,
            GROUP_SECRET_NAMESPACE: secret.namespace,
        }
    return {
        "apiVersion": kind.contents.api_version,
        "kind": kind.content_kind,
        "metadata": metadata,
        "spec": {
            "volumeGroupSnapshotRef": full_reference(group),
            "source": {"volumeHandles": handles},
            "volumeGroupSnapshotClassName": name_of(found),
            "deletionPolicy": found["deletionPolicy"],
            "driver": found["driver"],
        },
    }
