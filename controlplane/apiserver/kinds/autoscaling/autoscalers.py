"""HorizontalPodAutoscalers. Upstream: pkg/registry/autoscaling, pkg/apis/autoscaling."""

from __future__ import annotations

from typing import Any

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import (
    name_at,
    non_negative_field,
    optional_one_of,
    present,
    problems,
    when,
)
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy, with_status
from controlplane.apiserver.kinds.trees import filled, inside, with_spec
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = ["KIND"]

_SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}


_SCALE_DOWN = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def default_autoscaler(tree: Tree) -> Tree:
    """Minimum, metrics and behaviour of a horizontal pod autoscaler."""

    def rules(given: Tree | None, defaults: Tree) -> Tree:
        given = given or {}
        merged = filled(given, defaults)
        return {**merged, "policies": defaults["policies"]} if not given.get("policies") else merged

    def behavior(given: Tree) -> Tree:
        return {
            **given,
            "scaleUp": rules(given.get("scaleUp"), _SCALE_UP),
            "scaleDown": rules(given.get("scaleDown"), _SCALE_DOWN),
        }

    def spec(spec: Tree) -> Tree:
        spec = filled(spec, {"minReplicas": 1})
        if not spec.get("metrics"):
            spec = {**spec, "metrics": [_CPU]}
        return inside(spec, "behavior", behavior)

    return with_spec(tree, spec)


_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


_TARGETS = ("Utilization", "Value", "AverageValue")


def validate_autoscaler_status(tree: Tree) -> list[FieldError]:
    """Return the errors of the status of a horizontal pod autoscaler."""
    errors: list[FieldError] = []
    for key in ("currentReplicas", "desiredReplicas"):
        errors += non_negative_field(tree.get("status") or {}, key, "status")
    return errors


def validate_autoscaler(tree: Tree) -> list[FieldError]:
    """Return the errors of a horizontal pod autoscaler."""
    spec = tree.get("spec") or {}
    low, high = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    errors = when(
        low is not None and low < 1,
        invalid,
        "spec.minReplicas",
        low,
        "must be greater than or equal to 1",
    )
    if high < 0:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to 1"))
    elif high < 1:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    text = "must be greater than or equal to `minReplicas`"
    errors += when(low is not None and high < low, invalid, "spec.maxReplicas", high, text)
    target = spec.get("scaleTargetRef") or {}
    grouped = target.get("kind") not in _CORE_SCALED
    errors += _reference(target, "spec.scaleTargetRef", grouped=grouped)
    errors += _metrics(spec.get("metrics") or [], "spec.metrics", low)
    behavior = spec.get("behavior")
    if behavior is not None:
        for key in ("scaleUp", "scaleDown"):
            if behavior.get(key) is not None:
                errors += _rules(behavior[key], f"spec.behavior.{key}")
    return errors


_CORE_SCALED = ("ReplicationController",)
"""The kinds with a scale in the core group."""


def _reference(ref: Tree, path: str, *, grouped: bool) -> list[FieldError]:
    """Return the errors of a scaled or measured object; `grouped` when its version must name a group."""
    errors: list[FieldError] = []
    for key in ("kind", "name"):
        value = ref.get(key, "")
        errors += name_at(value, f"{path}.{key}", names.path_segment)
    version = ref.get("apiVersion", "")
    if version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        errors.append(invalid(f"{path}.apiVersion", version, text))
    elif grouped and not version.rpartition("/")[0]:
        errors.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))
    return errors


def _metrics(metrics: list[Tree], path: str, low: int | None) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, metric in enumerate(metrics):
        errors += _metric(metric, f"{path}[{index}]")
    errors += when(
        low == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics),
        forbidden,
        path,
        "must specify at least one Object or External metric to support scaling to zero replicas",
    )
    return errors


