"""Writes of claims in PreBind, PostFilter and Unreserve, with what the tracker has to be told of each.

Points: `scheduler.claims.assume` before the assume cache takes the answer of a write, `scheduler.claims.landed` before
an allocation is no longer in flight, `scheduler.claims.restore` before the assume cache goes back,
`scheduler.prebind.retry` and `scheduler.prebind.appears` where time passes.

Upstream: bindClaim, Unreserve and deleteClaim of plugins/dynamicresources/.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from attrs import define

from controlplane.api.kinds import view
from controlplane.api.resource_claims import FINALIZER
from controlplane.api.times import format_time
from controlplane.api.tree import Tree, metadata_of
from controlplane.api.view import View
from controlplane.client import calls
from controlplane.client.errors import ApiError, ConnectionLost, is_conflict
from controlplane.client.resources import PODS, RESOURCE_CLAIMS
from controlplane.decisions import Point, Sleep
from controlplane.scheduler.dra.assume_cache import NOT_FOUND
from controlplane.scheduler.dra.extended import IN_MEMORY
from controlplane.scheduler.dra.manager import DRAManager
from controlplane.scheduler.dra.metrics import FAILURE, SUCCESS
from controlplane.scheduler.dra.requests import claim_name, requests_of
from controlplane.scheduler.dra.tracker import ClaimTracker, allocation_of
from controlplane.scheduler.framework.effects import Effects, RequestFailed
from controlplane.scheduler.plugins.claim_cycle import CycleData, GroupData

__all__ = [
    "ClaimBinding",
    "WriteError",
    "deallocate",
    "delete_claim",
    "patch_pod_status",
    "restore",
    "unreserve",
    "with_allocation",
]

RETRIES: Final = 5
"""Tries in all while a write conflicts (client-go's DefaultRetry)."""
_MS: Final = 1_000_000
_RETRY: Final = Sleep(10 * _MS, point="scheduler.prebind.retry")
_PATCH_RETRIES: Final = tuple(
    Sleep(ms * _MS, point="scheduler.prebind.patch") for ms in (10, 50, 250)
)
_APPEARS: Final = Sleep(1000 * _MS, point="scheduler.prebind.appears")
MOST_LOOKS: Final = 120
"""Looks, a second apart, for a new claim to appear in the assume cache."""
_ASSUME: Final = Point("scheduler.claims.assume")
_LANDED: Final = Point("scheduler.claims.landed")
_RESTORE: Final = Point("scheduler.claims.restore")


class WriteError(Exception):
    """A claim that cannot be written. The text is upstream's; `cause` is what the server answered."""

    def __init__(self, text: str, cause: ApiError | ConnectionLost | None = None) -> None:
        super().__init__(text)
        self.cause = cause

    @property
    def conflicts(self) -> bool:
        """The object has changed meanwhile."""
        return isinstance(self.cause, ApiError) and is_conflict(self.cause)


def _uid(claim: Tree) -> str:
    uid: str = metadata_of(claim).get("uid", "")
    return uid


def _with_finalizer(claim: Tree) -> Tree:
    meta = metadata_of(claim)
    finalizers = list(meta.get("finalizers") or ())
    if FINALIZER in finalizers:
        return claim
    return {**claim, "metadata": {**meta, "finalizers": [*finalizers, FINALIZER]}}


def with_allocation(claim: Tree, allocation: Tree) -> Tree:
    """Return a claim as it is going to be written: with finalizer and allocation."""
    status = {**(claim.get("status") or {}), "allocation": allocation}
    return {**_with_finalizer(claim), "status": status}


@define(eq=False)
class ClaimBinding:
    """Binds one claim to a pod, or to its group: creates it if need be, writes allocation and reservation.

    Attributes:
        dra: the state that plugins share: the tracker of claims, metrics.
        data: the data of the cycle.
        index: the place of the claim in it.
        pod: the pod.
        node: the name of the node.
        group: the data of the pod group's cycle.
        stamps: the time of the allocation is written, and the claim must be allocated (binding conditions).
        clock: returns the time, nanoseconds since the epoch.
    """

    dra: DRAManager
    data: CycleData
    index: int
    pod: Tree
    node: str
    group: GroupData | None
    stamps: bool
    clock: Callable[[], int]
    written: View | None = None
    held: Tree | None = None
    """The claim as it is to be written, which is what is assumed of a claim that was created, written or not."""

    def run(self) -> Effects[Tree]:
        """Write the claim; return it as the server has it. WriteError."""
        claim = self.data.claims[self.index]
        allocation = self.data.allocations.get(self.index)
        if self.is_extended and allocation is None and not requests_of(claim):
            return claim  # a device plugin gives what the pod wants
        uid = _uid(claim)
        try:
            claim = yield from self._write(claim, allocation)
        except WriteError:
            yield from self._settle(uid, allocation)
            raise
        yield from self._settle(uid, allocation)
        return claim

    @property
    def is_extended(self) -> bool:
        """The claim is the one for extended resources."""
        return self.data.claims.is_extended(self.index)

    def _settle(self, uid: str, allocation: Tree | None) -> Effects[None]:
        """Assume the written claim; then it is no longer in flight, for no pod if it is assumed."""
        force = False
        if self.written is not None and self.is_extended:
            assert self.held is not None
            yield from self._appear(view(self.held))
        elif self.written is not None:
            yield _ASSUME
            problem = yield from self.dra.tracker.cache.assume(self.written)
            force = not problem
        if allocation is not None:
            yield _LANDED
            if self.dra.tracker.release(uid, force=force) and self.group is not None:
                self.group.pending.pop(uid, None)

    def _appear(self, written: View) -> Effects[None]:
        """Wait until the informer shows a new claim, so that it can be assumed."""
        for look in range(MOST_LOOKS):
            if look:
                yield _APPEARS
            yield _ASSUME
            problem = yield from self.dra.tracker.cache.assume(written)
            if problem != NOT_FOUND:
                return

    def _write(self, claim: Tree, allocation: Tree | None) -> Effects[Tree]:
        if self.is_extended and metadata_of(claim).get("name") == IN_MEMORY:
            claim = yield from self._create()
        written = yield from _retried(partial(self._try, claim, allocation))
        if self.is_extended:
            yield from self._tell_pod(written)
        return written

    def _create(self) -> Effects[Tree]:
        """Create the claim for extended resources."""
        found = self.data.nodes.get(self.node)
        if found is None or found.extended is None:
            raise WriteError(f"extended resource claim not found for node {self.node}")
        meta = {k: v for k, v in metadata_of(found.extended).items() if k not in ("name", "uid")}
        body = {k: v for k, v in found.extended.items() if k != "status"} | {"metadata": meta}
        namespace = meta.get("namespace", "")
        try:
            made = yield from calls.create(RESOURCE_CLAIMS, namespace, body)
        except RequestFailed as failed:
            self.dra.metrics.created(FAILURE)
            text = f"create claim for extended resources {namespace}/: {failed}"
            raise WriteError(text, failed) from None
        self.dra.metrics.created(SUCCESS)
        self.written, self.held = made.view, made.tree
        self.data.claims.extended = made.tree
        return made.tree

    def _try(self, claim: Tree, allocation: Tree | None, *, again: bool) -> Effects[Tree]:
        """Try to write what is missing of a claim, which is read anew after a conflict."""
        shown = claim_name(claim)
        if again:
            try:
                meta = metadata_of(claim)
                found = yield from calls.get(RESOURCE_CLAIMS, meta["namespace"], meta["name"])
            except RequestFailed as failed:
                text = f"get updated claim {shown} after conflict: {failed}"
                raise WriteError(text, failed) from None
            claim = found.tree
        self.held = claim
        if metadata_of(claim).get("deletionTimestamp") is not None:
            raise WriteError(f"claim {shown} got deleted in the meantime")
        if allocation is not None:
            if allocation_of(claim) is not None:
                raise WriteError(f"claim {shown} got allocated elsewhere in the meantime")
            claim = yield from self._finalized(claim, shown)
            claim = with_allocation(claim, allocation)
        return (yield from self._reserved(claim, shown, allocating=allocation is not None))

    def _finalized(self, claim: Tree, shown: str) -> Effects[Tree]:
        wanted = self.held = _with_finalizer(claim)
        if wanted is claim:
            return claim
        try:
            updated = yield from calls.update(RESOURCE_CLAIMS, wanted)
        except RequestFailed as failed:
            raise WriteError(f"add finalizer to claim {shown}: {failed}", failed) from None
        return updated.tree

    def _reserved(self, claim: Tree, shown: str, *, allocating: bool) -> Effects[Tree]:
        status = dict(claim.get("status") or {})
        binding = self.data.claims.binding(self.index, self.pod)
        status["reservedFor"] = [*(status.get("reservedFor") or ()), binding]
        if self.stamps:
            allocation = status.get("allocation")
            if allocation is None:
                raise WriteError(f"claim {shown} got deallocated elsewhere in the meantime")
            if not allocation.get("allocationTimestamp"):
                stamp = format_time(self.clock())
                status["allocation"] = {**allocation, "allocationTimestamp": stamp}
        self.held = {**claim, "status": status}
        try:
            updated = yield from calls.update(RESOURCE_CLAIMS, self.held, "status")
        except RequestFailed as failed:
            what = "add allocation and reservation" if allocating else "add reservation"
            raise WriteError(f"{what} to claim {shown}: {failed}", failed) from None
        self.written, self.held = updated.view, updated.tree
        return updated.tree

    def _tell_pod(self, claim: Tree) -> Effects[None]:
        """Write into the pod's status which request stands for which extended resource."""
        found = self.data.nodes.get(self.node)
        meta = self.pod["metadata"]
        namespace, name = meta.get("namespace", ""), meta["name"]
        shown = f"pod {namespace}/{name} ExtendedResourceClaimStatus"
        if found is None or not found.mappings:
            raise WriteError(f"nil or empty request mappings, no update of {shown}")
        wanted = {
            "requestMappings": list(found.mappings),
            "resourceClaimName": metadata_of(claim).get("name", ""),
        }
        has = (self.pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
        changed = {key: value for key, value in wanted.items() if has.get(key) != value}
        if not changed:
            return
        patch = {"status": {"extendedResourceClaimStatus": changed}}
        try:
            yield from patch_pod_status(namespace, name, patch)
        except RequestFailed as failed:
            raise WriteError(f"update {shown}: {failed}", failed) from None


def patch_pod_status(namespace: str, name: str, patch: Tree) -> Effects[None]:
    """Patch a pod's status; after some failures again, up to three times. Raises what the last try failed with.

    Upstream: PatchPodStatus of pkg/scheduler/util/utils.go.
    """
    for wait in _PATCH_RETRIES:
        try:
            yield from calls.patch(PODS, namespace, name, patch, subresource="status")
        except ApiError as failed:
            if not (is_conflict(failed) or failed.code == 503 or failed.reason == "InternalError"):
                raise
        else:
            return
        yield wait
    yield from calls.patch(PODS, namespace, name, patch, subresource="status")


def deallocate(claim: Tree) -> Effects[None]:
    """Take the allocation of a claim back. WriteError."""
    gone = ("reservedFor", "allocation", "devices")
    status = {key: value for key, value in (claim.get("status") or {}).items() if key not in gone}
    try:
        yield from calls.update(RESOURCE_CLAIMS, {**claim, "status": status}, "status")
    except RequestFailed as failed:
        raise WriteError(str(failed), failed) from None


def unreserve(claim: Tree, uid: str) -> Effects[str]:
    """Take the entry of this uid out of a claim's reservedFor; returns an error text, "" when all went well."""
    meta = metadata_of(claim)
    entry = {"$patch": "delete", "uid": uid}
    patch = {"metadata": {"uid": _uid(claim)}, "status": {"reservedFor": [entry]}}
    namespace, name = meta.get("namespace", ""), meta.get("name", "")
    try:
        yield from calls.patch(RESOURCE_CLAIMS, namespace, name, patch, subresource="status")
    except RequestFailed as failed:
        return str(failed)
    return ""


class _Attempt(Protocol):
    def __call__(self, *, again: bool) -> Effects[Tree]: ...


def _retried(attempt: _Attempt) -> Effects[Tree]:
    """Repeat a write as long as it conflicts; the claim is read anew from the second try on. WriteError."""
    tries = 1
    while True:
        try:
            return (yield from attempt(again=tries > 1))
        except WriteError as failed:
            if not failed.conflicts or tries == RETRIES:
                raise
        tries += 1
        yield _RETRY


def restore(tracker: ClaimTracker, claim: Tree) -> Effects[None]:
    """Go back to what the informer showed of a claim."""
    yield _RESTORE
    yield from tracker.cache.restore(claim_name(claim))


def delete_claim(claim: Tree) -> Effects[None]:
    """Delete a claim, its finalizer first. WriteError."""
    shown, meta = claim_name(claim), metadata_of(claim)
    namespace, name = meta.get("namespace", ""), meta.get("name", "")
    yield from _retried(partial(_without_finalizer, claim, shown))
    try:
        yield from calls.delete(RESOURCE_CLAIMS, namespace, name)
    except RequestFailed as failed:
        raise WriteError(str(failed), failed) from None


def _without_finalizer(claim: Tree, shown: str, *, again: bool) -> Effects[Tree]:
    if again:
        meta = metadata_of(claim)
        try:
            found = yield from calls.get(RESOURCE_CLAIMS, meta["namespace"], meta["name"])
        except RequestFailed as failed:
            raise WriteError(f"get resourceclaim {shown}: {failed}", failed) from None
        claim = found.tree
    meta = metadata_of(claim)
    finalizers = [each for each in meta.get("finalizers") or () if each != FINALIZER]
    kept = {name: value for name, value in meta.items() if name != "finalizers"}
    wanted = {**claim, "metadata": kept | ({"finalizers": finalizers} if finalizers else {})}
    try:
        updated = yield from calls.update(RESOURCE_CLAIMS, wanted)
    except RequestFailed as failed:
        raise WriteError(f"update resourceclaim {shown}: {failed}", failed) from None
    return updated.tree
