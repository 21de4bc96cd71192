"""Validation of limit ranges and resource quotas. Upstream: pkg/apis/core/validation."""

from __future__ import annotations

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.validation.resources import (
    STANDARD_QUOTA,
    is_extended,
    is_native,
    overcommit_allowed,
    validate_amount,
    validate_quota_name,
    validate_resource_name,
)
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)

__all__ = [
    "validate_limit_range",
    "validate_quota",
    "validate_quota_status",
    "validate_quota_update",
]


# -- limit ranges and quotas ---------------------------------------------------------------------


def validate_limit_range(tree: Tree) -> list[FieldError]:
    """A limit range."""
    errors: list[FieldError] = []
    kinds: dict[str, None] = {}
    for index, limit in enumerate((tree.get("spec") or {}).get("limits") or ()):
        errors += _limit(limit, kinds, f"spec.limits[{index}]")
    return errors


def _limit_name(kind: str, name: str, path: str) -> list[FieldError]:
    if kind in ("Pod", "Container"):
        errors = validate_resource_name(name, path)
        if "/" not in name and name not in ("cpu", "memory", "ephemeral-storage") and not (
            name.startswith("hugepages-")):  # fmt: skip
            errors.append(invalid(path, name, "must be a standard resource for containers"))
        elif "/" in name and not is_native(name) and not is_extended(name):
            errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
        return errors
    return validate_resource_name(name, path)


def _limit(limit: Tree, kinds: dict[str, None], path: str) -> list[FieldError]:
    kind = limit.get("type", "")
    problems = names.qualified_name(kind)
    errors = [invalid(f"{path}.type", kind, problem) for problem in problems]
    if not problems and "/" not in kind and kind not in (
        "Pod", "Container", "PersistentVolumeClaim"):  # fmt: skip
        errors.append(invalid(f"{path}.type", kind,
                              "must be a standard limit type or fully qualified"
                              ))  # fmt: skip
    if kind in kinds:
        errors.append(duplicate(f"{path}.type", kind))
    kinds[kind] = None
    parts = {key: limit.get(key) or {} for key in
             ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")}  # fmt: skip
    for key in ("max", "min"):
        for name in sorted(parts[key]):
            errors += _limit_name(kind, name, f"{path}.{key}[{name}]")
    if kind == "Pod":
        for key in ("default", "defaultRequest"):
            if parts[key]:
                errors.append(forbidden(f"{path}.{key}",
                                        "may not be specified when `type` is 'Pod'"
                                        ))  # fmt: skip
    else:
        for key in ("default", "defaultRequest"):
            for name in sorted(parts[key]):
                errors += _limit_name(kind, name, f"{path}.{key}[{name}]")
    if kind == "PersistentVolumeClaim":
        if "storage" not in parts["min"] and "storage" not in parts["max"]:
            errors.append(required(f"{path}.limits", (
                "either minimum or maximum storage value is required, but neither was provided"
            )))  # fmt: skip
    for name in sorted(parts["maxLimitRequestRatio"]):
        errors += _limit_name(kind, name, f"{path}.maxLimitRequestRatio[{name}]")
    keys = sorted({name for part in parts.values() for name in part})
    for name in keys:
        errors += _limit_order(name, parts, path)
    return errors


def _limit_order(name: str, parts: dict[str, Tree], path: str) -> list[FieldError]:
    """Minimum, default request, default and maximum do not cross."""
    errors: list[FieldError] = []
    text = {key: part.get(name) for key, part in parts.items()}
    amount = {key: None if value is None else quantity.parse(value) for key, value in text.items()}

    def above(a: str, b: str) -> bool:
        left, right = amount[a], amount[b]
        return left is not None and right is not None and left.cmp(right) > 0

    if above("min", "max"):
        errors.append(invalid(f"{path}.min[{name}]", text["min"],
                              f"min value {text['min']} is greater than max value {text['max']}"
                              ))  # fmt: skip
    if above("min", "defaultRequest"):
        errors.append(invalid(
            f"{path}.defaultRequest[{name}]", text["defaultRequest"],
            f"min value {text['min']} is greater than default request value "
            f"{text['defaultRequest']}",
        ))  # fmt: skip
    if above("defaultRequest", "max"):
        errors.append(invalid(
            f"{path}.defaultRequest[{name}]", text["defaultRequest"],
            f"default request value {text['defaultRequest']} is greater than max value "
            f"{text['max']}",
        ))  # fmt: skip
    if above("defaultRequest", "default"):
        errors.append(invalid(
            f"{path}.defaultRequest[{name}]", text["defaultRequest"],
            f"default request value {text['defaultRequest']} is greater than default limit value "
            f"{text['default']}",
        ))  # fmt: skip
    if above("min", "default"):
        errors.append(invalid(
            f"{path}.default[{name}]", text["min"],
            f"min value {text['min']} is greater than default value {text['default']}",
        ))  # fmt: skip
    if above("default", "max"):
        errors.append(invalid(
            f"{path}.default[{name}]", text["max"],
            f"default value {text['default']} is greater than max value {text['max']}",
        ))  # fmt: skip
    ratio = amount["maxLimitRequestRatio"]
    if ratio is not None and ratio.cmp(quantity.parse("1")) < 0:
        errors.append(invalid(f"{path}.maxLimitRequestRatio[{name}]", text["maxLimitRequestRatio"],
                              f"ratio {text['maxLimitRequestRatio']} is less than 1"
                              ))  # fmt: skip
    if not overcommit_allowed(name) and amount["default"] is not None and (
        amount["defaultRequest"] is not None
        and amount["default"].cmp(amount["defaultRequest"]) != 0
    ):  # fmt: skip
        errors.append(invalid(
            f"{path}.defaultRequest[{name}]", text["defaultRequest"],
            f"default value {text['default']} must equal to defaultRequest value "
            f"{text['defaultRequest']} in {name}",
        ))  # fmt: skip
    return errors


_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass",
           "CrossNamespacePodAffinity", "VolumeAttributesClass")  # fmt: skip

