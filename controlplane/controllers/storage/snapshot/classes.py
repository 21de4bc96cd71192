"""The class of a snapshot or group snapshot: checked before every sync, also of ready ones.

Upstream: checkAndUpdateSnapshotClass, SetDefaultSnapshotClass and their group twins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.client import calls
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.snapshot.objects import (
    GROUP,
    SNAPSHOT,
    Kind,
    annotations_of,
    name_of,
    owner_group,
    replace,
)

if TYPE_CHECKING:
    from controlplane.controllers.storage.snapshot.claims import SourceClaims
    from controlplane.controllers.storage.snapshot.shared import Shared


class ClassNotFound(Retry):
    """The class that is named does not exist."""


class _Words(NamedTuple):
    not_found_reason: str
    not_found: str
    default_reason: str
    default: str


_WORDS: Final = {
    SNAPSHOT: _Words(
        "GetSnapshotClassFailed",
        "Failed to get snapshot class with error ",
        "SetDefaultSnapshotClassFailed",
        "Failed to set default snapshot class with error ",
    ),
    GROUP: _Words(
        "GetGroupSnapshotClassFailed",
        "failed to get group snapshot class with error ",
        "SetDefaultGroupSnapshotClassFailed",
        "Failed to set default group snapshot class with error ",
    ),
}


class ClassChoice:
    """Finds classes, and writes the default one into objects that name none."""

    def __init__(self, shared: Shared, claims: SourceClaims) -> None:
        self._shared = shared
        self._claims = claims

    def get(self, kind: Kind, name: str) -> Tree:
        """A class by name, from the cache; ClassNotFound."""
        found = self._shared.class_listers[kind].get(name)
        if found is None:
            singular = f"{kind.kind.lower()}class"
            raise ClassNotFound(f"{singular}.{kind.classes.group} {quote(name)} not found")
        return found.tree

    def check(self, kind: Kind, tree: Tree) -> Reconcile[Tree]:
        """The object, with a class if it needs one; Retry, once the status says what is wrong."""
        name = tree["spec"].get(kind.class_field)
        words = _WORDS[kind]
        if name is not None:
            try:
                self.get(kind, name)
            except ClassNotFound as error:
                reason, message = words.not_found_reason, f"{words.not_found}{error}"
                yield from self._shared.try_fail(kind, tree, reason, message, unready=False)
                raise
            return tree
        static = tree["spec"]["source"].get(kind.content_field) is not None
        if static or (
            kind is SNAPSHOT and self._shared.flags.groups and owner_group(self._shared.group, tree)
        ):
            return tree
        try:
            return (yield from self._set_default(kind, tree))
        except (Retry, *RequestFailed) as error:
            reason, message = words.default_reason, f"{words.default}{error}"
            yield from self._shared.try_fail(kind, tree, reason, message, unready=False)
            raise

    def _set_default(self, kind: Kind, tree: Tree) -> Reconcile[Tree]:
        driver = yield from self._driver_of(kind, tree)
        found = [
            obj.tree
            for obj in self._shared.class_listers[kind]
            if annotations_of(obj.tree).get(kind.default_class) == "true"
            and obj.tree["driver"] == driver
        ]
        if not found:
            raise Retry(f"cannot find default {kind.word} class")
        if len(found) > 1:
            raise Retry(f"{len(found)} default snapshot classes were found")
        name = name_of(found[0])
        if kind is SNAPSHOT:
            body = [replace(f"/spec/{kind.class_field}", name)]
            return (yield from self._shared.patch(kind, tree, body))
        spec = {**tree["spec"], kind.class_field: name}
        written: Tree = (yield from calls.update(kind.resource, {**tree, "spec": spec})).tree
        return written

    def _driver_of(self, kind: Kind, tree: Tree) -> Reconcile[str]:
        """The driver of the source's volume; of a group's, that of the first."""
        if kind is SNAPSHOT:
            volume = yield from self._claims.volume_of(self._claims.claim_of(tree))
        else:
            volume = (yield from self._claims.volumes_of_group(tree))[0]
        csi = volume["spec"].get("csi")
        if csi is None:
            place = f"{tree['metadata']['namespace']}/{name_of(tree)}"
            text = f"snapshotting non-CSI volumes is not supported, {kind.word}:{place}"
            raise Retry(text)
        return str(csi["driver"])

    def driver_for_metrics(self, kind: Kind, tree: Tree) -> str:
        """The driver that metrics name: that of the given content or of the class, else unknown."""
        given = tree["spec"]["source"].get(kind.content_field)
        if given is not None:
            content = self._shared.content_listers[kind].get(given)
            if content is not None:
                return str(content.tree["spec"]["driver"])
        named = tree["spec"].get(kind.class_field)
        found = self._shared.class_listers[kind].get(named) if named is not None else None
        return "unknown" if found is None else str(found.tree["driver"])
