"""Matching of volumes to claims. Upstream: pkg/controller/volume/persistentvolume/index.go, component-helpers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.labels import from_label_selector
from controlplane.api.quantity import Quantity, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.storage import PersistentVolume

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
ZERO: Final = parse("0")


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The storage class that a claim names, "" for none."""
    found = claim.annotations.get(BETA_CLASS)
    return found if found is not None else claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """The storage class that a volume belongs to, "" for none."""
    found = volume.annotations.get(BETA_CLASS)
    return found if found is not None else volume.spec.storage_class_name


def asked(claim: PersistentVolumeClaim) -> Quantity:
    """The storage that a claim asks for."""
    return claim.spec.resources.requests.get("storage", ZERO)


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume is the claim's: by name, and by uid once it knows one."""
    reference = volume.spec.claim_ref
    if reference is None:
        return False
    if (reference.name, reference.namespace) != (claim.name, claim.namespace):
        return False
    return not reference.uid or reference.uid == claim.uid


def unfit(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str | None:
    """Return the reason why a volume that the claim names does not fit."""
    if volume.spec.capacity.get("storage", ZERO).cmp(asked(claim)) < 0:
        return "requested PV is too small"
    if volume_class(volume) != claim_class(claim):
        return "storageClassName does not match"
    if not _same_mode(volume, claim):
        return "incompatible volumeMode"
    if not _has_modes(volume, claim):
        return "incompatible accessMode"
    return None


def _same_mode(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    one, other = volume.spec.volume_mode, claim.spec.volume_mode
    return (one or "Filesystem") == (other or "Filesystem")


def _has_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def best_match(
    volumes: Iterable[PersistentVolume], claim: PersistentVolumeClaim, *, delayed: bool
) -> PersistentVolume | None:
    """The volume that waits for this claim, else the smallest free one that fits; none of these if `delayed`.

    Volumes with fewer access modes come first.
    """
    fitting = [each for each in volumes if _has_modes(each, claim)]
    ordered = sorted(fitting, key=lambda each: (len(each.spec.access_modes), each.name))
    size = asked(claim)
    best: PersistentVolume | None = None
    least: Quantity | None = None
    for volume in ordered:
        if not _same_mode(volume, claim) or volume.metadata.deletion_timestamp is not None:
            continue
        capacity = volume.spec.capacity.get("storage", ZERO)
        if volume.spec.claim_ref is not None:
            if is_bound_to(volume, claim) and capacity.cmp(size) >= 0:
                return volume
            continue
        if delayed or volume.status.phase != "Available":
            continue
        if claim.spec.selector is not None and not from_label_selector(claim.spec.selector).matches(
            volume.labels
        ):
            continue
        if volume_class(volume) != claim_class(claim) or capacity.cmp(size) < 0:
            continue
        if least is None or capacity.cmp(least) < 0:
            best, least = volume, capacity
    return best
