"""Checks that the schema of a definition is structural: types of fields stand outside of value validations.

Upstream: apiextensions-apiserver pkg/apiserver/schema/{convert,validation,complete}.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.schemas import PRESERVE
from controlplane.apiserver.schema import go_regexp
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid, required

__all__ = ["JUNCTORS", "inconvertible", "structural_errors"]

JUNCTORS: Final = ("allOf", "oneOf", "anyOf")
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_ROOT, _ITEM, _FIELD = (
    "must not be empty at the root",
    "must not be empty for specified array items",
    "must not be empty for specified object fields",
)
"""Levels of a schema, by what is said of one without a type."""

_NO_CONVERSION: Final = (
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "additionalItems",
    "definitions",
    "dependencies",
)
_EMPTY_WILL_DO: Final = ("additionalItems",)


def inconvertible(schema: Tree) -> str:
    """Return why a schema cannot be converted to a structural one; empty if it can."""
    for key in _NO_CONVERSION:
        value = schema.get(key)
        if value or (value is not None and key in _EMPTY_WILL_DO):
            return f"OpenAPIV3Schema '{key.removeprefix('$')}' is not supported"
    if isinstance(schema.get("items"), list):
        return "OpenAPIV3Schema 'items' must be an object, but is an array"
    return next(filter(None, (inconvertible(part) for _, part in _all_parts(schema))), "")


def structural_errors(schema: Tree, path: str) -> list[FieldError]:
    """Return the errors that keep a schema from being structural, sorted by text as upstream does."""
    errors = [*_invariants(schema, _ROOT, path), *_completeness(schema, schema, path, path)]
    return sorted(errors, key=str)


def _all_parts(schema: Tree) -> Iterator[tuple[str, Tree]]:
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            yield f".{key}", schema[key]
    for name, part in sorted((schema.get("properties") or {}).items()):
        yield f".properties[{name}]", part
    for key in JUNCTORS:
        for index, part in enumerate(schema.get(key) or ()):
            yield f".{key}[{index}]", part


# -- invariants ----------------------------------------------------------------------------------


def _invariants(schema: Tree, level: str, path: str) -> Iterator[FieldError]:
    """Yield the violated invariants of a schema and its parts outside of junctors."""
    kind = schema.get("type", "")
    properties = schema.get("properties") or {}
    embedded, either = bool(schema.get(_EMBEDDED)), bool(schema.get(_INT_OR_STRING))
    keeps = bool(schema.get(PRESERVE))
    more = schema.get("additionalProperties")
    if schema.get("items") is not None:
        yield from _invariants(schema["items"], _ITEM, f"{path}.items")
    elif kind == "array":
        yield required(f"{path}.items", "must be specified")
    for name, part in properties.items():
        yield from _invariants(part, _FIELD, f"{path}.properties[{name}]")
    if more is not None and level is _ROOT:
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(more, dict):
        yield from _invariants(more, _FIELD, f"{path}.additionalProperties")
    if either and keeps:
        text = "must be false if x-kubernetes-int-or-string is true"
        yield invalid(f"{path}.{PRESERVE}", True, text)
    if either and embedded:
        text = "must be false if x-kubernetes-int-or-string is true"
        yield invalid(f"{path}.{_EMBEDDED}", True, text)
    yield from _validations(
        schema, path, skip=_is_either(schema.get("anyOf")), skip_first=_first_is_either(schema)
    )
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)
    elif not kind and not either and not keeps:
        yield required(f"{path}.type", level)
    if embedded and more is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(f"{path}.additionalProperties", text)
    if level is _ROOT and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if level is _ROOT or embedded:
        for name in ("kind", "apiVersion"):
            told = properties[name].get("type", "") if name in properties else "string"
            if told != "string":
                yield invalid(f"{path}.properties[{name}].type", told, "must be string")
    if "metadata" in properties:
        here = f"{path}.properties[metadata]"
        told = properties["metadata"].get("type", "")
        if (level is _ROOT or embedded) and told != "object":
            yield invalid(f"{here}.type", told, "must be object")
        if level is _ROOT and not _only_names(properties["metadata"]):
            text = (
                "must not specify anything other than name and generateName, but metadata is "
                "implicitly specified"
            )
            yield forbidden(here, text)
    if embedded and not keeps and not properties:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", text)


def _only_names(metadata: Tree) -> bool:
    """Return whether a schema of metadata restricts only name and generateName."""
    for key, value in metadata.items():
        if key == "properties":
            if value and not frozenset(value) <= {"name", "generateName"}:
                return False
        elif key not in ("type", "default") and value not in (None, False, "", [], {}):
            return False
    return True


def _is_either(junctor: Any) -> bool:
    """Return whether a junctor is the pair that describes an integer or a string."""
    return bool(junctor == [{"type": "integer"}, {"type": "string"}])


def _first_is_either(schema: Tree) -> bool:
    first: Tree = next(iter(schema.get("allOf") or ()), {})
    return _is_either(first.get("anyOf"))


def _validations(schema: Tree, path: str, *, skip: bool, skip_first: bool) -> Iterator[FieldError]:
    """Yield the errors of the junctors and the pattern of a schema."""
    if not skip:
        for index, part in enumerate(schema.get("anyOf") or ()):
            yield from _nested(part, f"{path}.anyOf[{index}]")
    for index, part in enumerate(schema.get("allOf") or ()):
        yield from _nested(part, f"{path}.allOf[{index}]", skip=skip_first and not index)
    for index, part in enumerate(schema.get("oneOf") or ()):
        yield from _nested(part, f"{path}.oneOf[{index}]")
    if schema.get("not") is not None:
        yield from _nested(schema["not"], f"{path}.not")
    pattern = schema.get("pattern")
    if pattern:
        try:
            go_regexp.compiled(pattern)
        except go_regexp.PatternError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", pattern, text)


_STRUCTURE: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"),
    (_EMBEDDED, "must be false to be structural"),
    (_INT_OR_STRING, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
"""The keywords that only the structure may have, and the message for each within a junctor."""


def _nested(schema: Tree, path: str, *, skip: bool = False) -> Iterator[FieldError]:
    """Yield the errors of a schema within a junctor."""
    yield from _validations(schema, path, skip=skip, skip_first=False)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, part in (schema.get("properties") or {}).items():
        yield from _nested(part, f"{path}.properties[{name}]")
    for key, text in _STRUCTURE:
        value = schema.get(key)
        if value if "undefined" not in text else value is not None:
            yield forbidden(f"{path}.{key}", text)
    if "metadata" in (schema.get("properties") or {}):
        text = "must not be specified in a nested context"
        yield forbidden(f"{path}.properties[metadata]", text)


# -- completeness --------------------------------------------------------------------------------


def _completeness(given: Tree, structure: Tree, at: str, path: str) -> Iterator[FieldError]:
    """Yield the errors of fields that the junctors of `given` (at `path`) name and the structure (at `at`) lacks.

    As upstream: only the junctors of the root are looked at, and what is in them.
    """
    if given.get("not") is not None:
        yield from _nested_completeness(given["not"], structure, at, f"{path}.not")
    for key in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(given.get(key) or ()):
            yield from _nested_completeness(part, structure, at, f"{path}.{key}[{index}]")


def _nested_completeness(given: Tree, structure: Any, at: str, path: str) -> Iterator[FieldError]:
    if not isinstance(structure, dict):
        yield required(at, f"because it is defined in {path}")
        return
    yield from _completeness(given, structure, at, path)
    if isinstance(given.get("items"), dict):
        inner = structure.get("items")
        yield from _nested_completeness(given["items"], inner, f"{at}.items", f"{path}.items")
    known = structure.get("properties") or {}
    for name, part in (given.get("properties") or {}).items():
        there, here = f"{at}.properties[{name}]", f"{path}.properties[{name}]"
        yield from _nested_completeness(part, known.get(name), there, here)
