"""Rules of many kinds that no recorded conversation reaches: what each refuses, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.validation import common as rules
from controlplane.apiserver.kinds.validation.autoscaling import validate_autoscaler
from controlplane.apiserver.kinds.validation.workloads import (
    validate_daemon_set,
    validate_deployment,
)

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


def _owner(strategy: str, **rolling: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always",
                        "terminationMessagePolicy": "File"}]}}  # fmt: skip
    return {"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": template,
        strategy: {"type": "RollingUpdate", "rollingUpdate": rolling}}}  # fmt: skip


def test_a_number_in_quotes_is_none_but_counts_as_one() -> None:
    body = _owner("updateStrategy", maxUnavailable="2", maxSurge=1)
    assert [error.field for error in validate_daemon_set(body)] == [
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
        "spec.updateStrategy.rollingUpdate.maxSurge",
    ]
    body = _owner("strategy", maxUnavailable="x", maxSurge=0)
    assert [error.detail[:16] for error in validate_deployment(body)] == [
        "a valid percent ", "may not be 0 whe",
    ]  # fmt: skip


def test_conditions_of_flow_control_have_one_type_each() -> None:
    new = {"status": {"conditions": [{"type": "A"}, {"type": "A"}, {}]}}
    assert said(rules.validate_flow_status(new, {})) == [
        'status.conditions[1].type: Duplicate value: "A"',
        "status.conditions[2].type: Required value",
    ]


def test_conditions_of_an_api_service_are_true_false_or_not_known() -> None:
    new = {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B"}]}}
    assert said(rules.validate_api_service_status(new, {})) == [
        'status.conditions[1].status: Unsupported value: "": supported values: "True", "False", '
        '"Unknown"'
    ]


@pytest.mark.parametrize(
    ("was", "now", "problems"),
    [
        (["10.0.0.0/24"], ["10.0.1.0/24"], ["spec.cidrs[0]"]),
        (["10.0.0.0/24"], ["10.0.1.0/24", "fd00::/64"], ["spec.cidrs[0]"]),
        (["10.0.0.0/24"], ["10.0.0.0/24", "fd00::/64"], []),
        (["10.0.0.0/24", "fd00::/64"], ["10.0.0.0/24"], ["spec.cidrs"]),
    ],
)
def test_ranges_of_services_stay_each_by_itself(
    was: list[str], now: list[str], problems: list[str]
) -> None:
    new, old = ({"spec": {"cidrs": cidrs}} for cidrs in (now, was))
    errors = rules.validate_service_cidr_update(new, old)
    assert [(error.field, error.detail) for error in errors] == [
        (field, "field is immutable") for field in problems
    ]


def test_a_driver_does_not_ask_too_often_what_a_node_can_hold() -> None:
    spec = {"attachRequired": True, "podInfoOnMount": True, "storageCapacity": True,
            "fsGroupPolicy": "None", "nodeAllocatableUpdatePeriodSeconds": 9,
            "serviceAccountTokenInSecrets": True, "volumeLifecycleModes": ["x"]}  # fmt: skip
    errors = rules.validate_csi_driver({"metadata": {"name": "d"}, "spec": spec})
    assert [error.field.removeprefix("spec.") for error in errors] == [
        "volumeLifecycleModes", "nodeAllocatableUpdatePeriodSeconds", "serviceAccountTokenInSecrets",
    ]  # fmt: skip
    assert errors[1].detail == "must be greater than or equal to 10 seconds"


def test_a_driver_knows_its_node_by_a_short_text() -> None:
    driver = {"name": "d", "nodeID": "n" * 193, "topologyKeys": ["", ""]}
    errors = rules.validate_csi_node({"spec": {"drivers": [driver]}})
    assert errors[0].detail == "must be 192 characters or less"
    kinds = [error.reason for error in errors[1:] if error.reason != "FieldValueInvalid"]
    assert kinds == ["FieldValueRequired", "FieldValueRequired", "FieldValueDuplicate"]


def test_an_attachment_may_hold_a_volume_of_its_own() -> None:
    def attachment(**volume: Any) -> list[str]:
        spec = {"attacher": "a", "nodeName": "n", "source": {"inlineVolumeSpec": volume}}
        return said(rules.validate_attachment({"spec": spec}))

    csi = {"driver": "d", "volumeHandle": "h"}
    assert attachment(csi=csi, accessModes=["ReadWriteOnce"]) == []
    place = "spec.source.inlineVolumeSpec"
    assert attachment(capacity={"storage": "1"}, persistentVolumeReclaimPolicy="Delete",
                      volumeMode="Block", storageClassName="s") == [
        f"{place}.capacity: Forbidden: may not be specified in the context of inline volumes",
        f"{place}.csi: Required value: has to be specified in the context of inline volumes",
        f"{place}.accessModes: Required value",
        f"{place}.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of "
        "inline volumes",
        f"{place}: Required value: must specify a volume type",
        f"{place}.storageClassName: Forbidden: may not be specified in the context of inline volumes",
        f"{place}.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the "
        "context of inline volumes",
    ]  # fmt: skip


def test_deletions_are_not_changed_by_policies() -> None:
    rule = {"operations": ["DELETE", "*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods"]}  # fmt: skip
    binding = {"policyName": "p", "matchResources": {
        "matchPolicy": "Exact", "resourceRules": [rule]}}  # fmt: skip
    assert said(rules.validate_mutating_policy_binding({"spec": binding})) == [
        'spec.matchResources.resourceRules[0].operations: Invalid value: ["DELETE","*"]: if \'*\' is '
        "present, must not specify other operations",
        'spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: '
        '"*", "CONNECT", "CREATE", "UPDATE"',
    ]


def test_what_was_found_of_a_policy_names_a_field() -> None:
    warnings = [{"warning": "w", "fieldRef": " "}, {"fieldRef": "spec.x"}]
    new = {"status": {"typeChecking": {"expressionWarnings": warnings}, "conditions": [{}]}}
    found = said(rules.validate_validating_policy_status(new, {}))
    place = "status.typeChecking.expressionWarnings"
    assert found[:2] == [
        f"{place}[0].fieldRef: Required value",
        f"{place}[1].warning: Required value",
    ]
    assert all(text.startswith("status.conditions[0].") for text in found[2:])


def test_an_endpoint_slice_keeps_its_type_of_addresses() -> None:
    new, old = ({"addressType": kind} for kind in ("IPv6", "IPv4"))
    assert said(rules.validate_endpoint_slice_update(new, old)) == [
        'addressType: Invalid value: "IPv6": field is immutable'
    ]


def test_conditions_of_a_budget_are_told_before_its_counts() -> None:
    new = {"status": {"expectedPods": -1, "conditions": [{"type": "A", "status": "x"}]}}
    fields = [error.field for error in rules.validate_budget_status(new, {})]
    assert fields[-1] == "status.expectedPods"
    assert fields[0] == "status.conditions[0].status"
