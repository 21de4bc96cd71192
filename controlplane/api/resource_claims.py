"""ResourceClaims of pods and pod groups: their names, owners and reservations.

The rules that the claim controller, the eviction by device taints and the kubelet share. Objects are trees.
Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from controlplane.api.tree import EMPTY_MAP, Tree, metadata_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "CLAIM_ANNOTATION",
    "EXTENDED_ANNOTATION",
    "FINALIZER",
    "SCHEDULING_GROUP",
    "ClaimNotCreated",
    "ClaimRuleError",
    "NamedClaim",
    "base_request",
    "bind_to",
    "check_owner",
    "check_owning_group",
    "claim_entries",
    "controller_of",
    "extended_claim_name",
    "group_name_of",
    "is_pod_done",
    "is_reserved_for",
    "name_of",
    "name_of_group_claim",
    "reserved_for",
    "selects_device",
    "tolerates",
]

CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
"""On a generated claim: the name of the pod's or the group's entry that it was made for."""
EXTENDED_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""Marks, with the value "true", the claim that the scheduler makes for a pod's extended resources."""
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
SCHEDULING_GROUP: Final = "scheduling.k8s.io"
_UNSUPPORTED: Final = "none of the supported fields are set"


class ClaimRuleError(Exception):
    """A claim that cannot be used as asked. The text is upstream's."""


class ClaimNotCreated(ClaimRuleError):
    """The claim of a template does not exist yet."""


class NamedClaim(NamedTuple):
    """The claim of an entry: its name (None: not needed), and whether its owner must be checked."""

    name: str | None
    check_owner: bool


def _place(tree: Tree) -> str:
    meta = metadata_of(tree)
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}"


def claim_entries(obj: Tree) -> Sequence[Tree]:
    """Return spec.resourceClaims of a pod or a pod group."""
    found: Sequence[Tree] = (obj.get("spec") or EMPTY_MAP).get("resourceClaims") or ()
    return found


def _name(obj: Tree, entry: Tree, missing: str, unsupported: str) -> NamedClaim:
    if entry.get("resourceClaimName") is not None:
        return NamedClaim(entry["resourceClaimName"], False)
    if entry.get("resourceClaimTemplateName") is None:
        raise ClaimRuleError(f"{unsupported}: {_UNSUPPORTED}")
    wanted = entry.get("name", "")
    for status in (obj.get("status") or EMPTY_MAP).get("resourceClaimStatuses") or ():
        if status.get("name", "") == wanted:
            return NamedClaim(status.get("resourceClaimName"), True)
    raise ClaimNotCreated(f"{missing}: ResourceClaim not created yet")


def name_of(pod: Tree, entry: Tree) -> NamedClaim:
    """Return the claim of an entry of a pod's spec.resourceClaims. Raises ClaimRuleError."""
    who = f'pod "{_place(pod)}"'
    return _name(pod, entry, who, f'{who}, spec.resourceClaim "{entry.get("name", "")}"')


def name_of_group_claim(group: Tree, entry: Tree) -> NamedClaim:
    """Return the claim of an entry of a pod group's spec.resourceClaims. Raises ClaimRuleError."""
    who = f"PodGroup {_place(group)}"
    return _name(group, entry, who, f"{who}, spec.resourceClaim {entry.get('name', '')}")


def controller_of(tree: Tree) -> Tree | None:
    """Return the owner reference that is a controller."""
    for owner in metadata_of(tree).get("ownerReferences") or ():
        if owner.get("controller"):
            found: Tree = owner
            return found
    return None


def _controls(owner: Tree, tree: Tree) -> bool:
    reference = controller_of(tree)
    return reference is not None and reference.get("uid", "") == metadata_of(owner).get("uid", "")


def group_name_of(pod: Tree) -> str | None:
    """Return the name of a pod's pod group, None where it has none."""
    group = (pod.get("spec") or EMPTY_MAP).get("schedulingGroup") or EMPTY_MAP
    found: str | None = group.get("podGroupName")
    return found


def _belongs_to_group(pod: Tree, claim: Tree) -> bool:
    name, owner = group_name_of(pod), controller_of(claim)
    return (
        name is not None
        and owner is not None
        and owner.get("name") == name
        and owner.get("kind") == "PodGroup"
        and owner.get("apiVersion", "").startswith(f"{SCHEDULING_GROUP}/")
    )


def check_owner(pod: Tree, claim: Tree, *, groups: bool) -> None:
    """Check that a claim was made for a pod, or with `groups` for its pod group. Raises ClaimRuleError."""
    claimed, who = f"ResourceClaim {_place(claim)}", f"Pod {_place(pod)}"
    if metadata_of(claim).get("namespace", "") != metadata_of(pod).get("namespace", ""):
        raise ClaimRuleError(f"{claimed} is not in the same namespace as {who}")
    if _controls(pod, claim):
        return
    if not groups:
        raise ClaimRuleError(f"{claimed} was not created for {who} (Pod is not owner)")
    if not _belongs_to_group(pod, claim):
        name = group_name_of(pod) or ""
        raise ClaimRuleError(
            f"{claimed} was not created for {who} (neither Pod nor PodGroup {name} is the owner)"
        )


