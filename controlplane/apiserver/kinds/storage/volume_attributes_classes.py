"""VolumeAttributesClasses. Upstream: pkg/registry/storage/volumeattributesclass, pkg/apis/storage."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.checks import present, problems
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.storage.storage_classes import validate_parameters
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, required

__all__ = ["KIND"]


def validate_attributes_class(tree: Tree) -> list[FieldError]:
    """Return the errors of a volume attributes class."""
    errors: list[FieldError] = []
    if not tree.get("driverName"):
        errors.append(required("driverName"))
    else:
        lower = tree["driverName"].lower()
        errors += problems("driverName", lower, names.qualified_name(lower))
    errors += validate_parameters(tree.get("parameters") or {}, "parameters")
    return errors + present(tree, "parameters", "", "must contain at least one key/value pair")


def validate_attributes_class_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed volume attributes class."""
    errors = [
        forbidden(key, f"updates to {key} are forbidden.")
        for key in ("driverName", "parameters")
        if new.get(key) != old.get(key)
    ]
    return errors + validate_attributes_class(new)


KIND = Kind(
    strategy=Strategy(
        rule=validate_attributes_class,
        update_rule=validate_attributes_class_update,
        has_status=False,
        returns_deleted=True,
        meta_steps="AU",
    ),
    row=plain_row("driverName"),
)
