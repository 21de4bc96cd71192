"""From a snapshot to its content and back, for snapshots and group snapshots alike.

Upstream: getPreprovisionedContentFromStore, getDynamicallyProvisionedContentFromStore,
checkandBindSnapshotContent, checkandAddSnapshotFinalizers and their group twins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.snapshot.names import content_name, group_content_name
from controlplane.controllers.storage.snapshot.objects import (
    GROUP,
    SNAPSHOT,
    Kind,
    add_finalizer,
    finalizers_of,
    key_of,
    name_of,
    points_at,
    replace,
    uid_of,
    update_error,
    with_finalizers,
)

if TYPE_CHECKING:
    from controlplane.controllers.storage.snapshot.shared import Shared


class _Reasons(NamedTuple):
    missing: str
    mismatch: str
    misbound: str
    bind_failed: str


REASONS: Final = {
    SNAPSHOT: _Reasons(
        "SnapshotContentMissing",
        "SnapshotContentMismatch",
        "SnapshotContentMisbound",
        "SnapshotBindFailed",
    ),
    GROUP: _Reasons(
        "GroupSnapshotContentMissing",
        "GroupSnapshotContentMismatch",
        "GroupSnapshotContentMisbound",
        "GroupSnapshotBindFailed",
    ),
}


def given_content(kind: Kind, tree: Tree) -> str | None:
    """The content that a pre-provisioned object names."""
    found: str | None = tree["spec"]["source"].get(kind.content_field)
    return found


def dynamic_content_name(kind: Kind, tree: Tree) -> str:
    """Return the name of the content of a dynamic object."""
    make = content_name if kind is SNAPSHOT else group_content_name
    return make(uid_of(tree))


class Binding:
    """Finds contents and binds them."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def content_of(self, kind: Kind, tree: Tree) -> Reconcile[Tree | None]:
        """The content that belongs to an object, None if there is none yet; Retry if it cannot be its own."""
        if given_content(kind, tree) is not None:
            return (yield from self._static_content(kind, tree))
        return (yield from self._dynamic_content(kind, tree))

    def _static_content(self, kind: Kind, tree: Tree) -> Reconcile[Tree | None]:
        name = given_content(kind, tree)
        assert name is not None
        content = self._shared.content(kind, name)
        if content is None:
            return None
        reasons = REASONS[kind]
        spec = content["spec"]
        if spec["source"].get(kind.static_handle) is None:
            text = (
                f"{kind.content_kind} is dynamically provisioned while expecting "
                "a pre-provisioned one"
            )
            yield from self._shared.try_fail(kind, tree, reasons.mismatch, text, unready=True)
            raise Retry(
                f"{kind.word} {key_of(tree)} expects a pre-provisioned {kind.content_kind} {name} "
                "but gets a dynamically provisioned one"
            )
        reference, metadata = spec[kind.reference_field], tree["metadata"]
        if (
            reference.get("name") != metadata["name"]
            or reference.get("namespace") != metadata["namespace"]
            or (reference.get("uid") and reference["uid"] != metadata["uid"])
        ):
            text = f"{kind.content_kind} [{name}] is bound to a different {kind.word}"
            yield from self._shared.try_fail(kind, tree, reasons.misbound, text, unready=True)
            raise Retry(text)
        return content

    def _dynamic_content(self, kind: Kind, tree: Tree) -> Reconcile[Tree | None]:
        name = dynamic_content_name(kind, tree)
        content = self._shared.content(kind, name)
        if content is None:
            return None
        reasons = REASONS[kind]
        if content["spec"]["source"].get(kind.dynamic_handle) is None:
            text = (
                f"{kind.content_kind} {name} is pre-provisioned while expecting "
                "a dynamically provisioned one"
            )
            yield from self._shared.try_fail(kind, tree, reasons.mismatch, text, unready=True)
            raise Retry(
                f"{kind.word} {key_of(tree)} expects a dynamically provisioned "
                f"{kind.content_kind} {name} but gets a pre-provisioned one"
            )
        if not points_at(content["spec"][kind.reference_field], tree):
            text = f"{kind.content_kind} {name} is bound to a different {kind.word}"
            yield from self._shared.try_fail(kind, tree, reasons.misbound, text, unready=True)
            raise Retry(text)
        return content

    def bind(self, kind: Kind, tree: Tree, content: Tree) -> Reconcile[Tree]:
        """Write the uid, and the class if there is one, into a pre-provisioned content."""
        spec = content["spec"]
        if spec[kind.reference_field].get("uid") and spec.get(kind.class_field) is not None:
            return content
        body = [replace(f"/spec/{kind.reference_field}/uid", uid_of(tree))]
        named = tree["spec"].get(kind.class_field)
        if named is not None:
            body.append(replace(f"/spec/{kind.class_field}", named))
        try:
            written = yield from self._shared.patch_content(kind, content, body)
        except RequestFailed as error:
            text = f"{kind.word.capitalize()} failed to bind {kind.content_kind}, {error}"
            reason = REASONS[kind].bind_failed
            yield from self._shared.try_fail(kind, tree, reason, text, unready=True)
            raise Retry(
                f"{kind.word} {key_of(tree)} is bound, but {kind.content_kind} {name_of(content)} "
                f"is not bound to the {kind.kind} correctly, {error}"
            ) from None
        self._shared.content_stores[kind].put(written)
        return written

    def add_finalizers(self, kind: Kind, tree: Tree, added: list[str]) -> Reconcile[None]:
        """Keep an object; the first finalizers by a whole update, further ones by a patch."""
        if not added:
            return
        try:
            if finalizers_of(tree):
                body = [patch for each in added for patch in add_finalizer(tree, each)]
                written = yield from self._shared.patch(kind, tree, body)
            else:
                changed = with_finalizers(tree, added)
                written = (yield from calls.update(kind.resource, changed)).tree
        except RequestFailed as error:
            raise update_error(key_of(tree), error) from None
        self._shared.stores[kind].put(written)

    def mark_being_deleted(self, kind: Kind, content: Tree) -> Reconcile[Tree]:
        """Tell the sidecar that the snapshot of a content is really being deleted.

        All annotations are replaced by those that are known here. The kept object counts as marked
        even if the write fails.
        """
        annotations = dict(content["metadata"].get("annotations") or {})
        if kind.being_deleted in annotations:
            return content
        annotations[kind.being_deleted] = "yes"
        metadata = {**content["metadata"], "annotations": annotations}
        self._shared.content_stores[kind].overwrite({**content, "metadata": metadata})
        body = [replace("/metadata/annotations", annotations)]
        try:
            written = yield from self._shared.patch_content(kind, content, body)
        except RequestFailed as error:
            raise update_error(name_of(content), error) from None
        self._shared.content_stores[kind].put(written)
        return written
