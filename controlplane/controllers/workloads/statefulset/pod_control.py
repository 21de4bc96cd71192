"""Creating, updating and deleting the pods of a StatefulSet with their claims.

Upstream: statefulset/stateful_pod_control.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.pod import Pod
from controlplane.client import calls
from controlplane.client.errors import is_already_exists
from controlplane.client.resources import CLAIMS, PODS
from controlplane.controllers.common.conflicts import BACKOFF, retry_on_conflict
from controlplane.controllers.common.controller import NORMAL, WARNING
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry, aggregate
from controlplane.controllers.workloads.statefulset import claims as retention
from controlplane.controllers.workloads.statefulset.pods import (
    claims_of,
    identity_matches,
    storage_matches,
    with_identity,
    with_storage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.apps import StatefulSet
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.object import Object
    from controlplane.api.view import View
    from controlplane.client.indexer import Indexer
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.consistency import ConsistencyStore
    from controlplane.controllers.common.controller import Host

Failed = (*RequestFailed, Retry)
CONFLICTING = (
    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, "
    "the retention policy is ignored for this claim"
)


class StatefulPodControl:
    """Operations on pods and claims, with the events about them."""

    def __init__(
        self,
        host: Host,
        pods: Indexer[Pod],
        claims: Indexer[PersistentVolumeClaim],
        consistency: ConsistencyStore,
    ) -> None:
        self._host = host
        self._pods = pods
        self._claims = claims
        self._consistency = consistency

    def _wrote(self, found: StatefulSet, resource: Resource, answer: Object[View]) -> None:
        self._consistency.wrote(found.key, found.uid, resource, answer)

    def _record(self, verb: str, found: StatefulSet, pod: Pod, error: Exception | None) -> None:
        about = f"{verb} Pod {pod.name} in StatefulSet {found.name}"
        if error is None:
            self._host.event(found, NORMAL, f"Successful{verb}", f"{about} successful")
        else:
            self._host.event(found, WARNING, f"Failed{verb}", f"{about} failed error: {error}")

    # ------------------------------------------------------------------ claims

    def _known_claims(self, found: StatefulSet, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        """The pod's claims that the cache has."""
        for tree in claims_of(found, pod).values():
            claim = self._claims.get(f"{found.namespace}/{tree['metadata']['name']}")
            if claim is not None:
                yield claim.view

    def has_stale_claim(self, found: StatefulSet, pod: Pod) -> bool:
        """Return whether a claim still belongs to an earlier pod of this name and is about to go with it."""
        if retention.policy_of(found).when_scaled == retention.RETAIN:
            return False
        return any(retention.is_stale(claim, pod) for claim in self._known_claims(found, pod))

    def claims_match(self, found: StatefulSet, pod: Pod) -> bool:
        """Return whether the pod's claims are owned as the retention policy asks for."""
        return all(
            retention.is_up_to_date(claim, found, pod) for claim in self._known_claims(found, pod)
        )

    def update_claim_owners(self, found: StatefulSet, pod: Pod) -> Reconcile[None]:
        """Have the pod's claims owned as the retention policy asks for."""
        for claim in list(self._known_claims(found, pod)):
            if retention.has_unexpected_controller(claim, found, pod):
                message = CONFLICTING.format(claim.name)
                self._host.event(found, WARNING, "ConflictingController", message)
            if retention.is_up_to_date(claim, found, pod):
                continue
            try:
                written = yield from calls.update(
                    CLAIMS, retention.owned_as_wanted(claim, found, pod)
                )
            except RequestFailed as error:
                about = f"could not update claim {claim.name} for delete policy ownerRefs"
                raise Retry(f"{about}: {error}") from error
            self._wrote(found, CLAIMS, written)

    def _create_claims(self, found: StatefulSet, pod: Pod) -> Reconcile[None]:
        """Create the pod's missing claims; one that is being deleted must be gone first."""
        errors: list[Exception] = []
        for tree in claims_of(found, pod).values():
            name = tree["metadata"]["name"]
            known = self._claims.get(f"{found.namespace}/{name}")
            if known is not None:
                if known.view.metadata.deletion_timestamp is not None:
                    errors.append(Retry(f"pvc {name} is being deleted"))
                continue
            try:
                made = yield from calls.create(CLAIMS, found.namespace, tree)
            except RequestFailed as error:
                errors.append(Retry(f"failed to create PVC {name}: {error}"))
                if not is_already_exists(error):
                    about = f"Create Claim {name} for Pod {pod.name} in StatefulSet {found.name}"
                    message = f"{about} failed error: {error}"
                    self._host.event(found, WARNING, "FailedCreate", message)
                continue
            self._wrote(found, CLAIMS, made)
            about = f"Create Claim {name} Pod {pod.name} in StatefulSet {found.name}"
            self._host.event(found, NORMAL, "SuccessfulCreate", f"{about} success")
        if errors:
            raise aggregate(errors)

    def create_missing_claims(self, found: StatefulSet, pod: Pod) -> Reconcile[None]:
        """Create claims that a pending pod still misses."""
        yield from self._create_claims(found, pod)
        yield from self._update_owners_reporting(found, pod)

    def _update_owners_reporting(self, found: StatefulSet, pod: Pod) -> Reconcile[None]:
        try:
            yield from self.update_claim_owners(found, pod)
        except Failed as error:
            self._record("Update", found, pod, error)
            raise

    # ------------------------------------------------------------------ pods

    def create(self, found: StatefulSet, pod: Pod) -> Reconcile[None]:
        """Create the pod's claims, then the pod."""
        try:
            yield from self._create_claims(found, pod)
        except Failed as error:
            self._record("Create", found, pod, error)
            raise
        failed: Exception | None = None
        try:
            made = yield from calls.create(PODS, found.namespace, pod.tree)
        except RequestFailed as error:
            if is_already_exists(error):
                raise
            failed = error
        else:
            self._wrote(found, PODS, made)
        yield from self._update_owners_reporting(found, pod)
        self._record("Create", found, pod, failed)
        if failed is not None:
            raise failed

    def update(self, found: StatefulSet, pod: Pod) -> Reconcile[None]:
        """Give the pod the identity, the volumes and the claims that it should have."""
        current, tried = pod, False

        def attempt() -> Reconcile[None]:
            nonlocal current, tried
            changed = current
            if not identity_matches(found, changed):
                changed = with_identity(found, changed)
            if not storage_matches(found, changed):
                changed = with_storage(found, changed)
                try:
                    yield from self._create_claims(found, changed)
                except Failed as error:
                    self._record("Update", found, changed, error)
                    raise
            owners = self.claims_match(found, changed)
            if not owners:
                yield from self._update_owners_reporting(found, changed)
            if changed is current and owners:
                return
            tried = True
            current = changed
            try:
                written = yield from calls.update(PODS, changed.tree)
            except RequestFailed:
                known = self._pods.get(pod.key)
                if known is not None:
                    current = known.view
                raise
            self._wrote(found, PODS, written)

        failed: Exception | None = None
        try:
            yield from retry_on_conflict(attempt, BACKOFF, "statefulset.conflict")
        except Failed as error:
            failed = error
        if tried:
            self._record("Update", found, current, failed)
        if failed is not None:
            raise failed

    def delete(self, found: StatefulSet, pod: Pod) -> Reconcile[None]:
        """Delete the pod by name."""
        try:
            yield from calls.delete(PODS, pod.namespace, pod.name)
        except RequestFailed as error:
            self._record("Delete", found, pod, error)
            raise
        self._record("Delete", found, pod, None)
