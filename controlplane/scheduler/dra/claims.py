"""ResourceClaims of a pod: their names, their owners, and the devices that they hold.

Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go and
pkg/scheduler/framework/plugins/dynamicresources/{allocateddevices,dynamicresources}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from controlplane.api.quantity import parse
from controlplane.api.tree import Tree, metadata_of
from controlplane.scheduler.dra.capacity import Allocating
from controlplane.scheduler.dra.devices import AllocatedState, DeviceID

__all__ = [
    "ClaimError",
    "FindClaim",
    "allocated_state",
    "bindings_of",
    "claims_of",
    "group_claim_name",
    "is_controlled_by",
    "is_reserved_for",
]

SCHEDULING_GROUP = "scheduling.k8s.io"

FindClaim = Callable[[str, str], Tree | None]
"""Returns the claim of a namespace and a name, None where there is none."""


class ClaimError(Exception):
    """A claim of a pod that cannot be used. The text is upstream's."""


def _shown(tree: Tree) -> str:
    meta = metadata_of(tree)
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


def claims_of(pod: Tree, find: FindClaim, *, groups: bool = False) -> Iterator[tuple[str, Tree]]:
    """Iterate over the names in the pod and the objects of its claims.

    Args:
        pod: the pod.
        find: looks claims up.
        groups: the PodGroup of the pod may own a claim in its place (feature DRAWorkloadResourceClaims).

    Raises:
        ClaimError: a claim is not there, is being deleted, or belongs to another pod.
    """
    namespace = metadata_of(pod).get("namespace", "")
    for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
        name, must_own = _claim_name(pod, entry)
        if name is None:
            continue
        claim = find(namespace, name)
        if claim is None:
            raise ClaimError(f'could not find resource claim "{namespace}/{name}"')
        if metadata_of(claim).get("deletionTimestamp") is not None:
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        if must_own and not is_controlled_by(claim, pod):
            _check_group_owner(claim, pod, groups=groups)
        yield entry.get("name", ""), claim


def _controller(claim: Tree) -> Tree | None:
    for owner in metadata_of(claim).get("ownerReferences") or ():
        if owner.get("controller"):
            found: Tree = owner
            return found
    return None


def is_controlled_by(claim: Tree, owner: Tree) -> bool:
    """Return whether an object is the controller of a claim."""
    controller = _controller(claim)
    return controller is not None and controller.get("uid", "") == metadata_of(owner).get("uid", "")


def group_name(pod: Tree) -> str | None:
    """Return the name of the PodGroup to which a pod belongs, None if it belongs to none."""
    name: str | None = ((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName")
    return name


def _check_group_owner(claim: Tree, pod: Tree, *, groups: bool) -> None:
    """Raise ClaimError unless the PodGroup of the pod owns the claim, if it may."""
    shown = f"ResourceClaim {_shown(claim)} was not created for Pod {_shown(pod)}"
    if not groups:
        raise ClaimError(f"{shown} (Pod is not owner)")
    group, owner = group_name(pod), _controller(claim)
    if (
        group is None
        or owner is None
        or owner.get("name") != group
        or owner.get("kind") != "PodGroup"
        or not owner.get("apiVersion", "").startswith(f"{SCHEDULING_GROUP}/")
    ):
        raise ClaimError(f"{shown} (neither Pod nor PodGroup {group or ''} is the owner)")


def is_reserved_for(claim: Tree, pod: Tree, *, groups: bool = False) -> bool:
    """Return whether a claim is reserved for a pod; with `groups` by the name of its PodGroup, too."""
    uid, group = metadata_of(pod).get("uid", ""), group_name(pod) if groups else None
    for user in (claim.get("status") or {}).get("reservedFor") or ():
        if user.get("uid", "") == uid:
            return True
        if (
            group is not None
            and user.get("apiGroup") == SCHEDULING_GROUP
            and user.get("resource") == "podgroups"
            and user.get("name") == group
        ):
            return True
    return False


# -- whom a claim is reserved for ------------------------------------------------------------------


def pod_reference(pod: Tree) -> Tree:
    """Return the entry of a claim's reservedFor that names a pod."""
    meta = metadata_of(pod)
    return {"resource": "pods", "name": meta.get("name", ""), "uid": meta.get("uid", "")}


def bindings_of(pod: Tree, group: Tree | None) -> list[Tree]:
    """Return for each claim of a pod the entry of reservedFor: the pod, or the PodGroup that has the same claim.

    Raises:
        ClaimError: a claim of the pod or of the group names neither a claim nor a template.
    """
    return [_binding(pod, group, entry) for entry in pod["spec"].get("resourceClaims") or ()]


_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def _binding(pod: Tree, group: Tree | None, entry: Tree) -> Tree:
    unsupported = "none of the supported fields are set"
    if all(entry.get(source) is None for source in _SOURCES):
        raise ClaimError(f"Pod {_shown(pod)} claim {entry.get('name', '')}: {unsupported}")
    if group is None:
        return pod_reference(pod)
    for own in (group.get("spec") or {}).get("resourceClaims") or ():
        if all(own.get(source) is None for source in _SOURCES):
            raise ClaimError(f"PodGroup {_shown(group)} claim {own.get('name', '')}: {unsupported}")
        if all(own.get(field) == entry.get(field) for field in ("name", *_SOURCES)):
            return {
                "apiGroup": SCHEDULING_GROUP,
                "resource": "podgroups",
                "name": metadata_of(group).get("name", ""),
                "uid": metadata_of(group).get("uid", ""),
            }
    return pod_reference(pod)


def group_claim_name(group: Tree, entry: Tree) -> tuple[str | None, bool]:
    """Return the name of a claim of a PodGroup, and whether the group must own it. ClaimError."""
    if entry.get("resourceClaimName") is not None:
        return entry["resourceClaimName"], False
    name = entry.get("name", "")
    if entry.get("resourceClaimTemplateName") is None:
        raise ClaimError(
            f"PodGroup {_shown(group)}, spec.resourceClaim {name}: none of the supported fields are set"
        )
    for status in (group.get("status") or {}).get("resourceClaimStatuses") or ():
        if status.get("name", "") == name:
            return status.get("resourceClaimName"), True
    raise ClaimError(f"PodGroup {_shown(group)}: ResourceClaim not created yet")


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
