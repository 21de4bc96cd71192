"""DeviceClasses, and selectors of devices. Upstream: pkg/registry/resource/deviceclass, pkg/apis/resource."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.checks import entries
from controlplane.apiserver.kinds.core.resources import is_extended
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.resource.device_expressions import (
    COST_LIMIT,
    INVALID,
    CompileError,
    device_selector,
)
from controlplane.apiserver.kinds.resource.parts import configuration, limited
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    internal,
    invalid,
    required,
    too_long,
)

__all__ = ["KIND", "validate_selectors"]

MAX_EXPRESSION = 10 * 1024


def validate_selectors(owner: Tree, path: str) -> list[FieldError]:
    """Return the errors of selectors of devices."""
    errors = limited(owner, "selectors", path)
    if errors:
        return errors
    for selector, spot in entries(owner, "selectors", path):
        cel = selector.get("cel")
        if cel is None:
            errors.append(required(f"{spot}.cel"))
            continue
        source = cel.get("expression", "")
        if len(source) > MAX_EXPRESSION:
            errors.append(too_long(f"{spot}.cel.expression", MAX_EXPRESSION))
            continue
        try:
            cost = device_selector(source).max_cost
        except CompileError as error:
            expression = f"{spot}.cel.expression"
            wrong = error.kind == INVALID
            text = str(error)
            errors.append(
                invalid(expression, source, text) if wrong else internal(expression, text)
            )
            continue
        if cost > COST_LIMIT:
            errors.append(forbidden(f"{spot}.cel.expression", "too complex, exceeds cost limit"))
    return errors


def validate_device_class(tree: Tree) -> list[FieldError]:
    """Return the errors of a DeviceClass."""
    spec = tree.get("spec") or {}
    errors = validate_selectors(spec, "spec")
    crowded = limited(spec, "config", "spec")
    errors += crowded
    if not crowded:
        for config, path in entries(spec, "config", "spec"):
            errors += configuration(config, path)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        text = "must be a valid extended resource name"
        errors.append(invalid("spec.extendedResourceName", name, text))
    return errors


KIND = Kind(
    strategy=Strategy(
        rule=validate_device_class,
        checks_prefix=False,
        returns_deleted=True,
        has_status=False,
        generation=True,
        meta_steps="AU",
    ),
    row=plain_row(),
)
