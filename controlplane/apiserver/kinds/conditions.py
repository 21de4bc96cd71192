"""Conditions of the shared type. Upstream: ValidateConditions in apimachinery pkg/apis/meta/v1."""

from __future__ import annotations

import re

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.checks import no_longer, one_of, problems, when
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    required,
)

__all__ = ["validate_conditions"]

MAX_REASON = 1024
MAX_MESSAGE = 32 * 1024
_STATUSES = ("False", "True", "Unknown")
_REASON_FORM = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON = re.compile(_REASON_FORM)
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    f"used for validation is '{_REASON_FORM}')"
)


def validate_conditions(conditions: list[Tree] | None, path: str) -> list[FieldError]:
    """Each condition whole, each type once."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions or ()):
        place, kind = f"{path}[{index}]", condition.get("type", "")
        errors += when(kind in seen, duplicate, f"{place}.type", kind)
        seen.add(kind)
        errors += _condition(condition, place)
    return errors


def _condition(condition: Tree, path: str) -> list[FieldError]:
    errors = label_name(condition.get("type", ""), f"{path}.type")
    value = condition.get("status", "")
    errors += one_of(value, f"{path}.status", _STATUSES)
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        text = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.observedGeneration", generation, text))
    errors += when(
        condition.get("lastTransitionTime") is None, required, f"{path}.lastTransitionTime"
    )
    reason = condition.get("reason", "")
    if not reason:
        errors.append(required(f"{path}.reason"))
    else:
        wrong = () if _REASON.fullmatch(reason) else (_REASON_TEXT,)
        errors += problems(f"{path}.reason", reason, wrong)
        errors += no_longer(reason, f"{path}.reason", MAX_REASON)
    return errors + no_longer(condition.get("message", ""), f"{path}.message", MAX_MESSAGE)
