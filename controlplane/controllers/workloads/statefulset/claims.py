"""Owners of a StatefulSet's claims, by the retention policy. Upstream: statefulset/stateful_set_utils.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controlplane.controllers.common.ownership import controller_reference
from controlplane.controllers.workloads.statefulset.pods import in_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.apps import StatefulSet
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.meta import OwnerReference
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.api.view import View

RETAIN = "Retain"
DELETE = "Delete"


class Policy(NamedTuple):
    """Retention of claims when the set is deleted, and when it is scaled down."""

    when_deleted: str
    when_scaled: str


def policy_of(found: StatefulSet) -> Policy:
    """The set's policy; Retain in both cases when there is none."""
    policy = found.spec.persistent_volume_claim_retention_policy
    return (
        Policy(RETAIN, RETAIN)
        if policy is None
        else Policy(policy.when_deleted, policy.when_scaled)
    )


def _names(reference: OwnerReference, owner: View) -> bool:
    """Return whether a reference names the owner, whatever its uid."""
    return (reference.api_version, reference.kind, reference.name) == (
        owner.api_version,
        owner.kind,
        owner.name,
    )


def is_stale(claim: PersistentVolumeClaim, owner: View) -> bool:
    """Return whether the claim belongs to an earlier object of the owner's name."""
    for reference in claim.metadata.owner_references:
        if _names(reference, owner):
            return reference.uid != owner.uid
    return False


def _owned(claim: PersistentVolumeClaim, owner: View) -> bool:
    return any(reference.uid == owner.uid for reference in claim.metadata.owner_references)


def has_unexpected_controller(claim: PersistentVolumeClaim, found: StatefulSet, pod: Pod) -> bool:
    """Return whether another controller owns a claim that the policy is about."""
    if policy_of(found) == Policy(RETAIN, RETAIN):
        return False
    for reference in claim.metadata.owner_references:
        owner = next((each for each in (found, pod) if _names(reference, each)), None)
        if owner is not None:
            if reference.uid != owner.uid:
                return True
        elif reference.controller:
            return True
    return False


def _wanted(found: StatefulSet, pod: Pod) -> tuple[bool, bool]:
    """Return whether the set, and whether the pod, is to own the pod's claims."""
    policy = policy_of(found)
    scaled_down = not in_range(found, pod)
    if policy == (DELETE, RETAIN):
        return True, False
    if policy == (RETAIN, DELETE):
        return False, scaled_down
    if policy == (DELETE, DELETE):
        return not scaled_down, scaled_down
    return False, False


def is_up_to_date(claim: PersistentVolumeClaim, found: StatefulSet, pod: Pod) -> bool:
    """Return whether the claim is owned as the policy asks for; what is in an unknown state is left alone."""
    if is_stale(claim, found) or is_stale(claim, pod):
        return True
    owned = _owned(claim, found), _owned(claim, pod)
    if has_unexpected_controller(claim, found, pod):
        return not any(owned)
    ours = {found.uid, pod.uid}
    if any(
        reference.uid in ours and not reference.controller
        for reference in claim.metadata.owner_references
    ):
        return False
    return owned == _wanted(found, pod)


def owned_as_wanted(claim: PersistentVolumeClaim, found: StatefulSet, pod: Pod) -> Tree:
    """The claim with the owners that the policy asks for."""
    metadata = claim.tree["metadata"]
    trees: Iterable[Tree] = metadata.get("ownerReferences") or ()
    references = [
        tree
        for tree, reference in zip(trees, claim.metadata.owner_references)
        if not _names(reference, found) and not _names(reference, pod)
    ]
    if not has_unexpected_controller(claim, found, pod):
        by_set, by_pod = _wanted(found, pod)
        references += [
            controller_reference(owner)
            for owner, wanted in ((pod, by_pod), (found, by_set))
            if wanted and all(tree.get("uid") != owner.uid for tree in references)
        ]
    changed = {key: value for key, value in metadata.items() if key != "ownerReferences"}
    if references:
        changed["ownerReferences"] = references
    return {**claim.tree, "metadata": changed}
