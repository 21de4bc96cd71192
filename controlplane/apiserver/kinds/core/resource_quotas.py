"""ResourceQuotas. Upstream: pkg/registry/core/resourcequota, pkg/apis/core/validation."""

from __future__ import annotations

from typing import Any

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import when
from controlplane.apiserver.kinds.core.resources import (
    STANDARD_QUOTA,
    resource_list,
    validate_amount,
    validate_quota_name,
)
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.kinds.trees import in_spec, inside
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required

__all__ = ["KIND"]


def default_quota(tree: Tree) -> Tree:
    """Amounts are rounded."""
    tree = in_spec(tree, lambda spec: inside(spec, "hard", resource_list))
    return inside(
        tree, "status", lambda s: inside(inside(s, "hard", resource_list), "used", resource_list)
    )


_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)


_POD_COUNTED = ("pods",)
_COMPUTE = (
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
    "pods",
    "ephemeral-storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
)


def _scope_fits(scope: str, name: str) -> bool:
    if scope == "BestEffort":
        return name in _POD_COUNTED
    if scope == "VolumeAttributesClass":
        return name in ("requests.storage", "persistentvolumeclaims")
    if scope in ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass"):
        return name in _COMPUTE or (
            name.startswith(("requests.", "hugepages-")) and (name != "requests.storage")
        )
    if scope == "CrossNamespacePodAffinity":
        return name in _POD_COUNTED or name in _COMPUTE
    return True


def validate_quota(tree: Tree) -> list[FieldError]:
    """Return the errors of a resource quota."""
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    errors = _hard(spec.get("hard") or {}, "spec.hard")
    errors += _scopes(spec, "spec")
    errors += _scope_selector(spec, "spec")
    errors += _hard(status.get("hard") or {}, "status.hard")
    return errors + _hard(status.get("used") or {}, "status.used")


def _hard(hard: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in sorted(hard):
        errors += validate_quota_name(name, f"{path}[{name}]")
        errors += validate_amount(name, hard[name], f"{path}[{name}]")
    return errors


def _scopes(spec: Tree, path: str) -> list[FieldError]:
    scopes = spec.get("scopes") or []
    place = f"{path}.scopes"
    errors: list[FieldError] = []
    limited = [name for name in sorted(spec.get("hard") or {}) if name in STANDARD_QUOTA]
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid(place, scopes, "unsupported scope"))
        else:
            for name in limited:
                text = "unsupported scope applied to resource"
                errors += when(not _scope_fits(scope, name), invalid, place, scopes, text)
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        errors += when(
            all(scope in scopes for scope in pair), invalid, place, scopes, "conflicting scopes"
        )
    return errors


def _scope_selector(spec: Tree, path: str) -> list[FieldError]:
    selector = spec.get("scopeSelector")
    if not selector:
        return []
    place = f"{path}.scopeSelector.matchExpressions"
    expressions = selector.get("matchExpressions") or []
    shown = {
        "MatchExpressions": [
            {
                "ScopeName": e.get("scopeName", ""),
                "Operator": e.get("operator", ""),
                "Values": e.get("values"),
            }
            for e in expressions
        ]
    }
    errors: list[FieldError] = []
    names_seen = frozenset(e.get("scopeName", "") for e in expressions)
    limited = [name for name in sorted(spec.get("hard") or {}) if name in STANDARD_QUOTA]
    for expression in expressions:
        scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
        if scope not in _SCOPES:
            errors.append(invalid(f"{place}.scopeName", scope, "unsupported scope"))
        else:
            for name in limited:
                text = "unsupported scope applied to resource"
                errors += when(not _scope_fits(scope, name), invalid, place, shown, text)
        errors += when(
            scope
            in (
                "BestEffort",
                "NotBestEffort",
                "Terminating",
                "NotTerminating",
                "CrossNamespacePodAffinity",
            )
            and operator != "Exists",
            invalid,
            f"{place}.operator",
            operator,
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
            "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
            "ResourceQuotaScopeNotBestEffort or "
            "ResourceQuotaScopeCrossNamespacePodAffinity",
        )
        values = expression.get("values") or []
        if operator in {"In", "NotIn"}:
            errors += when(
                not values,
                required,
                f"{place}.values",
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )
        elif operator in {"Exists", "DoesNotExist"}:
            errors += when(
                values,
                invalid,
                f"{place}.values",
                values,
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )
        else:
            errors.append(invalid(f"{place}.operator", operator, "not a valid selector operator"))
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        errors += when(
            all(scope in names_seen for scope in pair),
            invalid,
            f"{path}.scopeSelector.matchExpressions",
            shown,
            "conflicting scopes",
        )
    return errors


def validate_quota_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed quota; its scopes stay."""
    errors = validate_quota(new)
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors += when(
        frozenset(spec.get("scopes") or ()) != frozenset(was.get("scopes") or ()),
        invalid,
        "spec.scopes",
        spec.get("scopes"),
        "field is immutable",
    )
    return errors


def validate_quota_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Return the errors of a quota's status."""
    state = new.get("status") or {}
    errors = _hard(state.get("hard") or {}, "status.hard")
    return errors + _hard(state.get("used") or {}, "status.used")


_LIMITED = ("cpu", "memory", "storage", "ephemeral-storage")


def _warnings(tree: Tree) -> list[str]:
    """Return the warnings of a new quota: requests above the limits of the same resource."""
    hard = (tree.get("spec") or {}).get("hard") or {}
    found = []
    for resource in _LIMITED:
        request, limit = f"requests.{resource}", f"limits.{resource}"
        if request not in hard and resource in ("cpu", "memory"):
            request = resource
        if request not in hard or limit not in hard:
            continue
        if quantity.parse(hard[request]).cmp(quantity.parse(hard[limit])) > 0:
            found.append(
                f"ResourceQuota {request} ({hard[request]}) should be less than "
                f"{limit} ({hard[limit]})"
            )
    return found


class QuotaStrategy(Strategy):
    """Quotas; a refusal shows scopes that were written without items as such."""

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        if ctx.written("spec", "scopes") == []:
            new = {**new, "spec": {**new["spec"], "scopes": []}}
        return super().validate_update(ctx, new, old)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """Return the warnings of a new quota; an update has none."""
        return _warnings(tree) if old is None else []


def _row(tree: Tree, now: int) -> list[Any]:
    state = part_of(tree, "status")
    hard, used = state.get("hard") or {}, state.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [name_of(tree), ", ".join(requests), ", ".join(limits), age_of(tree, now)]


KIND = Kind(
    strategy=QuotaStrategy(
        default=default_quota,
        rule=validate_quota,
        update_rule=validate_quota_update,
        status_rule=validate_quota_status,
        returns_deleted=True,
    ),
    row=_row,
)
