"""Controller revisions: what StatefulSets and DaemonSets remember of their templates.

Upstream: pkg/controller/history/controller_history.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from controlplane.api.fnv import fnv1_32
from controlplane.api.labels import from_label_selector
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_already_exists
from controlplane.client.resources import CONTROLLER_REVISIONS
from controlplane.controllers.common.conflicts import BACKOFF, retry_on_conflict
from controlplane.controllers.common.effects import Reconcile
from controlplane.controllers.common.go_json import compact_json, encoded_template
from controlplane.controllers.common.ownership import (
    adopt_patch,
    controller_of,
    controller_reference,
)
from controlplane.controllers.common.template_hash import safe_encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controlplane.api.apps import ControllerRevision
    from controlplane.api.meta import LabelSelector
    from controlplane.api.object import Object
    from controlplane.api.view import View
    from controlplane.client.indexer import Indexer

HASH_LABEL = "controller.kubernetes.io/hash"
LONGEST_PREFIX = 223
_INT32 = re.compile(r"[0-9]{1,10}")


def template_patch(template: Tree) -> Tree:
    """The data of a revision: a strategic merge patch that puts the template back.

    Its fields are sorted, as those of Go's maps are: the bytes are compared.
    """
    patch: Tree = _sorted({**encoded_template(template), "$patch": "replace"})
    return {"spec": {"template": patch}}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def template_of(revision: ControllerRevision) -> Tree:
    """The template that a revision puts back."""
    spec = (revision.data or {}).get("spec") or {}
    template = spec.get("template") or {}
    return {key: value for key, value in template.items() if key != "$patch"}


def data_hash(data: Tree, collision_count: int | None) -> str:
    """The hash of a revision's data; a collision count makes another one."""
    text = compact_json(data)
    if collision_count is not None:
        text += str(collision_count).encode()
    return safe_encode(str(fnv1_32(text)))


def revision_name(owner: str, digest: str) -> str:
    """The name of a revision."""
    return f"{owner[:LONGEST_PREFIX]}-{digest}"


def new_revision(
    owner: View, template: Tree, number: int, collision_count: int | None
) -> ControllerRevision:
    """The revision of a template, as it would be created."""
    from controlplane.api.apps import ControllerRevision

    data = template_patch(template)
    digest = data_hash(data, collision_count)
    labels = (template.get("metadata") or {}).get("labels") or {}
    metadata: Tree = {
        "name": revision_name(owner.name, digest),
        "labels": {**labels, HASH_LABEL: digest},
        "ownerReferences": [controller_reference(owner)],
    }
    if owner.annotations:
        metadata["annotations"] = dict(owner.annotations)
    return ControllerRevision.from_tree(
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": metadata,
            "data": data,
            "revision": number,
        }
    )


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """Revisions by number, then age, then name."""

    def order(revision: ControllerRevision) -> tuple[int, int, str]:
        return revision.revision, revision.metadata.creation_timestamp or 0, revision.name

    return sorted(revisions, key=order)


def next_number(revisions: Sequence[ControllerRevision]) -> int:
    """The number after the last one; the revisions are in order."""
    return revisions[-1].revision + 1 if revisions else 1


def equal(one: ControllerRevision, other: ControllerRevision) -> bool:
    """Return whether two revisions hold the same data."""
    hashes = _numeric_hash(one), _numeric_hash(other)
    if None not in hashes and hashes[0] != hashes[1]:
        return False
    return compact_json(one.data or {}) == compact_json(other.data or {})


def means_the_same(one: ControllerRevision, other: ControllerRevision) -> bool:
    """Return whether two revisions put the same template back, however it is written (135017)."""
    templates = template_of(one), template_of(other)
    return encoded_template(templates[0]) == encoded_template(templates[1])


def _numeric_hash(revision: ControllerRevision) -> int | None:
    """The hash label where it happens to read as a number."""
    text = revision.labels.get(HASH_LABEL, "")
    number = int(text) if _INT32.fullmatch(text) else -1
    return number if 0 <= number < 2**31 else None


def list_revisions(
    cache: Indexer[ControllerRevision], owner: View, selector: LabelSelector | None
) -> list[ControllerRevision]:
    """The revisions that an owner has or may adopt, as the cache has them (index `namespace`)."""
    matcher = from_label_selector(selector)
    found = []
    for obj in cache.by_index("namespace", owner.namespace):
        revision = obj.view
        reference = controller_of(revision)
        if matcher.matches(revision.labels) and (reference is None or reference.uid == owner.uid):
            found.append(revision)
    return found


def create_revision(
    owner: View, revision: ControllerRevision, collision_count: int
) -> Reconcile[tuple[ControllerRevision, int]]:
    """Create a revision under the first name that is free, or has the same data; and the collisions met."""
    data = revision.data or {}
    while True:
        name = revision_name(owner.name, data_hash(data, collision_count))
        body = {**revision.tree, "metadata": {**revision.tree["metadata"], "name": name}}
        try:
            made = yield from calls.create(CONTROLLER_REVISIONS, owner.namespace, body)
        except ApiError as error:
            if not is_already_exists(error):
                raise
        else:
            return made.view, collision_count
        known = (yield from calls.get(CONTROLLER_REVISIONS, owner.namespace, name)).view
        if compact_json(known.data or {}) == compact_json(data):
            return known, collision_count
        collision_count += 1


def renumber(
    cache: Indexer[ControllerRevision], revision: ControllerRevision, number: int
) -> Reconcile[ControllerRevision]:
    """Give a revision another number; on a conflict, over the cached object."""
    current = revision

    def attempt() -> Reconcile[ControllerRevision]:
        nonlocal current
        if current.revision == number:
            return current
        try:
            written = yield from calls.update(
                CONTROLLER_REVISIONS, {**current.tree, "revision": number}
            )
        except ApiError:
            known: Object[ControllerRevision] | None = cache.get(current.key)
            if known is not None:
                current = known.view
            raise
        return written.view

    return (yield from retry_on_conflict(attempt, BACKOFF, "history.conflict"))


def adopt_revision(owner: View, revision: ControllerRevision) -> Reconcile[None]:
    """Make the owner the controller of a revision without one."""
    patch = adopt_patch(owner, revision.uid)
    yield from calls.patch(CONTROLLER_REVISIONS, revision.namespace, revision.name, patch)
