"""Claiming what belongs to an owner: adopt what it selects, release what it no longer does.

Upstream: pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from controlplane.api.labels import from_label_selector
from controlplane.api.times import go_time
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_invalid, is_not_found
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry, aggregate
from controlplane.controllers.common.ownership import (
    Decision,
    adopt_patch,
    claim,
    controller_of,
    release_patch,
)
from controlplane.sharing.memory import by_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.api.meta import LabelSelector, OwnerReference
    from controlplane.api.object import Object
    from controlplane.api.view import View
    from controlplane.client.resources import Resource

C = TypeVar("C", bound="View")


def controller_index(obj: Object) -> tuple[str, ...]:
    """Index by controller: `controller_keys` of that owner finds the object, and all without a controller."""
    owner = controller_of(obj.view)
    if owner is None:
        return (f"{obj.namespace}/",)
    return (f"{obj.namespace}/{_text_of(owner)}",)


@by_identity
def _text_of(owner: OwnerReference) -> str:
    return f"{owner.kind}/{owner.name}/{owner.uid}"


def controller_keys(owner: View) -> tuple[str, str]:
    """Where `controller_index` has what an owner controls, and what it may adopt."""
    return f"{owner.namespace}/{owner.kind}/{owner.name}/{owner.uid}", f"{owner.namespace}/"


def controller_uid_index(obj: Object) -> tuple[str, ...]:
    """Index by the uid of the controller, whatever its name and namespace."""
    owner = controller_of(obj.view)
    return (owner.uid,) if owner is not None else ()


def namespace_index(obj: Object) -> tuple[str, ...]:
    """Index by namespace."""
    return (obj.namespace,)


def claim_objects(
    resource: Resource[C],
    owners: Resource,
    owner: View,
    selector: LabelSelector | None,
    candidates: Sequence[C],
    finalizers: Sequence[str] = (),
    member: Callable[[C], bool] | None = None,
) -> Reconcile[list[C]]:
    """The candidates (of `resource`) that belong to `owner` (of `owners`), after adopting and releasing.

    Every candidate is tried; the first thing that failed is raised at the end. `finalizers` are what
    the owner puts on what it adopts, and takes from what it releases. `member` is asked, too,
    whether an object is one that the owner selects.
    """
    matcher = from_label_selector(selector)
    mine: list[C] = []
    failed: list[Exception] = []
    refused: Exception | None = None
    checked = False

    matched: dict[
        int, bool
    ] = {}  # by the identity of labels: what comes of one template shares them

    def selects(each: C) -> bool:
        labels = each.labels
        matches = matched.get(id(labels))
        if matches is None:
            matches = matched[id(labels)] = matcher.matches(labels)
        return matches and (member is None or member(each))

    for found, decision in claim(owner, candidates, selects):
        if decision is Decision.MINE:
            mine.append(found)
            continue
        try:
            if decision is Decision.RELEASE:
                yield from _release(resource, owner, found, finalizers)
                continue
            if decision is Decision.ADOPT:
                if not checked:
                    checked = True
                    refused = yield from live_owner_refusal(owners, owner)
                if refused is not None:
                    raise Retry(f"can't adopt {found.kind} {found.key} ({found.uid}): {refused}")
                patch = adopt_patch(owner, found.uid, finalizers)
                yield from calls.patch(resource, found.namespace, found.name, patch)
        except (*RequestFailed, Retry) as error:
            if not (isinstance(error, ApiError) and is_not_found(error)):
                failed.append(error)
        else:
            mine.append(found)
    if failed:
        raise aggregate(failed)
    return mine


def _release(
    resource: Resource[C], owner: View, found: C, finalizers: Sequence[str]
) -> Reconcile[None]:
    """Take the owner reference away; what is gone, or another by now, needs no release."""
    try:
        patch = release_patch(owner, found.uid, finalizers)
        yield from calls.patch(resource, found.namespace, found.name, patch)
    except ApiError as error:
        if not is_not_found(error) and not is_invalid(error):
            raise


def live_owner_refusal(owners: Resource, owner: View) -> Reconcile[Exception | None]:
    """A live look at the owner before anything is adopted: same uid, not being deleted."""
    problem: object
    try:
        fresh = (yield from calls.get(owners, owner.namespace, owner.name)).view
    except RequestFailed as error:
        problem = error
    else:
        if fresh.uid == owner.uid:
            since = fresh.metadata.deletion_timestamp
            if since is None:
                return None
            return Retry(f"{owner.key} has just been deleted at {go_time(since)}")
        problem = (
            f"original {owner.kind} {owner.key} is gone: got uid {fresh.uid}, wanted {owner.uid}"
        )
    return Retry(f"can't recheck DeletionTimestamp: {problem}")
