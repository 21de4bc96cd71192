"""Autoscalers in version 1: what it does not know stands in annotations, in their own shapes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.kinds.autoscaling.versions import to_v1, to_v2

QUEUE = {"name": "length", "selector": {"matchLabels": {"q": "a"}}}
INGRESS = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "i"}
METRICS: list[dict[str, Any]] = [
    {"type": "Pods", "pods": {"metric": {"name": "rps"},
                              "target": {"type": "AverageValue", "averageValue": "100"}}},
    {"type": "External", "external": {"metric": QUEUE, "target": {"type": "Value", "value": "30"}}},
    {"type": "External", "external": {"metric": QUEUE, "target": {
        "type": "AverageValue", "averageValue": "30"}}},
    {"type": "Object", "object": {"describedObject": INGRESS, "metric": {"name": "rps"},
                                  "target": {"type": "Value", "value": "2k"}}},
    {"type": "Resource", "resource": {"name": "memory", "target": {
        "type": "AverageValue", "averageValue": "1Gi"}}},
    {"type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 60}}},
]  # fmt: skip
ALPHA = "autoscaling.alpha.kubernetes.io/"


def autoscaler(*metrics: Any, **state: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "metrics": list(metrics)},
            "status": {"currentReplicas": 1, "desiredReplicas": 1, "currentMetrics": None, **state}}  # fmt: skip


def test_metrics_of_other_kinds_have_the_names_that_version_1_has_for_them() -> None:
    made = to_v1(autoscaler(*METRICS))
    noted = json.loads(made["metadata"]["annotations"][f"{ALPHA}metrics"])
    assert noted == [
        {"type": "Pods", "pods": {"metricName": "rps", "targetAverageValue": "100"}},
        {"type": "External", "external": {
            "metricName": "length", "metricSelector": QUEUE["selector"], "targetValue": "30"}},
        {"type": "External", "external": {
            "metricName": "length", "metricSelector": QUEUE["selector"], "targetAverageValue": "30"}},
        {"type": "Object", "object": {"target": INGRESS, "metricName": "rps", "targetValue": "2k"}},
        {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
        {"type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": "c", "targetAverageUtilization": 60}},
    ]  # fmt: skip


@given(st.lists(st.sampled_from(METRICS), max_size=4))
def test_there_and_back_is_the_same(metrics: list[dict[str, Any]]) -> None:
    given = autoscaler(*metrics)
    back = to_v2(to_v1(given))
    assert back["spec"].get("metrics", []) == metrics
    assert "annotations" not in back["metadata"]


def test_what_was_measured_has_names_of_its_own() -> None:
    measured = [
        {"type": "Pods", "pods": {"metric": {"name": "rps"}, "current": {"averageValue": "7"}}},
        {"type": "External", "external": {"metric": QUEUE, "current": {"value": "3"}}},
        {"type": "Object", "object": {"describedObject": INGRESS, "metric": {"name": "rps"},
                                      "current": {"value": "9"}}},
    ]  # fmt: skip
    made = to_v1(autoscaler(currentMetrics=measured))
    assert json.loads(made["metadata"]["annotations"][f"{ALPHA}current-metrics"]) == [
        {"type": "Pods", "pods": {"metricName": "rps", "currentAverageValue": "7"}},
        {"type": "External", "external": {
            "metricName": "length", "metricSelector": QUEUE["selector"], "currentValue": "3"}},
        {"type": "Object", "object": {"target": INGRESS, "metricName": "rps", "currentValue": "9"}},
    ]  # fmt: skip
    assert to_v2(made)["status"]["currentMetrics"] == measured


def test_notes_that_are_no_metrics_are_left_alone() -> None:
    tree = {"metadata": {"annotations": {f"{ALPHA}metrics": "{}"}}, "spec": {"maxReplicas": 1}}
    assert "metrics" not in to_v2(tree)["spec"]


def test_the_behavior_is_kept_as_json_of_an_internal_type() -> None:
    """Its keys have no JSON names, and are read in any case."""
    behavior = {
        "scaleDown": {
            "stabilizationWindowSeconds": 5,
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
        }
    }
    tree = {"metadata": {"name": "x"}, "spec": {"maxReplicas": 3, "behavior": behavior}}
    shown = to_v1(tree)
    assert shown["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"] == (
        '{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":5,"SelectPolicy":null,'
        '"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null}}'
    )
    assert to_v2(shown)["spec"]["behavior"] == behavior
    for text in ("null", "[]", "{}", '{"ScaleUp":3}'):
        note = {"autoscaling.alpha.kubernetes.io/behavior": text}
        read = to_v2({"metadata": {"annotations": note}, "spec": {"maxReplicas": 3}})
        assert "behavior" not in read["spec"] and "annotations" not in read["metadata"]
