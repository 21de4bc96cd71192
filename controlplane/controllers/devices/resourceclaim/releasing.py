"""A claim that is used less than it was: reservations, allocation, finalizer. Upstream: syncClaim of controller.go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from controlplane.api.resource_claims import (
    FINALIZER,
    SCHEDULING_GROUP,
    controller_of,
    is_pod_done,
    reserved_for,
)
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import POD_GROUPS, PODS, RESOURCE_CLAIMS
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.client.indexer import Indexer
    from controlplane.client.resources import Resource
    from controlplane.controllers.devices.uid_cache import UidCache

__all__ = ["Users", "release", "with_status"]


class Users:
    """The users of claims: pods, and pod groups where they may have claims (`groups` is None elsewhere)."""

    def __init__(self, pods: Indexer[Any], groups: Indexer[Any] | None, gone: UidCache) -> None:
        self.pods = pods
        self._groups = groups
        self._gone = gone

    def remaining(self, claim: Object[Any]) -> Reconcile[list[Tree]]:
        """Return the entries of reservedFor whose user may still need the claim; those of unknown kinds stay."""
        kept = []
        for user in reserved_for(claim.tree):
            if (yield from self._may_need(claim.namespace, user)):
                kept.append(user)
        return kept

    def _may_need(self, namespace: str, user: Tree) -> Reconcile[bool]:
        kind = user.get("apiGroup", ""), user.get("resource", "")
        store: Indexer[Any]
        resource: Resource[Any]
        if kind == ("", "pods"):
            store, resource = self.pods, PODS
        elif kind == (SCHEDULING_GROUP, "podgroups") and self._groups is not None:
            store, resource = self._groups, POD_GROUPS
        else:
            return True
        uid = user.get("uid", "")
        if uid in self._gone:
            return False
        found = store.get(f"{namespace}/{user.get('name', '')}")
        if found is None:
            found = yield from _live(resource, namespace, user.get("name", ""))
            return found is not None and found.uid == uid
        return found.uid == uid and not (resource is PODS and is_pod_done(found.tree))


def _live(resource: Resource[Any], namespace: str, name: str) -> Reconcile[Object[Any] | None]:
    """An object as the server has it: the cache may not have heard of it yet."""
    try:
        return (yield from calls.get(resource, namespace, name))
    except ApiError as error:
        if is_not_found(error):
            return None
        raise


def with_status(claim: Tree, **changed: Any) -> Tree:
    """Return a claim with fields of its status set; None or an empty list takes one away."""
    status = {**(claim.get("status") or {}), **changed}
    return {**claim, "status": {name: value for name, value in status.items() if value}}


def _without_finalizer(claim: Tree) -> Tree:
    metadata = claim["metadata"]
    left = list(metadata.get("finalizers") or ())
    left.remove(FINALIZER)
    rest = {name: value for name, value in metadata.items() if name != "finalizers"}
    return {**claim, "metadata": {**rest, "finalizers": left} if left else rest}


def _has_finalizer(claim: Tree) -> bool:
    return FINALIZER in (claim["metadata"].get("finalizers") or ())


def _allocation(claim: Tree) -> Any:
    return (claim.get("status") or {}).get("allocation")


def release(claim: Object[Any], users: Users) -> Reconcile[None]:
    """Take away what a claim holds for users that are gone, and the claim itself once its pod needs it no more.

    Raises Retry, ApiError or ConnectionLost.
    """
    remaining = yield from users.remaining(claim)
    yield from _write(claim.tree, remaining)
    if not remaining:
        yield from _delete_unused(claim, users)


def _write(claim: Tree, remaining: Sequence[Tree]) -> Reconcile[None]:
    ours = _has_finalizer(claim)
    if len(remaining) < len(reserved_for(claim)):
        changes: Tree = {"reservedFor": list(remaining)}
        if not remaining and ours:
            changes["allocation"] = None
        body = with_status(claim, **changes)
        written = (yield from calls.update(RESOURCE_CLAIMS, body, "status")).tree
        if _has_finalizer(written) and _allocation(written) is None:
            yield from calls.update(RESOURCE_CLAIMS, _without_finalizer(written))
    elif ours and claim["metadata"].get("deletionTimestamp") is not None and not remaining:
        if _allocation(claim) is not None:
            body = with_status(claim, allocation=None)
            claim = (yield from calls.update(RESOURCE_CLAIMS, body, "status")).tree
        if _has_finalizer(claim):
            claim = _without_finalizer(claim)
        yield from calls.update(RESOURCE_CLAIMS, claim)


def _delete_unused(claim: Object[Any], users: Users) -> Reconcile[None]:
    owner = controller_of(claim.tree)
    if owner is None or (owner.get("apiVersion"), owner.get("kind")) != ("v1", "Pod"):
        return
    pod = users.pods.get(f"{claim.namespace}/{owner.get('name', '')}")
    if pod is None or (pod.uid == owner.get("uid") and not is_pod_done(pod.tree)):
        return
    try:
        yield from calls.delete(RESOURCE_CLAIMS, claim.namespace, claim.name)
    except RequestFailed as error:
        raise Retry(f"delete unused generated claim {claim.key}: {error}") from error
