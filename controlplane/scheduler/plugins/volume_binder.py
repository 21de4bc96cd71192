"""Choice of the volumes for a pod's claims, and of their topology.

Upstream: `pkg/scheduler/framework/plugins/volumebinding/binder.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cmp_to_key
from typing import TYPE_CHECKING

import attrs

from controlplane.api.labels import SelectorError, from_label_selector
from controlplane.scheduler.framework.interface import ApiWrite, StatusError, error
from controlplane.scheduler.plugins import volume_claims as vc
from controlplane.scheduler.state.listers import Listers

if TYPE_CHECKING:
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.api.storage import CSIStorageCapacity, PersistentVolume, StorageClass

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


@attrs.frozen
class ClaimSets:
    """Claims of a pod by how they stand; `volumes` are those of the classes of delayed claims."""

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]
    volumes: Mapping[str, tuple[PersistentVolume, ...]]


@attrs.frozen
class Decisions:
    """Planned actions on one node: claims to bind to volumes, claims to provision."""

    bindings: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    provisions: tuple[PersistentVolumeClaim, ...] = ()


class VolumeBinder:
    """Decides from listers, and from what it has assumed for pods not bound yet."""

    def __init__(self, listers: Listers) -> None:
        self._listers = listers
        self._assumed_volumes: dict[str, tuple[str, str]] = {}
        """Volume name -> (namespace, name) of the claim it is meant for."""
        self._assumed_claims: dict[tuple[str, str], str] = {}
        """(namespace, name) of a claim to be provisioned -> node."""

    # -- classification ------------------------------------------------------------------------

    def claim_sets(self, pod: Pod) -> ClaimSets:
        """Classify the claims of a pod, all of which exist. Raises StatusError."""
        bound: list[PersistentVolumeClaim] = []
        delayed: list[PersistentVolumeClaim] = []
        immediate: list[PersistentVolumeClaim] = []
        for volume in pod.spec.volumes:
            name = vc.claim_name(pod, volume)
            if name is None:
                continue
            claim = self._listers.persistent_volume_claims.get(pod.namespace, name)
            assert claim is not None
            if vc.is_fully_bound(claim):
                bound.append(claim)
            elif self._is_delayed(claim) and not claim.spec.volume_name:
                delayed.append(claim)
            else:
                immediate.append(claim)
        classes = dict.fromkeys(vc.claim_class(claim) for claim in delayed)
        volumes = {name: self._volumes_of_class(name) for name in classes}
        return ClaimSets(tuple(bound), tuple(delayed), tuple(immediate), volumes)

    def _is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        name = vc.claim_class(claim)
        storage_class = self._listers.storage_classes.get("", name) if name else None
        if storage_class is None:
            return False
        mode: str | None = storage_class.volume_binding_mode
        if mode is None:
            raise StatusError(error(f'VolumeBindingMode not set for StorageClass "{name}"'))
        return mode == vc.WAIT_FOR_FIRST_CONSUMER

    def _volumes_of_class(self, name: str) -> tuple[PersistentVolume, ...]:
        return tuple(
            volume
            for volume in self._listers.persistent_volumes.list()
            if vc.volume_class(volume) == name
        )

    # -- one node ------------------------------------------------------------------------------

    def find(self, claims: ClaimSets, node: Node) -> tuple[Decisions, list[str]]:
        """Return the planned actions on a node, and the reasons why they cannot be done there. Raises StatusError."""
        reachable, exists = self._check_bound(claims.bound, node)
        matched = enough = True
        decisions = Decisions()
        if claims.delayed:
            decisions, matched, enough = self._check_delayed(claims, node)
        reasons: list[str] = []
        if not reachable:
            reasons.append(NODE_CONFLICT)
        if not matched:
            reasons.append(BIND_CONFLICT)
        if not enough:
            reasons.append(NOT_ENOUGH_SPACE)
        if not exists:
            reasons.append(VOLUME_MISSING)
        return decisions, reasons

    def _check_bound(
        self, claims: tuple[PersistentVolumeClaim, ...], node: Node
    ) -> tuple[bool, bool]:
        """(reachable from the node, volume exists); the first problem ends the check."""
        for claim in claims:
            volume = self._listers.persistent_volumes.get("", claim.spec.volume_name)
            if volume is None:
                return True, False
            if not vc.reachable_from(volume, node.labels):
                return False, True
        return True, True

    def _check_delayed(self, claims: ClaimSets, node: Node) -> tuple[Decisions, bool, bool]:
        to_match: list[PersistentVolumeClaim] = []
        to_provision: list[PersistentVolumeClaim] = []
        for claim in claims.delayed:
            selected = self._assumed_claims.get(
                (claim.namespace, claim.name), claim.annotations.get(vc.SELECTED_NODE)
            )
            if selected is None:
                to_match.append(claim)
            elif selected != node.name:
                return Decisions(), False, True
            else:
                to_provision.append(claim)
        bindings, unmatched = self._match(to_match, claims.volumes, node)
        to_provision += unmatched
        if not to_provision:
            return Decisions(bindings), True, True
        matched, enough = self._check_provisions(to_provision, node)
        return Decisions(bindings, tuple(to_provision)), matched, enough

    def _match(
        self,
        claims: list[PersistentVolumeClaim],
        volumes: Mapping[str, tuple[PersistentVolume, ...]],
        node: Node,
    ) -> tuple[
        tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...], list[PersistentVolumeClaim]
    ]:
        taken: dict[str, object] = {}
        bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]] = []
        unmatched: list[PersistentVolumeClaim] = []
        for claim in sorted(claims, key=cmp_to_key(_smaller_request)):
            key = (claim.namespace, claim.name)
            others = {n: owner for n, owner in self._assumed_volumes.items() if owner != key}
            taken.update(others)
            candidates = volumes[vc.claim_class(claim)]
            try:
                volume = vc.find_matching_volume(claim, candidates, node.labels, taken)
            except SelectorError as broken:
                raise StatusError(error(str(broken))) from broken
            if volume is None:
                unmatched.append(claim)
            else:
                taken[volume.name] = claim
                bindings.append((claim, volume))
        return tuple(bindings), unmatched

    def _check_provisions(
        self, claims: list[PersistentVolumeClaim], node: Node
    ) -> tuple[bool, bool]:
        """(can be provisioned for the node, storage is sufficient); the first problem ends it."""
        for claim in claims:
            name = vc.claim_class(claim)
            if not name:
                raise StatusError(error(f'no class for claim "{claim.key}"'))
            storage_class = self._listers.storage_classes.get("", name)
            if storage_class is None:
                raise StatusError(error(f'failed to find storage class "{name}"'))
            if storage_class.provisioner in ("", NO_PROVISIONER):
                return False, True
            if not vc.topology_allows(storage_class.allowed_topologies, node.labels):
                return False, True
            if not self._has_capacity(claim, storage_class, node):
                return True, False
        return True, True

    def _has_capacity(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node
    ) -> bool:
        wanted = vc.requested_storage(claim)
        driver = self._listers.csi_drivers.get("", storage_class.provisioner)
        if wanted is None or driver is None or not driver.spec.storage_capacity:
            return True
        size = wanted.value()
        return any(
            capacity.storage_class_name == storage_class.name
            and _holds(capacity, size)
            and _reaches(capacity, node)
            for capacity in self._listers.csi_storage_capacities.list()
        )

    # -- reserve and bind ----------------------------------------------------------------------

    def assume(self, decisions: Decisions, node: str) -> bool:
        """Remember the decisions; True when there is nothing to write."""
        for claim, volume in decisions.bindings:
            self._assumed_volumes[volume.name] = (claim.namespace, claim.name)
        for claim in decisions.provisions:
            self._assumed_claims[claim.namespace, claim.name] = node
        return not decisions.bindings and not decisions.provisions

    def forget(self, decisions: Decisions) -> None:
        """Drop what `assume` remembered."""
        for _, volume in decisions.bindings:
            self._assumed_volumes.pop(volume.name, None)
        for claim in decisions.provisions:
            self._assumed_claims.pop((claim.namespace, claim.name), None)

    def writes(self, decisions: Decisions, node: str) -> list[ApiWrite]:
        """Updates of volumes (claim reference), then of claims (selected node)."""
        out: list[ApiWrite] = []
        for claim, volume in decisions.bindings:
            if vc.is_bound_to(volume, claim) and volume.spec.claim_ref is not None:
                if volume.spec.claim_ref.uid:
                    continue
            out.append(ApiWrite("update", "persistentvolumes", "", volume.name,
                                _with_claim(volume, claim)))  # fmt: skip
        for claim in decisions.provisions:
            body = _annotated(claim.tree, {vc.SELECTED_NODE: node})
            out.append(
                ApiWrite("update", "persistentvolumeclaims", claim.namespace, claim.name, body)
            )
        return out

    def is_bound(self, decisions: Decisions, pod: Pod, node: str) -> bool:
        """Return whether all claims are bound by now. Raises StatusError when that became impossible."""
        if self._listers.pods.get(pod.namespace, pod.name) is None:
            raise StatusError(error("pod does not exist any more"))
        for claim, volume in decisions.bindings:
            current = self._listers.persistent_volumes.get("", volume.name)
            if current is None or not vc.is_bound_to(current, claim):
                return False
            if not self._claim_is_bound(claim):
                return False
        for claim in decisions.provisions:
            now = self._listers.persistent_volume_claims.get(claim.namespace, claim.name)
            if now is None:
                raise StatusError(error(vc.not_found("persistentvolumeclaim", claim.name)))
            if now.annotations.get(vc.SELECTED_NODE) not in (node, None) or (
                vc.SELECTED_NODE not in now.annotations and not now.spec.volume_name
            ):
                raise StatusError(error(f'provisioning failed for PVC "{claim.name}"'))
            if not vc.is_fully_bound(now):
                return False
        return True

    def _claim_is_bound(self, claim: PersistentVolumeClaim) -> bool:
        now = self._listers.persistent_volume_claims.get(claim.namespace, claim.name)
        return now is not None and vc.is_fully_bound(now)


def _smaller_request(a: PersistentVolumeClaim, b: PersistentVolumeClaim) -> int:
    mine, theirs = vc.requested_storage(a), vc.requested_storage(b)
    if mine is None or theirs is None:
        return (mine is not None) - (theirs is not None)
    return mine.cmp(theirs)


def _holds(capacity: CSIStorageCapacity, size: int) -> bool:
    limit = capacity.maximum_volume_size or capacity.capacity
    return limit is not None and limit.value() >= size


def _reaches(capacity: CSIStorageCapacity, node: Node) -> bool:
    if capacity.node_topology is None:
        return False
    try:
        return from_label_selector(capacity.node_topology).matches(node.labels)
    except SelectorError:
        return False


def _annotated(tree: dict[str, object], annotations: dict[str, str]) -> dict[str, object]:
    metadata = tree.get("metadata")
    assert isinstance(metadata, dict)
    merged = {**(metadata.get("annotations") or {}), **annotations}
    return {**tree, "metadata": {**metadata, "annotations": merged}}


def _with_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> dict[str, object]:
    ref = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim.resource_version,
    }
    tree = volume.tree
    if volume.spec.claim_ref is None:
        tree = _annotated(tree, {vc.BOUND_BY_CONTROLLER: "yes"})
    spec = tree.get("spec")
    assert isinstance(spec, dict)
    return {**tree, "spec": {**spec, "claimRef": ref}}
