"""Claims that PostFilter gives back so that a pod can be scheduled.

Upstream: PostFilter and unreservePodGroupClaims of plugins/dynamicresources/dynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api.tree import Tree
from controlplane.scheduler.dra.claims import (
    ClaimError,
    group_claim_name,
    is_controlled_by,
    is_reserved_for,
)
from controlplane.scheduler.dra.extended import IN_MEMORY
from controlplane.scheduler.dra.tracker import ClaimTracker, allocation_of
from controlplane.scheduler.framework.effects import Effects
from controlplane.scheduler.framework.status import Status, unresolvable, unschedulable
from controlplane.scheduler.plugins import claim_writing as writing
from controlplane.scheduler.plugins.claim_cycle import CycleData

__all__ = ["give_back", "unreserve_group"]


def give_back(
    data: CycleData, uid: str, choose_order: Callable[[str, list[Any]], list[Any]]
) -> Effects[Status | None]:
    """Deallocate or delete a claim that some node could not use and that no other pod than that of the uid has.

    Returns None where there is none. WriteError.
    """
    extended = data.claims.extended
    written = extended is not None and extended["metadata"].get("name") != IN_MEMORY
    order = sorted(data.unavailable)
    if len(order) > 1:  # upstream takes any
        order = choose_order("scheduler.dra.deallocate", order)
    for index in order:
        if data.claims.is_extended(index):
            if written:
                break
            continue
        claim = data.claims[index]
        users = (claim.get("status") or {}).get("reservedFor") or ()
        if not users or (len(users) == 1 and users[0].get("uid", "") == uid):
            yield from writing.deallocate(claim)
            return unschedulable("deallocation of ResourceClaim completed")
    if extended is not None and written:
        yield from writing.delete_claim(extended)
        return unschedulable("deletion of ResourceClaim completed")
    return None


def unreserve_group(tracker: ClaimTracker, group: Tree, pod: Tree) -> Effects[Status | None]:
    """Take the reservation of a PodGroup from one of its claims; None if none of them has one. ClaimError."""
    for entry in (group.get("spec") or {}).get("resourceClaims") or ():
        claim = _group_claim(tracker, group, entry)
        if claim is None or allocation_of(claim) is None:
            continue
        if is_reserved_for(claim, pod, groups=True):
            problem = yield from writing.unreserve(claim, group["metadata"].get("uid", ""))
            if not problem:
                return unresolvable("ResourceClaim unreserved for PodGroup")
    return None


def _group_claim(tracker: ClaimTracker, group: Tree, entry: Tree) -> Tree | None:
    """Return a claim of a group; None for one that is not needed, or not the group's. ClaimError."""
    name, must_own = group_claim_name(group, entry)
    if name is None:
        return None
    namespace = group["metadata"].get("namespace", "")
    claim = tracker.find(namespace, name)
    if claim is None:
        raise ClaimError(f'could not find resource claim "{namespace}/{name}"')
    return None if must_own and not is_controlled_by(claim, group) else claim
