"""Rules of flow schemas that no recorded conversation reaches."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.flowcontrol.flow_schemas import validate_flow_status


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


def test_conditions_of_flow_control_have_one_type_each() -> None:
    new = {"status": {"conditions": [{"type": "A"}, {"type": "A"}, {}]}}
    assert said(validate_flow_status(new, {})) == [
        'status.conditions[1].type: Duplicate value: "A"',
        "status.conditions[2].type: Required value",
    ]
