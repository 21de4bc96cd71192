"""Validation of ResourceFlavors. Follows `pkg/webhooks/resourceflavor_webhook.go`."""

from __future__ import annotations

from attrs import evolve

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import entries
from controlplane.apiserver.kinds.metadata import validate_labels
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.schema.field_errors import FieldError, duplicate, invalid
from controlplane.kueue.values import ordered

__all__ = ["tolerations", "validate_resource_flavor"]


def validate_resource_flavor(flavor: Tree) -> list[FieldError]:
    """Return the errors of a ResourceFlavor."""
    spec = flavor.get("spec") or EMPTY_MAP
    errors = validate_labels(spec.get("nodeLabels") or {}, "spec.nodeLabels")
    seen: dict[tuple[str, str], None] = {}
    for taint, path in entries(spec, "nodeTaints", "spec"):
        key, value = taint.get("key", ""), taint.get("value", "")
        errors += label_name(key, f"{path}.key")
        if texts := names.label_value(value):
            errors.append(invalid(f"{path}.value", value, ";".join(texts)))
        identity = (taint.get("effect", ""), key)
        if identity in seen:
            text = "taints must be unique by key and effect pair"
            errors.append(evolve(duplicate(path, ordered({"key": key, **taint})), detail=text))
        seen[identity] = None
    return errors + tolerations(spec, "spec")


def tolerations(tree: Tree, path: str) -> list[FieldError]:
    """Return the errors of the keys of tolerations."""
    errors: list[FieldError] = []
    for toleration, at in entries(tree, "tolerations", path):
        if key := toleration.get("key"):
            errors += label_name(key, f"{at}.key")
    return errors
