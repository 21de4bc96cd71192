"""Queueing hints: changes that may let a pod with claims be scheduled.

Upstream: isSchedulableAfterClaimChange and isSchedulableAfterPodChange in
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go.
"""

from __future__ import annotations

from typing import Any

from controlplane.api.quantity import QuantityError, parse
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.claims import ClaimError, FindClaim, claims_of

__all__ = ["queue_after_claim", "queue_after_pod"]


def queue_after_claim(
    pod: Tree, old: Tree | None, new: Tree, find: FindClaim, *, groups: bool = False
) -> bool:
    """Return whether a pod goes to the queue after a claim was added (`old` is None) or changed."""
    metadata = new.get("metadata") or {}
    uid = metadata.get("uid", "")
    before, after = _status(old or {}), _status(new)
    freed = before.get("allocation") is not None and after.get("allocation") is None
    if not freed and not _names(pod, metadata.get("name", "")):
        return False  # asked of every pod that waits: the claims of most have other names
    try:
        claims = [claim for _, claim in claims_of(pod, find, groups=groups)]
    except ClaimError:
        return False
    found = [(claim.get("metadata") or {}).get("uid", "") for claim in claims]
    if freed:
        return True  # devices are free again, whichever claim had them
    if uid not in found:
        return False
    return old is None or _comparable(before) != _comparable(after)


def _names(pod: Tree, claim: str) -> bool:
    """Return whether a claim of this name may be one of the pod's."""
    entries = (pod.get("spec") or {}).get("resourceClaims") or ()
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return any(each.get("resourceClaimName") == claim for each in (*entries, *statuses))


def queue_after_pod(pod: Tree, new: Tree, find: FindClaim, *, groups: bool = False) -> bool:
    """Return whether a pod goes to the queue after the names of a pod's claims were written into its status."""
    if (pod.get("metadata") or {}).get("uid", "") != (new.get("metadata") or {}).get("uid", ""):
        return False
    try:
        list(claims_of(new, find, groups=groups))
    except ClaimError:
        return False
    return True


def _status(claim: Tree) -> Tree:
    return claim.get("status") or {}


def _comparable(value: Any, key: str = "") -> Any:
    """Return a value so that those that mean the same are equal: empty parts go, quantities are numbers."""
    if isinstance(value, dict):
        if key == "consumedCapacity":
            return {name: _amount(part) for name, part in value.items()}
        kept = {name: _comparable(part, name) for name, part in value.items()}
        return {name: part for name, part in kept.items() if part not in (None, "", [], {})}
    return [_comparable(part) for part in value] if isinstance(value, list) else value


def _amount(text: Any) -> Any:
    try:
        return parse(str(text)).normal()
    except QuantityError:
        return text
