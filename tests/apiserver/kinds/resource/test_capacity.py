"""Policies of requests for capacity."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api import quantity
from controlplane.apiserver.kinds.resource.capacity import validate_request_policy


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    ("policy", "problems"),
    [
        (
            {"validValues": ["1Gi", "2Gi"]},
            ["default: Required value: required when validValues is"],
        ),
        ({"default": "1Gi", "validValues": ["2Gi", "1Gi"]}, ["validValues[1]: Invalid value"]),
        ({"default": "3Gi", "validValues": ["1Gi"]}, ["validValues: Invalid value"]),
        ({"default": "1Gi", "validRange": {}}, ["validRange.min: Required value"]),
        (
            {"default": "3Gi", "validRange": {"min": "1Gi", "max": "2Gi"}},
            ['validRange.max: Invalid value: "3Gi": default is more than max: 2Gi'],
        ),
        (
            {"default": "1Gi", "validRange": {"min": "1Gi", "step": "8Gi"}},
            ['validRange.step: Invalid value: "8Gi": one step 9Gi is larger than capacity'],
        ),
        ({"default": "2Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}, []),
    ],
)
def test_a_request_policy_keeps_within_the_capacity(
    policy: dict[str, Any], problems: list[str]
) -> None:
    found = said(validate_request_policy(policy, quantity.parse("8Gi"), "p"))
    assert len(found) == len(problems)
    for text, start in zip(found, problems, strict=True):
        assert text.startswith(f"p.{start}")
