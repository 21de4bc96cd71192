"""Small decisions of the sidecar. Upstream: external-snapshotter pkg/sidecar-controller and pkg/utils/util.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.controllers.storage.snapshot.names import (
    BEING_CREATED,
    BEING_DELETED,
    GROUP_BEING_CREATED,
    GROUP_BEING_DELETED,
)

NOT_FINAL: Final = frozenset(
    {"Canceled", "DeadlineExceeded", "Unavailable", "ResourceExhausted", "Aborted"}
)
"""Codes after which the driver may still be at work."""


class CorruptObject(Exception):
    """An object lacks what it must have."""


def snapshot_name(prefix: str, uid: str, length: int = -1) -> str:
    """The name of a snapshot for the driver; a `length` of at least 0 cuts the uid, without its dashes."""
    if not uid:
        raise CorruptObject("Corrupted snapshot object, it is missing UID")
    return _named(prefix, uid, length)


def group_snapshot_name(prefix: str, uid: str, length: int = -1) -> str:
    """The name of a group snapshot for the driver."""
    if not uid:
        raise CorruptObject("group snapshot object is missing UID")
    return _named(prefix, uid, length)


def _named(prefix: str, uid: str, length: int) -> str:
    return f"{prefix}-{uid if length < 0 else uid.replace('-', '')[:length]}"


def is_final(code: str | None) -> bool:
    """Return whether an error says that nothing is under way in the driver any more; None is no gRPC status."""
    return code is not None and code not in NOT_FINAL


def content_should_be_deleted(content: Tree, *, marked: bool = True) -> bool:
    """Return whether a content's snapshot may be deleted, or the content let go.

    Without `marked` a bound content need not have the controller's mark (#1446, proposed).
    """
    if not marked and content["metadata"].get("deletionTimestamp"):
        annotations = content["metadata"].get("annotations") or {}
        reference = content["spec"].get("volumeSnapshotRef") or {}
        if reference.get("uid") and BEING_CREATED not in annotations:
            return True
    return _should_be_deleted(
        content, "snapshotHandle", "volumeSnapshotRef", BEING_CREATED, BEING_DELETED
    )


def group_content_should_be_deleted(content: Tree) -> bool:
    """The same of a group's content."""
    return _should_be_deleted(
        content,
        "groupSnapshotHandles",
        "volumeGroupSnapshotRef",
        GROUP_BEING_CREATED,
        GROUP_BEING_DELETED,
    )


def _should_be_deleted(
    content: Tree, static: str, reference: str, created: str, deleted: str
) -> bool:
    metadata, spec = content["metadata"], content["spec"]
    if not metadata.get("deletionTimestamp"):
        return False
    if spec["source"].get(static) is not None and not (spec.get(reference) or {}).get("uid"):
        return True
    annotations = metadata.get("annotations") or {}
    return created not in annotations and deleted in annotations


def content_change_matters(
    old: Tree, new: Tree, *, resync: bool = True, became_ready: bool = True
) -> bool:
    """Return whether an update of a content wakes the sidecar: a resync, becoming ready, or what others wrote.

    Its own writes must not, or failing calls would be repeated without backoff (#533). Before #1302
    resyncs did not pass either, and before #1392 nor did becoming ready.
    """
    if resync and old["metadata"].get("resourceVersion") == new["metadata"].get("resourceVersion"):
        return True
    if became_ready and not _ready(old) and _ready(new):
        return True
    return _essence(old) != _essence(new)


def _ready(content: Tree) -> bool:
    return (content.get("status") or {}).get("readyToUse") is True


def _essence(content: Tree) -> Tree:
    metadata: dict[str, Any] = {
        key: value
        for key, value in content["metadata"].items()
        if key not in {"resourceVersion", "managedFields", "finalizers", "annotations"}
    }
    annotations: Mapping[str, str] = content["metadata"].get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if key != BEING_CREATED}
    if kept:
        metadata["annotations"] = kept
    rest = {key: value for key, value in content.items() if key not in {"metadata", "status"}}
    return {**rest, "metadata": metadata}
