"""ControllerRevisions. Upstream: pkg/registry/apps/controllerrevision, pkg/apis/apps."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import age_of, name_of
from controlplane.apiserver.kinds.checks import immutable, non_negative
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import FieldError, required

__all__ = ["KIND"]


def validate_controller_revision(tree: Tree) -> list[FieldError]:
    """Return the errors of a controller revision."""
    errors: list[FieldError] = []
    if tree.get("data") is None:
        errors.append(required("data", "data is mandatory"))
    elif not isinstance(tree["data"], dict):
        errors.append(required("data", "data must be a valid JSON object"))
    return errors + non_negative(tree.get("revision", 0), "revision")


def validate_controller_revision_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed controller revision; its data stays."""
    errors = non_negative(new.get("revision", 0), "revision")
    return errors + immutable(new.get("data"), old.get("data"), "data")


def _row(tree: Tree, now: int) -> list[Any]:
    owner = "<none>"
    for ref in tree["metadata"].get("ownerReferences") or ():
        if ref.get("controller"):
            group = ref.get("apiVersion", "").rpartition("/")[0]
            kind = ref.get("kind", "").lower()
            owner = f"{kind}.{group}/{ref['name']}" if group else f"{kind}/{ref['name']}"
    return [name_of(tree), owner, tree.get("revision", 0), age_of(tree, now)]


KIND = Kind(
    strategy=Strategy(
        rule=validate_controller_revision,
        update_rule=validate_controller_revision_update,
        has_status=False,
        meta_steps="UA",
    ),
    row=_row,
)
