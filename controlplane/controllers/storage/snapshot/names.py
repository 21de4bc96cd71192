"""Names, finalizers, annotations and resources of snapshots (external-snapshotter pkg/utils/util.go, vgs.go)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from controlplane.client.resources import Resource

SNAPSHOT_GROUP: Final = "snapshot.storage.k8s.io"
GROUP_GROUP: Final = "groupsnapshot.storage.k8s.io"

SNAPSHOTS: Final[Resource[Any]] = Resource(SNAPSHOT_GROUP, "v1", "volumesnapshots")
CONTENTS: Final[Resource[Any]] = Resource(SNAPSHOT_GROUP, "v1", "volumesnapshotcontents")
CLASSES: Final[Resource[Any]] = Resource(SNAPSHOT_GROUP, "v1", "volumesnapshotclasses")
GROUP_SNAPSHOTS: Final[Resource[Any]] = Resource(GROUP_GROUP, "v1", "volumegroupsnapshots")
GROUP_CONTENTS: Final[Resource[Any]] = Resource(GROUP_GROUP, "v1", "volumegroupsnapshotcontents")
GROUP_CLASSES: Final[Resource[Any]] = Resource(GROUP_GROUP, "v1", "volumegroupsnapshotclasses")

_SNAPSHOT: Final = "snapshot.storage.kubernetes.io/"
_GROUP: Final = "groupsnapshot.storage.kubernetes.io/"

CLAIM_FINALIZER: Final = _SNAPSHOT + "pvc-as-source-protection"
SOURCE_FINALIZER: Final = _SNAPSHOT + "volumesnapshot-as-source-protection"
BOUND_FINALIZER: Final = _SNAPSHOT + "volumesnapshot-bound-protection"
IN_GROUP_FINALIZER: Final = _SNAPSHOT + "volumesnapshot-in-group-protection"
CONTENT_FINALIZER: Final = _SNAPSHOT + "volumesnapshotcontent-bound-protection"
GROUP_CONTENT_FINALIZER: Final = _GROUP + "volumegroupsnapshotcontent-bound-protection"
GROUP_FINALIZER: Final = _GROUP + "volumegroupsnapshot-bound-protection"

BEING_CREATED: Final = _SNAPSHOT + "volumesnapshot-being-created"
BEING_DELETED: Final = _SNAPSHOT + "volumesnapshot-being-deleted"
GROUP_BEING_CREATED: Final = _GROUP + "volumegroupsnapshot-being-created"
GROUP_BEING_DELETED: Final = _GROUP + "volumegroupsnapshot-being-deleted"
YES: Final = "yes"

SECRET_NAME: Final = _SNAPSHOT + "deletion-secret-name"
SECRET_NAMESPACE: Final = _SNAPSHOT + "deletion-secret-namespace"
GROUP_SECRET_NAME: Final = _GROUP + "deletion-secret-name"
GROUP_SECRET_NAMESPACE: Final = _GROUP + "deletion-secret-namespace"
MEMBER_OF: Final = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle"
"""On a member's content: the group's handle. It forbids CreateSnapshot."""

DEFAULT_CLASS: Final = _SNAPSHOT + "is-default-class"
DEFAULT_GROUP_CLASS: Final = _GROUP + "is-default-class"
MANAGED_BY: Final = _SNAPSHOT + "managed-by"


def content_name(uid: str) -> str:
    """The content of an independent snapshot with this uid."""
    return f"snapcontent-{uid}"


def group_content_name(uid: str) -> str:
    """The content of a dynamic group snapshot with this uid."""
    return f"groupsnapcontent-{uid}"


def _digest(group_uid: str, volume_handle: str) -> str:
    return sha256((group_uid + volume_handle).encode()).hexdigest()


def member_name(group_uid: str, volume_handle: str) -> str:
    """The snapshot of one volume of a group; before 8.3 the uid was the content's."""
    return f"snapshot-{_digest(group_uid, volume_handle)}"


def member_content_name(group_uid: str, volume_handle: str) -> str:
    """The content of one volume of a group."""
    return f"snapcontent-{_digest(group_uid, volume_handle)}"
