"""Snapshot objects as trees: what both controllers ask of them, and the patches they write."""

from __future__ import annotations

from typing import Any, Final

from attrs import field, frozen

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.client.resources import Resource
from controlplane.controllers.common.effects import Retry
from controlplane.controllers.storage.snapshot import names

Patch = dict[str, Any]


@frozen
class Kind:
    """The differences between snapshots and group snapshots: one entry per thing that both have.

    Kinds are equal whatever version of the API they are spoken of in.
    """

    resource: Resource[Any] = field(eq=False)
    contents: Resource[Any] = field(eq=False)
    classes: Resource[Any] = field(eq=False)
    kind: str
    content_kind: str = field(eq=False)
    word: str = field(eq=False)
    """As in messages: "snapshot", "group snapshot"."""
    class_field: str = field(eq=False)
    bound_field: str = field(eq=False)
    content_field: str = field(eq=False)
    reference_field: str = field(eq=False)
    dynamic_handle: str = field(eq=False)
    static_handle: str = field(eq=False)
    handle_field: str = field(eq=False)
    finalizer: str = field(eq=False)
    content_finalizer: str = field(eq=False)
    being_created: str = field(eq=False)
    being_deleted: str = field(eq=False)
    default_class: str = field(eq=False)

    @property
    def members_field(self) -> str:
        """The field of a group's content that lists its members; in v1beta1 with their handles alone."""
        return PAIRS if self.resource.version == "v1beta1" else INFOS


PAIRS: Final = "volumeSnapshotHandlePairList"
INFOS: Final = "volumeSnapshotInfoList"
SNAPSHOT: Final = Kind(
    names.SNAPSHOTS, names.CONTENTS, names.CLASSES, "VolumeSnapshot", "VolumeSnapshotContent",
    "snapshot", "volumeSnapshotClassName", "boundVolumeSnapshotContentName",
    "volumeSnapshotContentName", "volumeSnapshotRef", "volumeHandle", "snapshotHandle",
    "snapshotHandle", names.BOUND_FINALIZER, names.CONTENT_FINALIZER, names.BEING_CREATED,
    names.BEING_DELETED, names.DEFAULT_CLASS,
)  # fmt: skip


def group_kind(version: str) -> Kind:
    """Group snapshots, as a process speaks of them that was built with this version of their API."""
    return Kind(
        names.GROUP_SNAPSHOTS._replace(version=version),
        names.GROUP_CONTENTS._replace(version=version),
        names.GROUP_CLASSES._replace(version=version), "VolumeGroupSnapshot",
        "VolumeGroupSnapshotContent", "group snapshot", "volumeGroupSnapshotClassName",
        "boundVolumeGroupSnapshotContentName", "volumeGroupSnapshotContentName",
        "volumeGroupSnapshotRef", "volumeHandles", "groupSnapshotHandles",
        "volumeGroupSnapshotHandle", names.GROUP_FINALIZER, names.GROUP_CONTENT_FINALIZER,
        names.GROUP_BEING_CREATED, names.GROUP_BEING_DELETED, names.DEFAULT_GROUP_CLASS,
    )  # fmt: skip


GROUP: Final = group_kind("v1")


def name_of(tree: Tree) -> str:
    """The object's name."""
    return str(tree["metadata"]["name"])


def key_of(tree: Tree) -> str:
    """Namespace and name, or name."""
    metadata = tree["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def uid_of(tree: Tree) -> str:
    """The object's uid, "" if it has none yet."""
    return str(tree["metadata"].get("uid", ""))


def status_of(tree: Tree) -> Tree:
    """The status, empty if there is none."""
    return tree.get("status") or {}


def is_deleting(tree: Tree) -> bool:
    """Return whether deletion was asked for."""
    return bool(tree["metadata"].get("deletionTimestamp"))


def finalizers_of(tree: Tree) -> list[str]:
    """The finalizers."""
    return list(tree["metadata"].get("finalizers") or ())


def annotations_of(tree: Tree) -> dict[str, str]:
    """The annotations."""
    return dict(tree["metadata"].get("annotations") or {})


def is_ready(tree: Tree) -> bool:
    """Return whether a status says that it is ready to use."""
    return status_of(tree).get("readyToUse") is True


def is_created(tree: Tree) -> bool:
    """Return whether a status knows when the snapshot was cut."""
    return status_of(tree).get("creationTime") is not None


def is_bound(kind: Kind, tree: Tree) -> bool:
    """Return whether a (group) snapshot's status names its content."""
    return bool(status_of(tree).get(kind.bound_field))


def with_finalizers(tree: Tree, finalizers: list[str]) -> Tree:
    """The object with these finalizers."""
    rest = {key: value for key, value in tree["metadata"].items() if key != "finalizers"}
    metadata = {**rest, "finalizers": finalizers} if finalizers else rest
    return {**tree, "metadata": metadata}


def with_status(tree: Tree, status: Tree) -> Tree:
    """The object with this status."""
    return {**tree, "status": status}


def add_finalizer(tree: Tree, finalizer: str) -> list[Patch]:
    """The patch that appends a finalizer."""
    if finalizers_of(tree):
        return [{"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}]
    return [{"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}]


def replace(path: str, value: Any) -> Patch:
    """A patch operation that sets."""
    return {"op": "replace", "path": path, "value": value}


def remove_annotation(annotation: str) -> list[Patch]:
    """The patch that removes one annotation; an error where it is not there."""
    escaped = annotation.replace("~", "~0").replace("/", "~1")
    return [{"op": "remove", "path": f"/metadata/annotations/{escaped}"}]


def update_error(name: str, error: object) -> Retry:
    """Return the error of a failed write (newControllerUpdateError)."""
    return Retry(f"snapshot controller failed to update {name} on API server: {error}")


def error_status(message: str, now_ns: int) -> Tree:
    """The error of a status."""
    return {"time": format_time(now_ns), "message": message}


def points_at(reference: Tree, tree: Tree) -> bool:
    """Return whether a content's reference, with its uid, is to this object."""
    metadata = tree["metadata"]
    fields = ("name", "namespace", "uid")
    return all(reference.get(field) == metadata.get(field) for field in fields)


def full_reference(tree: Tree) -> Tree:
    """The reference to an object, as of this version of it."""
    metadata = tree["metadata"]
    return {
        "apiVersion": tree["apiVersion"],
        "kind": tree["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }


def owner_group(group: Kind, tree: Tree) -> Tree | None:
    """The owner reference of a group's member; other versions of the group API are not recognised."""
    for owner in tree["metadata"].get("ownerReferences") or ():
        if owner["kind"] == group.kind and owner["apiVersion"] == group.resource.api_version:
            found: Tree = owner
            return found
    return None
