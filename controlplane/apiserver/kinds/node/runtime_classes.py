"""RuntimeClasses. Upstream: pkg/registry/node/runtimeclass, pkg/apis/node."""

from __future__ import annotations

from controlplane.api.equality import Seen
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.checks import immutable, name_at
from controlplane.apiserver.kinds.core.pods.placement import toleration_shown, validate_tolerations
from controlplane.apiserver.kinds.core.resources import validate_requirements
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.metadata import validate_labels
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import FieldError, duplicate

__all__ = ["KIND"]


_LIST_KEYS = ("key", "operator", "value", "effect")
"""The fields of a toleration that tell one from another."""


def validate_runtime_class(tree: Tree) -> list[FieldError]:
    """Return the errors of a runtime class."""
    handler = tree.get("handler", "")
    errors = name_at(handler, "handler", names.dns_label)
    overhead = tree.get("overhead")
    if overhead is not None:
        errors += validate_requirements({"limits": overhead.get("podFixed") or {}}, "overhead")
    scheduling = tree.get("scheduling")
    if scheduling is not None:
        errors += validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or []
        seen = Seen()
        for index, toleration in enumerate(tolerations):
            errors += validate_tolerations([toleration], "scheduling.tolerations", index)
        for index, toleration in enumerate(tolerations):
            if seen.again([toleration.get(key, "") for key in _LIST_KEYS]):
                shown = toleration_shown(toleration)
                errors.append(duplicate(f"scheduling.tolerations[{index}]", shown))
    return errors


def validate_runtime_class_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed runtime class; its handler stays."""
    return validate_runtime_class(new) + immutable(
        new.get("handler"), old.get("handler"), "handler"
    )


KIND = Kind(
    strategy=Strategy(
        rule=validate_runtime_class,
        update_rule=validate_runtime_class_update,
        has_status=False,
        create_on_update=True,
        unconditional_update=False,
        meta_steps="AU",
        standard_finalizers=False,
    ),
    row=plain_row("handler"),
)
