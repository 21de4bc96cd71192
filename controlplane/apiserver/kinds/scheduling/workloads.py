"""Workloads. Upstream: pkg/registry/scheduling/workload, pkg/apis/scheduling/validation."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.checks import entries, named, problems
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.scheduling.pod_group_rules import (
    VERSION,
    Checked,
    immutable,
    long_name,
    repeated_names,
    short_name,
    validate_parts,
    without_disabled,
)
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.kinds.trees import filled, inside
from controlplane.apiserver.schema.field_errors import FieldError, required, too_many

__all__ = ["KIND"]

MAX_TEMPLATES = 8


def validate_spec(checked: Checked, path: str) -> list[FieldError]:
    """Return the errors of a workload's spec."""
    if checked.old is not None and checked.new == checked.old:
        return []
    errors: list[FieldError] = []
    if not checked.unchanged("controllerRef"):
        place = f"{path}.controllerRef"
        found = immutable(checked, place)
        controller = checked.new.get("controllerRef")
        errors += found or ([] if controller is None else _controller(controller, place))
    if not checked.unchanged("podGroupTemplates"):
        errors += _templates(checked, path)
    return errors


def _controller(controller: Tree, path: str) -> list[FieldError]:
    group = controller.get("apiGroup", "")
    errors = problems(f"{path}.apiGroup", group, long_name(group)) if group else []
    errors += named(controller, "kind", path, names.path_segment)
    return errors + named(controller, "name", path, names.path_segment)


def _templates(checked: Checked, path: str) -> list[FieldError]:
    place = f"{path}.podGroupTemplates"
    templates = checked.new.get("podGroupTemplates") or []
    errors = immutable(checked, place)
    if len(templates) > MAX_TEMPLATES:
        errors.append(too_many(place, len(templates), MAX_TEMPLATES))
    if not templates:
        errors.append(required(place))
    if errors:
        return errors
    errors = repeated_names(templates, place, VERSION + "PodGroupTemplate")
    for template, spot in entries(checked.new, "podGroupTemplates", path):
        errors += named(template, "name", spot, short_name)
        errors += validate_parts(Checked(template, None, checked.gates, False), spot, fixed=False)
    return errors


def _without_disabled(spec: Tree, old: Tree, gates: frozenset[str]) -> Tree:
    """Return a workload's spec without the fields of disabled gates; templates correspond by their position."""
    templates, before = spec.get("podGroupTemplates") or [], old.get("podGroupTemplates") or []
    if not templates:
        return spec
    kept = [
        filled(
            without_disabled(template, before[index] if index < len(before) else None, gates),
            {"schedulingConstraints": None},
        )
        for index, template in enumerate(templates)
    ]
    return {**spec, "podGroupTemplates": kept}


class WorkloadStrategy(Strategy):
    """Workloads: fields of disabled gates are dropped unless the stored workload uses them."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new workload without the fields of disabled gates."""
        tree = super().prepare_create(ctx, tree)
        return inside(tree, "spec", lambda spec: _without_disabled(spec, {}, ctx.gates))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update without the fields of disabled gates."""
        new, was = super().prepare_update(ctx, new, old), old.get("spec") or {}
        return inside(new, "spec", lambda spec: _without_disabled(spec, was, ctx.gates))

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new workload."""
        return validate_spec(Checked(tree.get("spec") or {}, None, ctx.gates, False), "spec")

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update."""
        spec, was = new.get("spec") or {}, old.get("spec") or {}
        return validate_spec(Checked(spec, was, ctx.gates, True), "spec")


KIND = Kind(strategy=WorkloadStrategy(returns_deleted=True, has_status=False), row=plain_row())
