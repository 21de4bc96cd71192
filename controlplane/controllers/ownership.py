"""Who owns whom: controller references, adoption and release. Upstream: pkg/controller/controller_ref_manager.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controlplane.api.meta import OwnerReference
    from controlplane.api.view import View

V = TypeVar("V", bound="View")
Tree = dict[str, Any]


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


class Claim(NamedTuple):
    """What of a set of candidates belongs to an owner: `mine` already, `adopt` and `release` by a patch first."""

    mine: list[Any]
    adopt: list[Any]
    release: list[Any]


def claim(owner: View, candidates: Iterable[V], matches: Callable[[V], bool]) -> Claim:
    """Sort candidates out. An owner being deleted adopts nothing; another uid of the same name is not ours."""
    deleting = owner.metadata.deletion_timestamp is not None
    decided = Claim([], [], [])
    for candidate in candidates:
        reference = controller_of(candidate)
        if reference is not None:
            if reference.uid != owner.uid:
                continue
            if matches(candidate):
                decided.mine.append(candidate)
            elif not deleting:
                decided.release.append(candidate)
        elif not deleting and candidate.metadata.deletion_timestamp is None and matches(candidate):
            decided.adopt.append(candidate)
    return decided


def adopt_patch(owner: View, uid: str) -> Tree:
    """Strategic merge patch that makes `owner` the controller; the uid guards against a recreated object."""
    return {"metadata": {"ownerReferences": [controller_reference(owner)], "uid": uid}}


def release_patch(owner: View, uid: str) -> Tree:
    """Strategic merge patch that takes the reference to `owner` away."""
    return {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner.uid}], "uid": uid}}
