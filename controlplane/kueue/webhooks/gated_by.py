"""The annotation `admission-gated-by`: names of controllers that hold a Workload back.

Follows `pkg/util/webhook/validation_admissiongatedby.go`.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.apiserver.kinds.batch.job_rules import domain_path
from controlplane.apiserver.kinds.checks import no_longer, when
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid
from controlplane.kueue.names import ADMISSION_GATED_BY

__all__ = ["validate_gated_by"]

PATH: Final = f"metadata.annotations[{ADMISSION_GATED_BY}]"
LONGEST_NAME: Final = 63


def validate_gated_by(new: Tree, old: Tree | None) -> list[FieldError]:
    """Return the errors of the annotation; gates of an existing object (`old`) may only be removed."""
    value = _value(new)
    errors: list[FieldError] = []
    if old is not None:
        before = _value(old)
        added = value and not before
        errors += when(added, forbidden, PATH, "cannot add admission gate after creation")
        if value and before:
            more = any(gate not in _gates(before) for gate in _gates(value))
            errors += when(more, forbidden, PATH, "can only remove gates, not add new ones")
    return errors + _format(value)


def _value(tree: Tree) -> str:
    value: str = (tree["metadata"].get("annotations") or EMPTY_MAP).get(ADMISSION_GATED_BY, "")
    return value


def _gates(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")] if value.strip() else []


def _format(value: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for gate in _gates(value):
        if not gate:
            errors.append(invalid(PATH, value, "cannot contain empty gate names"))
        elif gate in seen:
            errors.append(invalid(PATH, value, f"duplicate gate name: {gate}"))
        else:
            seen[gate] = None
            errors += domain_path(gate, PATH)
            errors += no_longer(gate, PATH, LONGEST_NAME)
    return errors
