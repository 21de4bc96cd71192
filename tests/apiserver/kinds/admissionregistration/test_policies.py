"""Rules of admission policies that no recorded conversation reaches."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.admissionregistration.policies import (
    validate_mutating_policy_binding,
    validate_validating_policy_status,
)


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


def test_deletions_are_not_changed_by_policies() -> None:
    rule = {"operations": ["DELETE", "*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods"]}  # fmt: skip
    binding = {"policyName": "p", "matchResources": {
        "matchPolicy": "Exact", "resourceRules": [rule]}}  # fmt: skip
    assert said(validate_mutating_policy_binding({"spec": binding})) == [
        'spec.matchResources.resourceRules[0].operations: Invalid value: ["DELETE","*"]: if \'*\' is '
        "present, must not specify other operations",
        'spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: '
        '"*", "CONNECT", "CREATE", "UPDATE"',
    ]


def test_what_was_found_of_a_policy_names_a_field() -> None:
    broken = {"warning": "w", "fieldRef": "spec.x["}
    warnings = [{"warning": "w", "fieldRef": " "}, {"fieldRef": "spec.x"}, broken]
    new = {"status": {"typeChecking": {"expressionWarnings": warnings}, "conditions": [{}]}}
    found = said(validate_validating_policy_status(new, {}))
    place = "status.typeChecking.expressionWarnings"
    assert found[:3] == [
        f"{place}[0].fieldRef: Required value",
        f"{place}[1].warning: Required value",
        f'{place}[2].fieldRef: Invalid value: "spec.x[": invalid JSONPath: unterminated array',
    ]
    assert all(text.startswith("status.conditions[0].") for text in found[3:])
