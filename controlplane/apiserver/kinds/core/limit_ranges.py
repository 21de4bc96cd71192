"""LimitRanges. Upstream: pkg/registry/core/limitrange, pkg/apis/core/validation."""

from __future__ import annotations

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import when
from controlplane.apiserver.kinds.core.resources import (
    is_extended,
    is_native,
    overcommit_allowed,
    resource_list,
    validate_resource_name,
)
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.trees import each, in_spec, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)

__all__ = ["KIND"]


def default_limit_range(tree: Tree) -> Tree:
    """For containers, default limits follow the maximum and default requests the rest."""

    def item(item: Tree) -> Tree:
        for key in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"):
            item = inside(item, key, resource_list)
        if item.get("type") != "Container":
            return item
        limits = {**item.get("max", {}), **item.get("default", {})}
        requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        new = dict(item)
        if limits:
            new["default"] = limits
        if requests:
            new["defaultRequest"] = requests
        return new

    return in_spec(tree, lambda spec: each(spec, "limits", item))


def validate_limit_range(tree: Tree) -> list[FieldError]:
    """Return the errors of a limit range."""
    errors: list[FieldError] = []
    kinds: dict[str, None] = {}
    for index, limit in enumerate((tree.get("spec") or {}).get("limits") or ()):
        errors += _limit(limit, kinds, f"spec.limits[{index}]")
    return errors


def _limit_name(kind: str, name: str, path: str) -> list[FieldError]:
    if kind in ("Pod", "Container"):
        errors = validate_resource_name(name, path)
        if (
            "/" not in name
            and name not in ("cpu", "memory", "ephemeral-storage")
            and not (name.startswith("hugepages-"))
        ):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
        elif "/" in name and not is_native(name) and not is_extended(name):
            errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
        return errors
    return validate_resource_name(name, path)


def _limit(limit: Tree, kinds: dict[str, None], path: str) -> list[FieldError]:
    kind = limit.get("type", "")
    problems = names.qualified_name(kind)
    errors = [invalid(f"{path}.type", kind, problem) for problem in problems]
    errors += when(
        not problems
        and "/" not in kind
        and kind not in ("Pod", "Container", "PersistentVolumeClaim"),
        invalid,
        f"{path}.type",
        kind,
        "must be a standard limit type or fully qualified",
    )
    errors += when(kind in kinds, duplicate, f"{path}.type", kind)
    kinds[kind] = None
    parts = {
        key: limit.get(key) or {}
        for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    }
    for key in ("max", "min"):
        for name in sorted(parts[key]):
            errors += _limit_name(kind, name, f"{path}.{key}[{name}]")
    if kind == "Pod":
        for key in ("default", "defaultRequest"):
            errors += when(
                parts[key], forbidden, f"{path}.{key}", "may not be specified when `type` is 'Pod'"
            )
    else:
        for key in ("default", "defaultRequest"):
            for name in sorted(parts[key]):
                errors += _limit_name(kind, name, f"{path}.{key}[{name}]")
    if kind == "PersistentVolumeClaim":
        errors += when(
            "storage" not in parts["min"] and "storage" not in parts["max"],
            required,
            f"{path}.limits",
            "either minimum or maximum storage value is required, but neither was provided",
        )
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
        errors.append(
            invalid(
                f"{path}.min[{name}]",
                text["min"],
                f"min value {text['min']} is greater than max value {text['max']}",
            )
        )
    if above("min", "defaultRequest"):
        errors.append(
            invalid(
                f"{path}.defaultRequest[{name}]",
                text["defaultRequest"],
                f"min value {text['min']} is greater than default request value "
                f"{text['defaultRequest']}",
            )
        )
    if above("defaultRequest", "max"):
        errors.append(
            invalid(
                f"{path}.defaultRequest[{name}]",
                text["defaultRequest"],
                f"default request value {text['defaultRequest']} is greater than max value "
                f"{text['max']}",
            )
        )
    if above("defaultRequest", "default"):
        errors.append(
            invalid(
                f"{path}.defaultRequest[{name}]",
                text["defaultRequest"],
                f"default request value {text['defaultRequest']} is greater than default limit value "
                f"{text['default']}",
            )
        )
    if above("min", "default"):
        errors.append(
            invalid(
                f"{path}.default[{name}]",
                text["min"],
                f"min value {text['min']} is greater than default value {text['default']}",
            )
        )
    if above("default", "max"):
        errors.append(
            invalid(
                f"{path}.default[{name}]",
                text["max"],
                f"default value {text['default']} is greater than max value {text['max']}",
            )
        )
    ratio = amount["maxLimitRequestRatio"]
    if ratio is not None and ratio.cmp(quantity.parse("1")) < 0:
        errors.append(
            invalid(
                f"{path}.maxLimitRequestRatio[{name}]",
                text["maxLimitRequestRatio"],
                f"ratio {text['maxLimitRequestRatio']} is less than 1",
            )
        )
    if (
        not overcommit_allowed(name)
        and amount["default"] is not None
        and (
            amount["defaultRequest"] is not None
            and amount["default"].cmp(amount["defaultRequest"]) != 0
        )
    ):
        errors.append(
            invalid(
                f"{path}.defaultRequest[{name}]",
                text["defaultRequest"],
                f"default value {text['default']} must equal to defaultRequest value "
                f"{text['defaultRequest']} in {name}",
            )
        )
    return errors


KIND = Kind(
    strategy=Strategy(
        default=default_limit_range,
        rule=validate_limit_range,
        has_status=False,
        create_on_update=True,
        named_by_uid=True,
        meta_steps="A",
    )
)
