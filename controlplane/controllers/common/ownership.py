"""Controller references, adoption and release. Upstream: pkg/controller/controller_ref_manager.go."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from controlplane.api.tree import Tree
from controlplane.sharing.alike import alike, alike_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from controlplane.api.meta import OwnerReference
    from controlplane.api.view import View

V = TypeVar("V", bound="View")


def controller_of(view: View) -> OwnerReference | None:
    """The one owner reference that is a controller."""
    for reference in view.metadata.owner_references:
        if reference.controller:
            return reference
    return None


def controller_reference(owner: View) -> Tree:
    """The owner reference a controller puts into what it creates."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_references(owner: View) -> list[Tree]:
    """The owner references of what it creates: one list for all of one owner."""
    return alike_list([alike(controller_reference(owner))])


class Decision(Enum):
    """The decision about a candidate: it is owned already, or a patch adopts it, or releases it."""

    MINE = "mine"
    ADOPT = "adopt"
    RELEASE = "release"


def claim(
    owner: View, candidates: Iterable[V], matches: Callable[[V], bool]
) -> list[tuple[V, Decision]]:
    """The candidates that concern an owner, in their order, with what becomes of each.

    An owner that is being deleted neither adopts nor releases; what another uid controls is not
    ours, even under the owner's name.
    """
    deleting = owner.metadata.deletion_timestamp is not None
    decided: list[tuple[V, Decision]] = []
    for candidate in candidates:
        reference = controller_of(candidate)
        if reference is None:
            being_deleted = candidate.metadata.deletion_timestamp is not None
            if not deleting and not being_deleted and matches(candidate):
                decided.append((candidate, Decision.ADOPT))
        elif reference.uid == owner.uid:
            if matches(candidate):
                decided.append((candidate, Decision.MINE))
            elif not deleting:
                decided.append((candidate, Decision.RELEASE))
    return decided


def adopt_patch(owner: View, uid: str, finalizers: Sequence[str] = ()) -> Tree:
    """Strategic merge patch that makes `owner` the controller; the uid guards against a recreated object.

    `finalizers` are what the owner puts on what it controls.
    """
    metadata: Tree = {"ownerReferences": [controller_reference(owner)], "uid": uid}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata}


def release_patch(owner: View, uid: str, finalizers: Sequence[str] = ()) -> Tree:
    """Strategic merge patch that takes the reference to `owner` away, and its `finalizers`."""
    metadata: Tree = {"ownerReferences": [{"$patch": "delete", "uid": owner.uid}], "uid": uid}
    if finalizers:
        metadata["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": metadata}
