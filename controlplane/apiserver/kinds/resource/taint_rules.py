"""DeviceTaintRules. Upstream: pkg/registry/resource/devicetaintrule, pkg/apis/resource/validation."""

from __future__ import annotations

from typing import Any

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age, age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import at_most, problems
from controlplane.apiserver.kinds.conditions import validate_conditions
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.resource.parts import (
    driver_name,
    pool_name,
    tainted_now,
    validate_taint,
)
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.kinds.trees import inside
from controlplane.apiserver.schema.field_errors import FieldError

__all__ = ["KIND"]

MAX_CONDITIONS = 8


def _validate(spec: Tree, was: Tree | None) -> list[FieldError]:
    selector, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
    errors: list[FieldError] = []
    if selector.get("driver") is not None:
        errors += driver_name(selector["driver"], f"{path}.driver")
    if selector.get("pool") is not None:
        errors += pool_name(selector["pool"], f"{path}.pool")
    device = selector.get("device")
    if device is not None:
        errors += problems(f"{path}.device", device, names.dns_label(device))
    before = None if was is None else was.get("taint") or {}
    return errors + validate_taint(spec.get("taint") or {}, before, "spec.taint")


def validate_taint_rule(tree: Tree) -> list[FieldError]:
    """Return the errors of a new rule."""
    return _validate(tree.get("spec") or {}, None)


def validate_taint_rule_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed rule; the effect of its taint is validated when it changes."""
    return _validate(new.get("spec") or {}, old.get("spec") or {})


def validate_taint_rule_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Return the errors of a status update."""
    conditions, path = (new.get("status") or {}).get("conditions"), "status.conditions"
    return validate_conditions(conditions, path) + at_most(conditions, path, MAX_CONDITIONS)


class TaintRuleStrategy(Strategy):
    """Taint rules: a taint says since when it holds, anew when its effect changes."""

    def timed(self, ctx: Context, tree: Tree) -> Tree:
        """Return a rule whose taint has a time. Defaulting that depends on the clock."""

        def spec(spec: Tree) -> Tree:
            return inside(spec, "taint", lambda taint: tainted_now(ctx, taint))

        return inside(tree, "spec", spec)

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new rule whose taint has a time."""
        return super().prepare_create(ctx, self.timed(ctx, tree))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update; a taint with another effect and the same time begins now."""
        new = self.timed(ctx, new)
        taint, was = ((part.get("spec") or {}).get("taint") or {} for part in (new, old))
        if taint.get("effect") != was.get("effect") and (
            taint.get("timeAdded") == was.get("timeAdded")
        ):
            now = {**taint, "timeAdded": format_time(ctx.now)}
            new = inside(new, "spec", lambda spec: {**spec, "taint": now})
        return super().prepare_update(ctx, new, old)


def _row(tree: Tree, now: int) -> list[Any]:
    taint = part_of(tree, "spec").get("taint") or {}
    added = taint.get("timeAdded")
    return [
        name_of(tree),
        taint.get("key", ""),
        taint.get("value", ""),
        taint.get("effect", ""),
        age(added, now) if added else "",
        age_of(tree, now),
    ]


KIND = Kind(
    strategy=TaintRuleStrategy(
        timed_defaults=True,
        rule=validate_taint_rule,
        update_rule=validate_taint_rule_update,
        status_rule=validate_taint_rule_status,
        returns_deleted=True,
        generation=True,
        status_keeps_meta=True,
    ),
    row=_row,
)