_POD_COUNTED = ("pods",)
_COMPUTE = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory",
            "pods", "ephemeral-storage", "requests.ephemeral-storage",
            "limits.ephemeral-storage")  # fmt: skip


def _scope_fits(scope: str, name: str) -> bool:
    if scope == "BestEffort":
        return name in _POD_COUNTED
    if scope == "VolumeAttributesClass":
        return name in ("requests.storage", "persistentvolumeclaims")
    if scope in ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass"):
        return name in _COMPUTE or (name.startswith(("requests.", "hugepages-")) and (
            name != "requests.storage"))  # fmt: skip
    if scope == "CrossNamespacePodAffinity":
        return name in _POD_COUNTED or name in _COMPUTE
    return True


def validate_quota(tree: Tree) -> list[FieldError]:
    """A resource quota."""
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
                if not _scope_fits(scope, name):
                    errors.append(invalid(place, scopes, "unsupported scope applied to resource"))
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if all(scope in scopes for scope in pair):
            errors.append(invalid(place, scopes, "conflicting scopes"))
    return errors


def _scope_selector(spec: Tree, path: str) -> list[FieldError]:
    selector = spec.get("scopeSelector")
    if not selector:
        return []
    place = f"{path}.scopeSelector.matchExpressions"
    expressions = selector.get("matchExpressions") or []
    shown = {"MatchExpressions": [
        {"ScopeName": e.get("scopeName", ""), "Operator": e.get("operator", ""),
         "Values": e.get("values")} for e in expressions
    ]}  # fmt: skip
    errors: list[FieldError] = []
    names_seen = frozenset(e.get("scopeName", "") for e in expressions)
    limited = [name for name in sorted(spec.get("hard") or {}) if name in STANDARD_QUOTA]
    for expression in expressions:
        scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
        if scope not in _SCOPES:
            errors.append(invalid(f"{place}.scopeName", scope, "unsupported scope"))
        else:
            for name in limited:
                if not _scope_fits(scope, name):
                    errors.append(invalid(place, shown, "unsupported scope applied to resource"))
        if scope in ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating",
                     "CrossNamespacePodAffinity") and operator != "Exists":  # fmt: skip
            errors.append(invalid(f"{place}.operator", operator, (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            )))  # fmt: skip
        values = expression.get("values") or []
        if operator in {"In", "NotIn"}:
            if not values:
                errors.append(required(f"{place}.values", (
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope "
                    "selector"
                )))  # fmt: skip
        elif operator in {"Exists", "DoesNotExist"}:
            if values:
                errors.append(invalid(f"{place}.values", values, (
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope "
                    "selector"
                )))  # fmt: skip
        else:
            errors.append(invalid(f"{place}.operator", operator, "not a valid selector operator"))
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if all(scope in names_seen for scope in pair):
            errors.append(invalid(f"{path}.scopeSelector.matchExpressions", shown,
                                  "conflicting scopes"))  # fmt: skip
    return errors


def validate_quota_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed quota; its scopes stay."""
    errors = validate_quota(new)
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    if frozenset(spec.get("scopes") or ()) != frozenset(was.get("scopes") or ()):
        errors.append(invalid("spec.scopes", spec.get("scopes"), "field is immutable"))
    return errors


def validate_quota_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Return the errors of a quota's status."""
    state = new.get("status") or {}
    errors = _hard(state.get("hard") or {}, "status.hard")
    return errors + _hard(state.get("used") or {}, "status.used")
