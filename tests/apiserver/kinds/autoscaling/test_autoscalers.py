"""Rules of autoscalers that no recorded conversation reaches."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.autoscaling.autoscalers import validate_autoscaler

SCALED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}


CPU = {"type": "Utilization", "averageUtilization": 50}


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


def autoscaler(**spec: Any) -> list[str]:
    return said(validate_autoscaler({"spec": {"scaleTargetRef": SCALED, "maxReplicas": 3, **spec}}))


def test_a_measured_object_may_be_of_the_group_without_a_name() -> None:
    metric = {"describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
              "metric": {"name": "m"}, "target": {"type": "Value"}}  # fmt: skip
    assert autoscaler(metrics=[{"type": "Object", "object": metric}]) == [
        "spec.metrics[0].object.target.averageValue: Required value: must set either a target value or "
        "averageValue"
    ]


def test_a_replication_controller_is_scaled_in_any_version() -> None:
    target = {"kind": "ReplicationController", "name": "r"}
    assert autoscaler(scaleTargetRef=target) == []
    assert autoscaler(scaleTargetRef={**SCALED, "apiVersion": "/"}) == [
        'spec.scaleTargetRef.apiVersion: Invalid value: "/": apiVersion must specify API group'
    ]


@pytest.mark.parametrize(
    ("container", "problem"),
    [("", "Required value: must specify a container"), ("A", 'Invalid value: "A": a lowercase')],
)
def test_a_measured_container_is_named_by_a_label(container: str, problem: str) -> None:
    source = {"name": "", "container": container, "target": CPU}
    first, second = autoscaler(metrics=[{"type": "ContainerResource", "containerResource": source}])
    assert first.endswith("containerResource.name: Required value: must specify a resource name")
    assert second.startswith(f"spec.metrics[0].containerResource.container: {problem}")


def test_a_tolerance_is_not_negative() -> None:
    policy = {"type": "Pods", "value": 1, "periodSeconds": 1}
    assert autoscaler(behavior={"scaleUp": {"policies": [policy], "tolerance": "-1"}}) == [
        'spec.behavior.scaleUp.tolerance: Invalid value: "-1": must be greater than or equal to 0'
    ]
