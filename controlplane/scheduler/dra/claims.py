"""ResourceClaims of a pod: their names, their owners, and the devices that they hold.

Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go and
pkg/scheduler/framework/plugins/dynamicresources/{allocateddevices,dynamicresources}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from controlplane.api.quantity import parse
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.capacity import Allocating
from controlplane.scheduler.dra.devices import AllocatedState, DeviceID

__all__ = ["ClaimError", "FindClaim", "allocated_state", "claims_of", "is_reserved_for"]

FindClaim = Callable[[str, str], Tree | None]
"""Returns the claim of a namespace and a name, None where there is none."""


class ClaimError(Exception):
    """A claim of a pod that cannot be used. The text is upstream's."""


def _meta(tree: Tree) -> Tree:
    return tree.get("metadata") or {}


def _shown(tree: Tree) -> str:
    meta = _meta(tree)
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}"


def _claim_name(pod: Tree, entry: Tree) -> tuple[str | None, bool]:
    """Return the name of a claim (None for one that is not needed), and whether the pod must own it."""
    if entry.get("resourceClaimName") is not None:
        return entry["resourceClaimName"], False
    name = entry.get("name", "")
    if entry.get("resourceClaimTemplateName") is None:
        text = f'pod "{_shown(pod)}", spec.resourceClaim "{name}": none of the supported fields are set'
        raise ClaimError(text)
    for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if status.get("name", "") == name:
            return status.get("resourceClaimName"), True
    raise ClaimError(f'pod "{_shown(pod)}": ResourceClaim not created yet')


def claims_of(pod: Tree, find: FindClaim) -> Iterator[tuple[str, Tree]]:
    """Iterate over the names in the pod and the objects of its claims.

    Args:
        pod: the pod.
        find: looks claims up.

    Raises:
        ClaimError: a claim is not there, is being deleted, or belongs to another pod.
    """
    namespace = _meta(pod).get("namespace", "")
    for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
        name, must_own = _claim_name(pod, entry)
        if name is None:
            continue
        claim = find(namespace, name)
        if claim is None:
            raise ClaimError(f'could not find resource claim "{namespace}/{name}"')
        if _meta(claim).get("deletionTimestamp") is not None:
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        if must_own and not _is_controlled_by(claim, pod):
            raise ClaimError(
                f"ResourceClaim {_shown(claim)} was not created for Pod {_shown(pod)} (Pod is not owner)"
            )
        yield entry.get("name", ""), claim


def _is_controlled_by(claim: Tree, pod: Tree) -> bool:
    for owner in _meta(claim).get("ownerReferences") or ():
        if owner.get("controller"):
            return bool(owner.get("uid", "") == _meta(pod).get("uid", ""))
    return False


def is_reserved_for(claim: Tree, pod: Tree) -> bool:
    """Return whether a claim is reserved for a pod."""
    uid = _meta(pod).get("uid", "")
    users = (claim.get("status") or {}).get("reservedFor") or ()
    return any(user.get("uid", "") == uid for user in users)


def allocated_state(claims: Iterable[Tree], *, shares: bool = True) -> AllocatedState:
    """Return the devices that claims hold; those of admin access hold none.

    With `shares` (feature DRAConsumableCapacity) a result with a shareID holds a part of its device.
    """
    whole: set[DeviceID] = set()
    shared: set[DeviceID] = set()
    capacity = Allocating()
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            if result.get("adminAccess"):
                continue
            device = DeviceID(
                result.get("driver", ""), result.get("pool", ""), result.get("device", "")
            )
            if not shares or result.get("shareID") is None:
                whole.add(device)
                continue
            shared.add(device)
            consumed = result.get("consumedCapacity")
            if consumed is not None:
                amounts = {name: parse(str(amount)) for name, amount in consumed.items()}
                capacity.insert(device, amounts)
    return AllocatedState(frozenset(whole), frozenset(shared), capacity.by_device)