def _metric(metric: Tree, path: str) -> list[FieldError]:
    kind = metric.get("type", "")
    errors = when(not kind, required, f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        errors += [not_supported(f"{path}.type", kind, _SOURCES)] * 2  # upstream says it twice
    present = [key for key in _SOURCES.values() if metric.get(key) is not None]
    for key in present[:1]:
        errors += _source(key, metric[key], f"{path}.{key}")
    expected = _SOURCES.get(kind)
    text = "must populate information for the given metric source"
    errors += when(
        expected is not None and expected not in present, required, f"{path}.{expected}", text
    )
    if len(present) != 1:
        for key in present:
            text = "must populate the given metric source only"
            errors += when(key != expected, forbidden, f"{path}.{key}", text)
    return errors


def _source(key: str, source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    target = source.get("target") or {}
    if key in {"resource", "containerResource"}:
        errors += present(source, "name", path, "must specify a resource name")
        container = source.get("container", "")
        if key == "containerResource" and not container:
            errors.append(required(f"{path}.container", "must specify a container"))
        elif key == "containerResource":
            texts = names.dns_label(container)
            errors += problems(f"{path}.container", container, texts)
        errors += _target(target, f"{path}.target")
        errors += when(
            target.get("averageUtilization") is None and target.get("averageValue") is None,
            required,
            f"{path}.target.averageUtilization",
            "must set either a target raw value or a target utilization",
        )
        errors += when(
            target.get("averageUtilization") is not None and target.get("averageValue") is not None,
            forbidden,
            f"{path}.target.averageValue",
            "may not set both a target raw value and a target utilization",
        )
        return errors
    errors += _identifier(source.get("metric") or {}, f"{path}.metric")
    errors += _target(target, f"{path}.target")
    if key == "object":
        thing = source.get("describedObject") or {}
        errors = _reference(thing, f"{path}.describedObject", grouped=False) + errors
    if key == "pods" and target.get("averageValue") is None:
        problem = "must specify a positive target averageValue"
        errors.append(required(f"{path}.target.averageValue", problem))
    elif key != "pods" and target.get("value") is None and target.get("averageValue") is None:
        errors.append(
            required(
                f"{path}.target.averageValue",
                (
                    "must set either a target value or averageValue"
                    if key == "object"
                    else "must set either a target value for metric or a per-pod target"
                ),
            )
        )
    elif key == "external" and target.get("value") and target.get("averageValue"):
        text = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{path}.target.value", text))
    return errors


def _identifier(metric: Tree, path: str) -> list[FieldError]:
    name = metric.get("name", "")
    return name_at(name, f"{path}.name", names.path_segment, detail="must specify a metric name")


def _target(target: Tree, path: str) -> list[FieldError]:
    kind = target.get("type", "")
    errors = when(not kind, required, f"{path}.type", "must specify a metric target type")
    problem = "must be either Utilization, Value, or AverageValue"
    errors += when(kind not in _TARGETS, invalid, f"{path}.type", kind, problem)
    for key in ("value", "averageValue"):
        text = target.get(key)
        errors += when(
            text is not None and quantity.parse(text).sign() != 1,
            invalid,
            f"{path}.{key}",
            text,
            "must be positive",
        )
    utilization = target.get("averageUtilization")
    errors += when(
        utilization is not None and utilization < 1,
        invalid,
        f"{path}.averageUtilization",
        utilization,
        "must be greater than 0",
    )
    return errors


_SELECT = ("Disabled", "Max", "Min")
_POLICY_TYPES = ("Percent", "Pods")


def _rules(rules: Tree, path: str) -> list[FieldError]:
    window = rules.get("stabilizationWindowSeconds")
    errors = when(
        window is not None and window < 0,
        invalid,
        f"{path}.stabilizationWindowSeconds",
        window,
        "must be greater than or equal to zero",
    )
    errors += when(
        window is not None and window > 3600,
        invalid,
        f"{path}.stabilizationWindowSeconds",
        window,
        "must be less than or equal to 3600",
    )
    choice = rules.get("selectPolicy")
    errors += optional_one_of(choice, f"{path}.selectPolicy", _SELECT)
    policies = rules.get("policies") or []
    errors += when(not policies, required, f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        place = f"{path}.policies[{index}]"
        errors += when(
            policy.get("type") not in _POLICY_TYPES,
            not_supported,
            f"{place}.type",
            policy.get("type", ""),
            _POLICY_TYPES,
        )
        text = "must be greater than zero"
        errors += when(
            policy.get("value", 0) <= 0, invalid, f"{place}.value", policy.get("value", 0), text
        )
        period = policy.get("periodSeconds", 0)
        errors += when(
            period <= 0, invalid, f"{place}.periodSeconds", period, "must be greater than zero"
        )
        text = "must be less than or equal to 1800"
        errors += when(period > 1800, invalid, f"{place}.periodSeconds", period, text)
    tolerance = rules.get("tolerance")
    errors += when(
        tolerance is not None and quantity.parse(tolerance).sign() < 0,
        invalid,
        f"{path}.tolerance",
        tolerance,
        "must be greater than or equal to 0",
    )
    return errors


class AutoscalerStrategy(Strategy):
    """Horizontal pod autoscalers."""

    def defaults(self, tree: Tree, old: Tree | None) -> Tree:
        """The defaults of this kind."""
        if old is not None and tree.get("spec") is old.get("spec"):
            return tree
        return super().defaults(tree, old)

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        errors = super().validate(ctx, tree)
        for key in ("scaleUp", "scaleDown"):
            if ctx.written("spec", "behavior", key, "policies") == []:
                path = f"spec.behavior.{key}.policies"
                errors.append(required(path, "must specify at least one Policy"))
        return errors

    def validate_status_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of a status update of this kind."""
        return validate_autoscaler_status(new)

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update of this kind with the fields that it cannot change."""
        return with_status(new, old, "spec")


_SHOWN = 2
"""The number of metrics in a table; the others are counted."""
_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _metric_text(metric: Tree, seen: Tree) -> str:
    """A metric as current value and target. Upstream: pkg/printers, formatHPAMetrics."""
    key = _SOURCES.get(metric.get("type", ""), "")
    source = metric.get(key)
    if source is None:
        return "<unknown type>"
    target, now = part_of(source, "target"), seen.get(key)
    value = part_of(now or {}, "current")
    average = target.get("averageValue")
    if key in ("resource", "containerResource"):
        name = source.get("name", "")
        if average is not None:
            had = "<unknown>" if now is None else value.get("averageValue", "<nil>")
            return f"{name}: {had}/{average}"
        used, wanted = value.get("averageUtilization"), target.get("averageUtilization")
        had = "<unknown>" if used is None else f"{used}%"
        return f"{name}: {had}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if key == "pods":
        had = "<unknown>" if now is None else value.get("averageValue", "<nil>")
        return f"{had}/{'<nil>' if average is None else average}"
    if average is not None:
        return f"{value.get('averageValue', '<unknown>')}/{average} (avg)"
    had = "<unknown>" if now is None else value.get("value", "<nil>")
    return f"{had}/{target.get('value', '<nil>')}"


def _row(tree: Tree, now: int) -> list[Any]:
    spec, state = part_of(tree, "spec"), part_of(tree, "status")
    ref = part_of(spec, "scaleTargetRef")
    current = state.get("currentMetrics") or []
    targets = [
        _metric_text(metric, current[index] if index < len(current) else {})
        for index, metric in enumerate(spec.get("metrics") or ())
    ]
    listed = ", ".join(targets[:_SHOWN]) or "<none>"
    if len(targets) > _SHOWN:
        listed += f" + {len(targets) - _SHOWN} more..."
    return [
        name_of(tree),
        f"{ref.get('kind', '')}/{ref.get('name', '')}",
        listed,
        "<unset>" if spec.get("minReplicas") is None else str(spec["minReplicas"]),
        spec.get("maxReplicas", 0),
        state.get("currentReplicas", 0),
        age_of(tree, now),
    ]


KIND = Kind(
    strategy=AutoscalerStrategy(
        default=default_autoscaler,
        rule=validate_autoscaler,
        empty_status={"currentMetrics": None, "desiredReplicas": 0},
    ),
    row=_row,
)
