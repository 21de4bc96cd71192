"""The claims and volumes that snapshots are taken of, and the finalizer that keeps a claim meanwhile.

Upstream: pkg/common-controller/snapshot_controller.go, groupsnapshot_controller_helper.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.decoding import decode
from controlplane.api.labels import format_label_selector
from controlplane.api.meta import LabelSelector
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.client import calls
from controlplane.client.resources import CLAIMS, VOLUMES
from controlplane.controllers.common.conflicts import RETRY, retry_on_conflict
from controlplane.controllers.common.controller import WARNING
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.snapshot.names import CLAIM_FINALIZER
from controlplane.controllers.storage.snapshot.objects import (
    SNAPSHOT,
    finalizers_of,
    is_deleting,
    is_ready,
    name_of,
    update_error,
    with_finalizers,
)

if TYPE_CHECKING:
    from controlplane.controllers.storage.snapshot.shared import Shared

CLAIM_ERROR: Final = "Error check and remove PVC Finalizer for VolumeSnapshot"


def source_claim(tree: Tree) -> str | None:
    """The claim that a snapshot is taken of; None if it is pre-provisioned."""
    found: str | None = tree["spec"]["source"].get("persistentVolumeClaimName")
    return found


class SourceClaims:
    """Claims and volumes of snapshots and group snapshots."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def claim_of(self, snapshot: Tree) -> Tree:
        """The claim, as the cache has it."""
        name = source_claim(snapshot)
        if name is None:
            raise Retry(f"the snapshot source PVC name is not specified for {name_of(snapshot)}")
        found = self._shared.claims.get(f"{snapshot['metadata']['namespace']}/{name}")
        if found is None:
            missing = f"persistentvolumeclaim {quote(name)} not found"
            raise Retry(f"failed to retrieve PVC {name} from the lister: {quote(missing)}")
        return found.tree

    def volume_of(self, claim: Tree, what: str = "a snapshot") -> Reconcile[Tree]:
        """The volume that a claim is bound to, read from the server, if the binding holds both ways."""
        name = name_of(claim)
        if (claim.get("status") or {}).get("phase") != "Bound":
            raise Retry(f"the PVC {name} is not yet bound to a PV, will not attempt to take {what}")
        volume_name = claim["spec"].get("volumeName", "")
        try:
            volume = (yield from calls.get(VOLUMES, "", volume_name)).tree
        except RequestFailed as error:
            raise Retry(
                f"failed to retrieve PV {volume_name} from the API server: {quote(str(error))}"
            ) from None
        reference = volume["spec"].get("claimRef") or {}
        metadata = claim["metadata"]
        if (
            reference.get("name") != name
            or reference.get("namespace") != metadata["namespace"]
            or (reference.get("uid") and reference["uid"] != metadata["uid"])
        ):
            raise Retry("claim in dataSource not bound or invalid")
        return volume

    def claims_of_group(self, group: Tree) -> Reconcile[list[Tree]]:
        """The claims that a group selects now, read from the server; only matchLabels count."""
        selector = group["spec"]["source"].get("selector") or {}
        labels = selector.get("matchLabels") or {}
        wanted = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
        query = {"labelSelector": wanted} if wanted else {}
        found = yield from calls.list_objects(CLAIMS, group["metadata"]["namespace"], **query)
        if not found.items:
            raise Retry(
                f"label selector {format_label_selector(decode(LabelSelector, selector))} for group snapshot "
                "not applied to any PVC"
            )
        return [item.tree for item in found.items]

    def volumes_of_group(self, group: Tree) -> Reconcile[list[Tree]]:
        """The volumes of those claims, all of which must be bound."""
        volumes = []
        for claim in (yield from self.claims_of_group(group)):
            volumes.append((yield from self.volume_of(claim, "a group snapshot")))
        return volumes

    def ensure_finalizer(self, snapshot: Tree) -> Reconcile[None]:
        """Keep the claim while a snapshot of it is being taken."""
        # Before #283 nothing kept a claim while a snapshot of it was made.
        if not self._shared.fixes.fixed("283"):
            return
        try:
            claim = self.claim_of(snapshot)
        except Retry:
            raise update_error(name_of(snapshot), "cannot get claim from snapshot") from None
        finalizers = finalizers_of(claim)
        # Before #360 a claim that was being deleted failed even where the finalizer was there already.
        if CLAIM_FINALIZER in finalizers and self._shared.fixes.fixed("360"):
            return
        if is_deleting(claim):
            text = "cannot add finalizer on claim because it is being deleted"
            raise update_error(name_of(claim), text)
        if CLAIM_FINALIZER in finalizers:
            return
        try:
            yield from calls.update(CLAIMS, with_finalizers(claim, [*finalizers, CLAIM_FINALIZER]))
        except RequestFailed as error:
            raise update_error(name_of(claim), error) from None

    def release(self, snapshot: Tree, *, skip_own: bool) -> Reconcile[None]:
        """Let the claim go unless a snapshot of it is not ready; errors are reported, then raised."""
        if source_claim(snapshot) is None:
            return
        try:
            claim = self.claim_of(snapshot)
        except Retry:
            return
        if CLAIM_FINALIZER not in finalizers_of(claim) or self._is_used(claim, snapshot, skip_own):
            return
        try:
            yield from self._remove_finalizer(claim)
        except RequestFailed:
            self._shared.event(snapshot, WARNING, "ErrorPVCFinalizer", CLAIM_ERROR)
            raise

    def _is_used(self, claim: Tree, snapshot: Tree, skip_own: bool) -> bool:
        metadata = snapshot["metadata"]
        for obj in self._shared.snapshots.by_index("namespace", metadata["namespace"]):
            if skip_own and obj.name == metadata["name"]:
                continue
            if source_claim(obj.tree) == name_of(claim) and not is_ready(obj.tree):
                return True
        return False

    def _remove_finalizer(self, claim: Tree) -> Reconcile[None]:
        """Read from the server and written again on a conflict."""
        metadata = claim["metadata"]

        def attempt() -> Reconcile[None]:
            live = (yield from calls.get(CLAIMS, metadata["namespace"], metadata["name"])).tree
            others = [each for each in finalizers_of(live) if each != CLAIM_FINALIZER]
            yield from calls.update(CLAIMS, with_finalizers(live, others))

        if not self._shared.fixes.fixed("1339"):
            yield from attempt()  # the error was wrapped, so that a conflict was not recognised
            return
        yield from retry_on_conflict(attempt, RETRY, "snapshots.conflict")

    def is_being_restored(self, snapshot: Tree) -> bool:
        """Return whether a claim of the namespace waits for a volume made from this snapshot."""
        metadata = snapshot["metadata"]
        for obj in self._shared.claims.by_index("namespace", metadata["namespace"]):
            source: Any = obj.tree["spec"].get("dataSource") or {}
            if (
                source.get("kind") == SNAPSHOT.kind
                and source.get("apiGroup") == SNAPSHOT.resource.group
                and source.get("name") == metadata["name"]
                and (obj.tree.get("status") or {}).get("phase") == "Pending"
            ):
                return True
        return False
