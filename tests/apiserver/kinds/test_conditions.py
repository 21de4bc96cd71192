"""Conditions of a status."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.conditions import validate_conditions


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


def test_conditions_are_whole_and_stand_once() -> None:
    whole = {"type": "Ready", "status": "True", "reason": "Up",
             "lastTransitionTime": "2020-01-01T00:00:00Z"}  # fmt: skip
    assert validate_conditions([whole], "c") == []
    found = said(validate_conditions([whole, {"type": "Ready", "status": "x", "reason": "1"}], "c"))
    assert found[0] == 'c[1].type: Duplicate value: "Ready"'
    assert found[1].startswith('c[1].status: Unsupported value: "x"')
    assert found[2] == "c[1].lastTransitionTime: Required value"
    assert found[3].startswith('c[1].reason: Invalid value: "1": a condition reason must start')