def check_owning_group(group: Tree, claim: Tree) -> None:
    """Check that a claim was made for a pod group. Raises ClaimRuleError."""
    claimed, who = f"ResourceClaim {_place(claim)}", f"PodGroup {_place(group)}"
    if metadata_of(claim).get("namespace", "") != metadata_of(group).get("namespace", ""):
        raise ClaimRuleError(f"{claimed} is not in the same namespace as {who}")
    if not _controls(group, claim):
        raise ClaimRuleError(f"{claimed} was not created for {who} (PodGroup is not owner)")


def reserved_for(claim: Tree) -> Sequence[Tree]:
    """Return status.reservedFor."""
    found: Sequence[Tree] = (claim.get("status") or EMPTY_MAP).get("reservedFor") or ()
    return found


def is_reserved_for(pod: Tree, claim: Tree, *, groups: bool) -> bool:
    """Return whether a claim is reserved for a pod, by uid, or with `groups` for its pod group, by name."""
    uid, group = metadata_of(pod).get("uid", ""), group_name_of(pod)
    for user in reserved_for(claim):
        if user.get("uid", "") == uid:
            return True
        of_group = (user.get("apiGroup", ""), user.get("resource", "")) == (
            SCHEDULING_GROUP,
            "podgroups",
        )
        if groups and of_group and group is not None and user.get("name", "") == group:
            return True
    return False


def bind_to(pod: Tree, group: Tree | None, entry: Tree) -> Tree:
    """Return the consumer that a pod's claim is reserved for: the pod group that has the same entry, or the pod.

    Raises ClaimRuleError: an entry names neither claim nor template, or the pod is not of that group.
    """
    if _names_nothing(entry):
        raise ClaimRuleError(f"Pod {_place(pod)} claim {entry.get('name', '')}: {_UNSUPPORTED}")
    if group is not None:
        _check_member(pod, group)
        for of_group in claim_entries(group):
            if _names_nothing(of_group):
                name = of_group.get("name", "")
                raise ClaimRuleError(f"PodGroup {_place(group)} claim {name}: {_UNSUPPORTED}")
            if _same_entry(of_group, entry):
                meta = metadata_of(group)
                return {
                    "apiGroup": SCHEDULING_GROUP,
                    "resource": "podgroups",
                    "name": meta.get("name", ""),
                    "uid": meta.get("uid", ""),
                }
    meta = metadata_of(pod)
    return {"resource": "pods", "name": meta.get("name", ""), "uid": meta.get("uid", "")}


def _names_nothing(entry: Tree) -> bool:
    return entry.get("resourceClaimName") is None and entry.get("resourceClaimTemplateName") is None


def _same_entry(one: Tree, other: Tree) -> bool:
    return one.get("name", "") == other.get("name", "") and all(
        one.get(field) == other.get(field)
        for field in ("resourceClaimName", "resourceClaimTemplateName")
    )


def _check_member(pod: Tree, group: Tree) -> None:
    name = group_name_of(pod)
    if name is None:
        raise ClaimRuleError(f"Pod {_place(pod)} does not belong to a PodGroup")
    namespace = metadata_of(pod).get("namespace", "")
    if f"{namespace}/{name}" != _place(group):
        raise ClaimRuleError(
            f"Pod {_place(pod)} belongs to PodGroup {namespace}/{name}, not PodGroup {_place(group)}"
        )


def is_pod_done(pod: Tree) -> bool:
    """Return whether a pod runs no more, or never will: finished, or deleted before it was scheduled."""
    if (pod.get("status") or EMPTY_MAP).get("phase") in {"Succeeded", "Failed"}:
        return True
    deleted = metadata_of(pod).get("deletionTimestamp") is not None
    return deleted and not (pod.get("spec") or EMPTY_MAP).get("nodeName")


def extended_claim_name(pod: Tree) -> str | None:
    """Return the name of the claim for a pod's extended resources; None where it has none."""
    status = (pod.get("status") or EMPTY_MAP).get("extendedResourceClaimStatus")
    return None if status is None else status.get("resourceClaimName", "")


def base_request(reference: str) -> str:
    """Return the name of a request, without that of a subrequest."""
    return reference.partition("/")[0]


def allocated_devices(claim: Tree) -> Iterator[Tree]:
    """Iterate over the devices that a claim holds: entries of status.allocation.devices.results."""
    allocation = (claim.get("status") or EMPTY_MAP).get("allocation") or EMPTY_MAP
    yield from (allocation.get("devices") or EMPTY_MAP).get("results") or ()


def selects_device(selector: Tree, driver: str, pool: str, device: str) -> bool:
    """Return whether the selector of a DeviceTaintRule selects a device: what it leaves out is any."""
    wanted = (("driver", driver), ("pool", pool), ("device", device))
    return all(selector.get(name) in (None, value) for name, value in wanted)


def tolerates(toleration: Tree, taint: Tree) -> bool:
    """Return whether a toleration of a device covers a taint, whatever the effect means."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect", ""):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key", ""):
        return False
    operator: Any = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return bool(toleration.get("value", "") == taint.get("value", ""))
    return bool(operator == "Exists")
