"""Autoscalers in version 1, which knows one metric: what else there is goes into annotations.

The annotations hold metrics in shapes of their own, those that version 2 had as an alpha. Upstream:
pkg/apis/autoscaling/v1/conversion.go, api autoscaling/v1/types.go.
"""

from __future__ import annotations

import json
from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.json_values import json_text

_CPU: Final = "targetCPUUtilizationPercentage"
_ALPHA: Final = "autoscaling.alpha.kubernetes.io/"
_HIDDEN: Final = {
    f"{_ALPHA}metrics": "metrics",
    f"{_ALPHA}behavior": "behavior",
    f"{_ALPHA}conditions": "conditions",
    f"{_ALPHA}current-metrics": "currentMetrics",
}


_SOURCES: Final = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}


_BEHAVIOR: Final = ("scaleUp", "scaleDown")
_RULES: Final = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_POLICY: Final = ("type", "value", "periodSeconds")


def _internal_behavior(behavior: Tree) -> Tree:
    """The behavior as upstream's annotation has it: the JSON of an internal type, whose fields have no JSON names."""

    def named(tree: Tree, keys: tuple[str, ...]) -> Tree:
        return {key[0].upper() + key[1:]: tree.get(key) for key in keys}

    def rules(given: Tree | None) -> Tree | None:
        if given is None:
            return None
        policies = given.get("policies")
        kept = None if policies is None else [named(each, _POLICY) for each in policies]
        return named({**given, "policies": kept}, _RULES)

    return named({key: rules(behavior.get(key)) for key in _BEHAVIOR}, _BEHAVIOR)


def _external_behavior(behavior: Any) -> Tree | None:
    """The behavior of an annotation, whose keys Go reads in any case; None for one without rules."""

    def named(tree: Any, keys: tuple[str, ...]) -> Tree:
        given = {str(key).lower(): value for key, value in tree.items()}
        return {key: given[key.lower()] for key in keys if given.get(key.lower()) is not None}

    try:
        found = named(behavior, _BEHAVIOR)
        for key, rules in found.items():
            rules = named(rules, _RULES)
            if "policies" in rules:
                policies = [named(each, _POLICY) for each in rules["policies"]]
                rules = {**rules, "policies": policies}
            found[key] = rules
    except (AttributeError, TypeError):
        return None
    return found or None


def _only(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if value is not None}


def _is_plain_cpu(metric: Tree) -> bool:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return (
        metric.get("type") == "Resource"
        and resource.get("name") == "cpu"
        and target.get("averageUtilization") is not None
    )


def _source_to_v1(kind: str, source: Tree) -> Tree:
    target, metric = source.get("target") or {}, source.get("metric") or {}
    average, selector = target.get("averageValue"), metric.get("selector")
    if kind == "Object":
        return _only(
            {
                "target": source.get("describedObject") or {},
                "metricName": metric.get("name", ""),
                "targetValue": target.get("value", "0"),
                "selector": selector,
                "averageValue": average,
            }
        )
    if kind == "Pods":
        return _only(
            {
                "metricName": metric.get("name", ""),
                "targetAverageValue": average or "0",
                "selector": selector,
            }
        )
    if kind == "External":
        return _only(
            {
                "metricName": metric.get("name", ""),
                "metricSelector": selector,
                "targetValue": target.get("value"),
                "targetAverageValue": average,
            }
        )
    return _only(
        {
            "name": source.get("name", ""),
            "container": source.get("container"),
            "targetAverageUtilization": target.get("averageUtilization"),
            "targetAverageValue": average,
        }
    )


def _source_to_v2(kind: str, source: Tree) -> Tree:
    def target(what: str, **values: Any) -> Tree:
        return {"type": what, **_only(values)}

    if kind == "Object":
        average = source.get("averageValue")
        return {
            "describedObject": source.get("target") or {},
            "metric": _only(
                {"name": source.get("metricName", ""), "selector": source.get("selector")}
            ),
            "target": target(
                "Value" if average is None else "AverageValue",
                value=source.get("targetValue", "0"),
                averageValue=average,
            ),
        }
    if kind == "Pods":
        return {
            "metric": _only(
                {"name": source.get("metricName", ""), "selector": source.get("selector")}
            ),
            "target": target("AverageValue", averageValue=source.get("targetAverageValue", "0")),
        }
    if kind == "External":
        value = source.get("targetValue")
        return {
            "metric": _only(
                {"name": source.get("metricName", ""), "selector": source.get("metricSelector")}
            ),
            "target": target(
                "AverageValue" if value is None else "Value",
                value=value,
                averageValue=source.get("targetAverageValue"),
            ),
        }
    use = source.get("targetAverageUtilization")
    return _only(
        {
            "name": source.get("name", ""),
            "container": source.get("container"),
            "target": target(
                "AverageValue" if use is None else "Utilization",
                averageUtilization=use,
                averageValue=source.get("targetAverageValue"),
            ),
        }
    )


def _current_to_v1(kind: str, source: Tree) -> Tree:
    current, metric = source.get("current") or {}, source.get("metric") or {}
    value, average = current.get("value", "0"), current.get("averageValue")
    selector = metric.get("selector")
    if kind == "Object":
        return _only(
            {
                "target": source.get("describedObject") or {},
                "metricName": metric.get("name", ""),
                "currentValue": value,
                "selector": selector,
                "averageValue": average,
            }
        )
    if kind == "Pods":
        return _only(
            {
                "metricName": metric.get("name", ""),
                "currentAverageValue": average or "0",
                "selector": selector,
            }
        )
    if kind == "External":
        return _only(
            {
                "metricName": metric.get("name", ""),
                "metricSelector": selector,
                "currentValue": value,
                "currentAverageValue": average,
            }
        )
    return _only(
        {
            "name": source.get("name", ""),
            "currentAverageUtilization": current.get("averageUtilization"),
            "currentAverageValue": average or "0",
            "container": source.get("container"),
        }
    )


