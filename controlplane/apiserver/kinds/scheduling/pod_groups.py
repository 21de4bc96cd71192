"""PodGroups. Upstream: pkg/registry/scheduling/podgroup, pkg/apis/scheduling/validation."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import entries, named, problems
from controlplane.apiserver.kinds.conditions import validate_conditions
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.scheduling.pod_group_rules import (
    CLAIMS,
    MAX_CLAIMS,
    VERSION,
    Checked,
    immutable,
    long_name,
    one_member,
    repeated_names,
    short_name,
    validate_parts,
    without_disabled,
)
from controlplane.apiserver.kinds.strategy import Context, Strategy, without
from controlplane.apiserver.kinds.trees import inside
from controlplane.apiserver.schema.field_errors import FieldError, invalid, too_many

__all__ = ["KIND"]


def validate_spec(checked: Checked, path: str) -> list[FieldError]:
    """Return the errors of a group's spec."""
    if checked.old is not None and checked.new == checked.old:
        return []
    errors: list[FieldError] = []
    if not checked.unchanged("podGroupTemplateRef"):
        place = f"{path}.podGroupTemplateRef"
        found = immutable(checked, place)
        reference = checked.new.get("podGroupTemplateRef")
        errors += found or ([] if reference is None else _reference(reference, place))
    return errors + validate_parts(checked, path, fixed=True)


def _reference(reference: Tree, path: str) -> list[FieldError]:
    errors = one_member(reference, ("workload",), path)
    workload = reference.get("workload")
    if workload is None:
        return errors
    place = f"{path}.workload"
    errors += named(workload, "workloadName", place, long_name)
    return errors + named(workload, "podGroupTemplateName", place, short_name)


def validate_status(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a status update: conditions, and the claims that the group names."""
    status, was = new.get("status") or {}, old.get("status") or {}
    errors = validate_conditions(status.get("conditions"), "status.conditions")
    known = {claim.get("name", "") for claim in (new.get("spec") or {}).get("resourceClaims") or ()}
    text = "must match the name of an entry in `spec.resourceClaims`"
    for each, place in entries(status, "resourceClaimStatuses", "status"):
        if each.get("name", "") not in known:
            errors.append(invalid(f"{place}.name", each.get("name", ""), text))
    return errors + _claim_statuses(status, was)


def _claim_statuses(status: Tree, was: Tree) -> list[FieldError]:
    path = "status.resourceClaimStatuses"
    listed = status.get("resourceClaimStatuses") or []
    before = was.get("resourceClaimStatuses") or []
    if listed == before:
        return []
    if len(listed) > MAX_CLAIMS:
        return [too_many(path, len(listed), MAX_CLAIMS)]
    errors = repeated_names(listed, path, VERSION + "PodGroupResourceClaimStatus")
    earlier: dict[str, Tree] = {}
    for each in before:
        earlier.setdefault(each.get("name", ""), each)
    for each, place in entries(status, "resourceClaimStatuses", "status"):
        claim = each.get("resourceClaimName")
        match = earlier.get(each.get("name", ""))
        if claim is not None and (match is None or match.get("resourceClaimName") != claim):
            errors += problems(f"{place}.resourceClaimName", claim, long_name(claim))
    return errors


class PodGroupStrategy(Strategy):
    """Pod groups: fields of disabled gates are dropped unless the stored group uses them."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new group without status and without the fields of disabled gates."""
        tree = super().prepare_create(ctx, tree)
        return inside(tree, "spec", lambda spec: without_disabled(spec, None, ctx.gates))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update with the stored status and without the fields of disabled gates."""
        new, was = super().prepare_update(ctx, new, old), old.get("spec")
        return inside(new, "spec", lambda spec: without_disabled(spec, was, ctx.gates))

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new group."""
        return validate_spec(Checked(tree.get("spec") or {}, None, ctx.gates, False), "spec")

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update."""
        spec, was = new.get("spec") or {}, old.get("spec") or {}
        return validate_spec(Checked(spec, was, ctx.gates, True), "spec")

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update, without the claims of a group that may have none."""
        new = super().prepare_status_update(ctx, new, old)
        if CLAIMS in ctx.gates or (old.get("spec") or {}).get("resourceClaims"):
            return new
        return inside(new, "status", lambda status: without(status, "resourceClaimStatuses"))


def _state(tree: Tree) -> str:
    conditions = {
        each.get("type"): each for each in part_of(tree, "status").get("conditions") or ()
    }
    disrupted = conditions.get("DisruptionTarget")
    if disrupted is not None:
        return str(disrupted.get("reason", ""))
    scheduled = conditions.get("PodGroupScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


def _row(tree: Tree, now: int) -> list[Any]:
    spec = part_of(tree, "spec")
    policy = spec.get("schedulingPolicy") or {}
    reference = spec.get("podGroupTemplateRef")
    workload = "<none>"
    if reference is not None:
        workload = (reference.get("workload") or {}).get("workloadName", "")
    return [
        name_of(tree),
        "Basic" if policy.get("gang") is None else "Gang",
        workload,
        _state(tree),
        age_of(tree, now),
    ]


KIND = Kind(
    strategy=PodGroupStrategy(
        returns_deleted=True, status_rule=validate_status, status_keeps_meta=True
    ),
    row=_row,
)
