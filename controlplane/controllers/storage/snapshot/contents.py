"""Contents, of snapshots and of group snapshots. Upstream: syncContent, syncGroupSnapshotContent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.tree import Tree
from controlplane.controllers.common.controller import WARNING
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.snapshot.names import SOURCE_FINALIZER
from controlplane.controllers.storage.snapshot.objects import (
    SNAPSHOT,
    Kind,
    add_finalizer,
    finalizers_of,
    is_deleting,
    key_of,
    name_of,
    status_of,
    uid_of,
    update_error,
)

if TYPE_CHECKING:
    from controlplane.controllers.storage.snapshot.binding import Binding
    from controlplane.controllers.storage.snapshot.shared import Shared


def is_deletion_candidate(snapshot: Tree) -> bool:
    """Return whether a snapshot is being deleted and still held by one of this controller's finalizers."""
    held = finalizers_of(snapshot)
    return is_deleting(snapshot) and (SOURCE_FINALIZER in held or SNAPSHOT.finalizer in held)


def needs_status(kind: Kind, tree: Tree, content: Tree) -> bool:
    """Return whether a content has something to tell its (group) snapshot.

    Upstream compares the two readyToUse by their addresses: as soon as both have one they differ.
    """
    status, told = tree.get("status"), status_of(content)
    if status is None and content.get("status") is None:
        return False
    if status is None:
        return True
    if content.get("status") is None:
        return False
    if not status.get(kind.bound_field):
        return True
    if status.get("creationTime") is None and told.get("creationTime") is not None:
        return True
    if told.get("readyToUse") is not None:
        return True
    if kind is not SNAPSHOT or told.get("restoreSize") is None:
        return False
    size: Any = status.get("restoreSize")
    return size is None or (str(size) in {"0", ""} and told["restoreSize"] > 0)


class Contents:
    """Reconciles contents."""

    def __init__(self, shared: Shared, binding: Binding) -> None:
        self._shared = shared
        self._binding = binding

    def sync(self, kind: Kind, content: Tree) -> Reconcile[None]:
        """Keep a content, tell its snapshot what became of it, and pass deletion on."""
        source = content["spec"]["source"]
        dynamic = bool(source.get(kind.dynamic_handle))
        if dynamic == (source.get(kind.static_handle) is not None):
            self._report_sources(kind, content)
        reference = content["spec"][kind.reference_field]
        if not reference.get("uid"):
            return
        if not is_deleting(content) and kind.content_finalizer not in finalizers_of(content):
            yield from self._keep(kind, content)
            return
        tree = self._shared.stores[kind].get(f"{reference['namespace']}/{reference['name']}")
        if tree is None or uid_of(tree) != reference["uid"]:
            return
        if needs_status(kind, tree, content):
            self._shared.queues[kind].add(key_of(tree))
        if kind is SNAPSHOT and is_deletion_candidate(tree):
            yield from self._binding.mark_being_deleted(kind, content)

    def _report_sources(self, kind: Kind, content: Tree) -> None:
        names = "VolumeHandle and SnapshotHandle"
        reason = "ContentValidationError"
        if kind is not SNAPSHOT:
            names = "GroupSnapshotHandles and VolumeHandles"
            reason = "GroupContentValidationError"
        text = f"Exactly one of {names} should be specified"
        self._shared.event(content, WARNING, reason, text)
        raise Retry(text)

    def _keep(self, kind: Kind, content: Tree) -> Reconcile[None]:
        body = add_finalizer(content, kind.content_finalizer)
        try:
            written = yield from self._shared.patch_content(kind, content, body)
        except RequestFailed as error:
            raise update_error(name_of(content), error) from None
        self._shared.content_stores[kind].put(written)
