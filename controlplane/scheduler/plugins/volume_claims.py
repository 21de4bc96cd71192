"""Claims of a pod's volumes, and storage rules that several plugins share.

Upstream: component-helpers `storage/{ephemeral,volume}`, `pkg/apis/core/v1/helper`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from controlplane.api.labels import SelectorError, from_label_selector
from controlplane.api.node_selector import LazyNodeSelector

if TYPE_CHECKING:
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.pod import Pod
    from controlplane.api.quantity import Quantity
    from controlplane.api.storage import PersistentVolume, TopologySelectorTerm
    from controlplane.api.volumes import Volume

STORAGE = "storage"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
FILESYSTEM = "Filesystem"


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Name of the claim behind a volume; None for volumes without one."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.name}-{volume.name}"
    return None


def uses_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume of the pod refers to the claim, directly or as its ephemeral volume."""
    if claim.namespace != pod.namespace:
        return False
    return any(claim_name(pod, volume) == claim.name for volume in pod.spec.volumes)


def not_found(kind: str, name: str) -> str:
    """Upstream's text for an object that a lister does not have."""
    return f'{kind} "{name}" not found'


def ownership_error(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Return the reason why the claim of an ephemeral volume is not this pod's, None when it is."""
    if claim.namespace == pod.namespace and any(
        ref.controller and ref.uid == pod.uid for ref in claim.metadata.owner_references
    ):
        return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Storage class of a claim; the old annotation wins."""
    annotations = claim.annotations
    if CLASS_ANNOTATION in annotations:
        return annotations[CLASS_ANNOTATION]
    return claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """Storage class of a persistent volume; the old annotation wins."""
    annotations = volume.annotations
    if CLASS_ANNOTATION in annotations:
        return annotations[CLASS_ANNOTATION]
    return volume.spec.storage_class_name


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether the binding of a claim is complete."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.annotations


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume is reserved for the claim."""
    ref = volume.spec.claim_ref
    if ref is None or ref.name != claim.name or ref.namespace != claim.namespace:
        return False
    return not ref.uid or ref.uid == claim.uid


def reachable_from(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    """Return whether the volume's node affinity admits a node with these labels."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    try:
        return LazyNodeSelector(affinity.required).matches("", labels)
    except SelectorError:
        return False


def topology_allows(terms: Sequence[TopologySelectorTerm], labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels lies in an allowed topology; no terms allow all."""
    if not terms:
        return True
    return any(
        term.match_label_expressions
        and all(
            labels.get(each.key) in each.values if each.key in labels else False
            for each in term.match_label_expressions
        )
        for term in terms
    )


def requested_storage(claim: PersistentVolumeClaim) -> Quantity | None:
    """Return the storage request of the claim."""
    return claim.spec.resources.requests.get(STORAGE)


def find_matching_volume(
    claim: PersistentVolumeClaim,
    volumes: Iterable[PersistentVolume],
    labels: Mapping[str, str],
    taken: Mapping[str, object],
) -> PersistentVolume | None:
    """The volume reserved for the claim, or the smallest free one that fits. May raise
    SelectorError.
    """
    from controlplane.api.quantity import parse

    zero = parse("0")
    wanted = requested_storage(claim) or zero
    selector = None if claim.spec.selector is None else from_label_selector(claim.spec.selector)
    storage_class = claim_class(claim)
    best: PersistentVolume | None = None
    best_size = zero
    for volume in volumes:
        spec = volume.spec
        if volume.name in taken:
            continue
        if spec.claim_ref is not None and not is_bound_to(volume, claim):
            continue
        size = spec.capacity.get(STORAGE, zero)
        if size.cmp(wanted) < 0:
            continue
        if (claim.spec.volume_mode or FILESYSTEM) != (spec.volume_mode or FILESYSTEM):
            continue
        if (claim.spec.volume_attributes_class_name or "") != (
            spec.volume_attributes_class_name or ""
        ):
            continue
        if volume.metadata.deletion_timestamp is not None:
            continue
        reachable = reachable_from(volume, labels)
        if is_bound_to(volume, claim):
            return volume if reachable else None
        if volume.status.phase != "Available" or not reachable:
            continue
        if selector is not None and not selector.matches(volume.labels):
            continue
        if volume_class(volume) != storage_class:
            continue
        if not set(claim.spec.access_modes) <= set(spec.access_modes):
            continue
        if best is None or best_size.cmp(size) > 0:
            best, best_size = volume, size
    return best
