"""Rules of a version's parts: the fields that it is selected by, and how it warns of its age.

Upstream: ValidateCustomResourceSelectableFields and validateDeprecationWarning in apiextensions-apiserver.
"""

from __future__ import annotations

import re
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    required,
    too_many,
)

__all__ = ["deprecation_errors", "selectable_errors"]

_MAX_SELECTABLE = 8
_PATH_PART = re.compile(r"[.\[\]]|'(?:[^'\\]|\\.)*'?|[^.\[\]']+")
_LONGEST_WARNING = 256


def deprecation_errors(version: Tree, path: str) -> list[FieldError]:
    """Return the errors of a version's deprecation."""
    text = version.get("deprecationWarning")
    if text is None:
        return []
    if not version.get("deprecated"):
        return [invalid(path, text, "can only be set for deprecated versions")]
    problems = []
    if len(text.encode()) > _LONGEST_WARNING:
        problems.append(f"must be <= {_LONGEST_WARNING} characters long")
    if not text:
        problems.append("must not be an empty string")
    odd = next((index for index, char in enumerate(text) if not char.isprintable()), None)
    if odd is not None:
        problems.append(
            "must only contain printable UTF-8 characters; non-printable character "
            f"found at index {len(text[:odd].encode())}"
        )
    return [invalid(path, text, problem) for problem in problems]


def selectable_errors(version: Tree, path: str) -> list[FieldError]:
    """Return the errors of a version's selectable fields."""
    errors: list[FieldError] = []
    root = version.get("schema", {}).get("openAPIV3Schema") or {}
    known: dict[tuple[str, ...], None] = {}
    for index, item in enumerate(version.get("selectableFields") or ()):
        target, where = item.get("jsonPath", ""), f"{path}[{index}].jsonPath"
        if not target:
            errors.append(required(where))
            continue
        try:
            steps, schema = _field_at(target, root)
        except _NoField as problem:
            errors.append(invalid(where, target, f"is an invalid path: {problem}"))
            continue
        if steps[:1] == ("metadata",):
            errors.append(invalid(where, target, "must not point to fields in metadata"))
        if schema.get("type") not in ("string", "boolean", "integer"):
            text = (
                "must point to a field of type string, boolean or integer. Enum string fields "
                "and strings with formats are allowed."
            )
            errors.append(invalid(where, target, text))
        if steps in known:
            errors.append(duplicate(where, target))
        known[steps] = None
    if len(known) > _MAX_SELECTABLE:
        errors.append(too_many(path, len(known), _MAX_SELECTABLE))
    return errors


class _NoField(ValueError):
    """A path that leads to no field, and why."""


def _field_at(path: str, schema: Any) -> tuple[tuple[str, ...], Tree]:
    """The names on a path and the schema at its end. Upstream: ValidFieldPath of the schema's cel."""
    steps: list[str] = []
    parts = iter(_PATH_PART.findall(path))
    for part in parts:
        if part == "[":
            raise _NoField("array notation is not allowed")
        if part != ".":
            raise _NoField(f"expected [ or . but got: {part}")
        name = next(parts, None)
        if name is None:
            raise _NoField("unexpected end of JSON path")
        inner = schema.get("additionalProperties")
        if schema.get("properties") is not None:
            inner = schema["properties"].get(name)
        if not isinstance(inner, dict):
            raise _NoField("does not refer to a valid field")
        steps.append(name)
        schema = inner
    return tuple(steps), schema
