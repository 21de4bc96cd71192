"""Claiming what belongs to an owner: adopt what it selects, release what it no longer does.

Upstream: pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from controlplane.api.labels import from_label_selector
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_invalid, is_not_found
from controlplane.controllers.effects import Failure, Reconcile, RequestFailed, Retry
from controlplane.controllers.ownership import (
    Decision,
    adopt_patch,
    claim,
    controller_of,
    release_patch,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.meta import LabelSelector
    from controlplane.api.object import Object
    from controlplane.api.view import View
    from controlplane.client.resources import Resource

C = TypeVar("C", bound="View")


def controller_index(obj: Object) -> tuple[str, ...]:
    """Index by controller uid; objects without a controller stand under "namespace/" for adoption."""
    owner = controller_of(obj.view)
    return (owner.uid,) if owner is not None else (f"{obj.namespace}/",)


def namespace_index(obj: Object) -> tuple[str, ...]:
    """Index by namespace."""
    return (obj.namespace,)


def claim_objects(
    resource: Resource[C],
    owners: Resource,
    owner: View,
    selector: LabelSelector | None,
    candidates: Sequence[C],
) -> Reconcile[list[C]]:
    """The candidates (of `resource`) that belong to `owner` (of `owners`), after adopting and releasing.

    Every candidate is tried; the first thing that failed is raised at the end.
    """
    matcher = from_label_selector(selector)
    mine: list[C] = []
    failed: Failure | Retry | None = None
    refused: Failure | Retry | None = None
    checked = False
    for found, decision in claim(owner, candidates, lambda each: matcher.matches(each.labels)):
        try:
            if decision is Decision.RELEASE:
                yield from _release(resource, owner, found)
                continue
            if decision is Decision.ADOPT:
                if not checked:
                    checked = True
                    refused = yield from _refusal(owners, owner)
                if refused is not None:
                    raise refused
                patch = adopt_patch(owner, found.uid)
                yield from calls.patch(resource, found.namespace, found.name, patch)
        except (*RequestFailed, Retry) as error:
            gone = isinstance(error, ApiError) and is_not_found(error)
            failed = failed or (None if gone else error)
        else:
            mine.append(found)
    if failed is not None:
        raise failed
    return mine


def _release(resource: Resource[C], owner: View, found: C) -> Reconcile[None]:
    """Take the owner reference away; what is gone, or another by now, needs no release."""
    try:
        patch = release_patch(owner, found.uid)
        yield from calls.patch(resource, found.namespace, found.name, patch)
    except ApiError as error:
        if not is_not_found(error) and not is_invalid(error):
            raise


def _refusal(owners: Resource, owner: View) -> Reconcile[Failure | Retry | None]:
    """A live look at the owner before anything is adopted: same uid, not being deleted."""
    try:
        fresh = (yield from calls.get(owners, owner.namespace, owner.name)).view
    except RequestFailed as error:
        return error
    if fresh.uid != owner.uid:
        return Retry(
            f"original {owner.kind} {owner.key} is gone: got uid {fresh.uid}, wanted {owner.uid}"
        )
    if fresh.metadata.deletion_timestamp is not None:
        return Retry(f"{owner.key} has just been deleted")
    return None