def _current_to_v2(kind: str, source: Tree) -> Tree:
    """A source's current values. A value that version 1 always has is there in version 2, too, be it zero."""
    if kind in ("Object", "Pods", "External"):
        selector = "metricSelector" if kind == "External" else "selector"
        average = source.get("averageValue" if kind == "Object" else "currentAverageValue")
        value = None if kind == "Pods" else source.get("currentValue", "0")
        if kind == "Pods" and average is None:
            average = "0"
        return _only(
            {
                "describedObject": source.get("target") if kind == "Object" else None,
                "metric": _only(
                    {"name": source.get("metricName", ""), "selector": source.get(selector)}
                ),
                "current": _only({"value": value, "averageValue": average}),
            }
        )
    return _only(
        {
            "name": source.get("name", ""),
            "container": source.get("container"),
            "current": _only(
                {
                    "averageUtilization": source.get("currentAverageUtilization"),
                    "averageValue": source.get("currentAverageValue", "0"),
                }
            ),
        }
    )


def _metric(metric: Any, convert: Any, mark: str) -> Any:
    """A metric in the other shape; one that has `mark` in its source is there already, or is not known."""
    if not isinstance(metric, dict):
        return metric
    kind = metric.get("type", "")
    part = _SOURCES.get(kind, "")
    source = metric.get(part)
    if not isinstance(source, dict) or (mark and mark in source):
        return metric
    return {"type": kind, part: convert(kind, source)}


def to_v1(tree: Tree) -> Tree:
    """An autoscaler of version 2 in version 1."""
    spec = dict(tree.get("spec") or {})
    meta = tree["metadata"]
    rest = []
    for metric in spec.pop("metrics", None) or ():
        if _is_plain_cpu(metric) and _CPU not in spec:
            spec[_CPU] = metric["resource"]["target"]["averageUtilization"]
        else:
            rest.append(metric)
    given = meta.get("annotations") or {}
    annotations = {key: text for key, text in given.items() if key not in _HIDDEN}
    if rest:
        annotations[f"{_ALPHA}metrics"] = json_text(
            [_metric(metric, _source_to_v1, "") for metric in rest]
        )
    if spec.pop("behavior", None) is not None:
        annotations[f"{_ALPHA}behavior"] = json_text(_internal_behavior(tree["spec"]["behavior"]))
    state = dict(tree.get("status") or {})
    current = state.pop("currentMetrics", None) or []
    for metric in current:
        found = metric.get("resource") or {}
        use = (found.get("current") or {}).get("averageUtilization")
        if metric.get("type") == "Resource" and found.get("name") == "cpu" and use is not None:
            state["currentCPUUtilizationPercentage"] = use
    if current:
        annotations[f"{_ALPHA}current-metrics"] = json_text(
            [_metric(metric, _current_to_v1, "") for metric in current]
        )
    conditions = state.pop("conditions", None)
    if conditions:
        annotations[f"{_ALPHA}conditions"] = json_text(conditions)
    counts = {key: state.pop(key, 0) for key in ("currentReplicas", "desiredReplicas")}
    seen = {key: state.pop(key) for key in ("observedGeneration", "lastScaleTime") if key in state}
    state = {**seen, **counts, **state}
    if annotations or given:
        meta = {key: value for key, value in meta.items() if key != "annotations"}
        meta = {**meta, **({"annotations": annotations} if annotations else {})}
    return {**tree, "metadata": meta, "spec": spec, "status": state}


def to_v2(tree: Tree) -> Tree:
    """An autoscaler of version 1 in version 2, with what its annotations hold."""
    spec = dict(tree.get("spec") or {})
    meta = tree["metadata"]
    annotations = dict(meta.get("annotations") or {})
    state = dict(tree.get("status") or {})
    current = state.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        state["currentMetrics"] = [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageUtilization": current}},
            }
        ]
    use = spec.pop(_CPU, None)
    metrics: list[Tree] = []
    for key, part in _HIDDEN.items():
        text = annotations.pop(key, None)
        if text is None:
            continue
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if part == "metrics":
            if isinstance(value, list):
                metrics = [_metric(metric, _source_to_v2, "metric") for metric in value]
        elif part == "behavior":
            behavior = _external_behavior(value)
            if behavior is not None:
                spec["behavior"] = behavior
        elif part == "currentMetrics" and isinstance(value, list):
            state[part] = [
                _metric(metric, _current_to_v2, "current")
                for metric in value
                if isinstance(metric, dict)
            ]
        else:
            state[part] = value
    if use is not None:
        metrics = [
            *metrics,
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": use},
                },
            },
        ]
    if metrics:
        spec["metrics"] = metrics
    if not state.get("currentReplicas", 1):
        del state["currentReplicas"]
    meta = {key: value for key, value in meta.items() if key != "annotations"}
    if annotations:
        meta["annotations"] = annotations
    state.setdefault("currentMetrics", None)
    return {**tree, "metadata": meta, "spec": spec, "status": state}
