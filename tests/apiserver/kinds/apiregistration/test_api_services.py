"""Rules of API services that no recorded conversation reaches."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.apiregistration.api_services import validate_api_service_status


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


def test_conditions_of_an_api_service_are_true_false_or_not_known() -> None:
    new = {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B"}]}}
    assert said(validate_api_service_status(new, {})) == [
        'status.conditions[1].status: Unsupported value: "": supported values: "True", "False", '
        '"Unknown"'
    ]
