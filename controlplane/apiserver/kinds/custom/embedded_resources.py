"""Objects of the API within custom resources (`x-kubernetes-embedded-resource`): their type and metadata.

Source: apiextensions-apiserver pkg/apiserver/schema/objectmeta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.custom.schemas import EMBEDDED, child
from controlplane.apiserver.kinds.metadata import validate_meta
from controlplane.apiserver.schema.codec import DecodeError, decode, strict_issues
from controlplane.apiserver.schema.field_errors import FieldError, as_json, invalid, required
from controlplane.apiserver.schema.work import spend

__all__ = ["META", "InvalidEmbeddedError", "coerced", "embedded_places", "validate_embedded"]

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_STRINGS: Final = ("apiVersion", "kind")


@frozen
class InvalidEmbeddedError(Exception):
    """A body that cannot be read, as the type or metadata of an embedded resource is malformed."""

    error: FieldError


def embedded_places(schema: Any) -> frozenset[int]:
    """Return the ids of the parts of a schema that hold embedded resources in or below them."""
    found: set[int] = set()

    def walk(part: Any) -> bool:
        if not isinstance(part, dict):
            return False
        below = [walk(inner) for inner in (part.get("properties") or {}).values()]
        below += [walk(part.get("items")), walk(part.get("additionalProperties"))]
        if any(below) or part.get(EMBEDDED):
            found.add(id(part))
            return True
        return False

    walk(schema)
    return frozenset(found)


def _each_part(
    value: Any,
    schema: Tree,
    path: str,
    places: frozenset[int],
    visit: Callable[[Any, Tree, str], Any],
) -> Any:
    """Return a value with each part that holds embedded resources replaced by what `visit` makes of it."""
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict) or id(items) not in places:
            return value
        spend(len(value))
        return [visit(item, items, f"{path}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    known, more = schema.get("properties") or {}, schema.get("additionalProperties")
    spend(1 + len(value))
    out = dict(value)
    for name, item in value.items():
        inner = known.get(name, more)
        if isinstance(inner, dict) and id(inner) in places:
            out[name] = visit(
                item, inner, child(path, name) if name in known else f"{path}[{name}]"
            )
    return out


def coerced(
    value: Any, schema: Tree, places: frozenset[int], unknown: list[str], path: str = ""
) -> Any:
    """Return a value whose embedded metadata is read as that of an object of the API.

    Args:
        value: a pruned value.
        schema: its schema.
        places: what `embedded_places` found in the schema.
        unknown: receives the paths of unknown fields of embedded metadata.
        path: the path of the value.

    Raises:
        InvalidEmbeddedError: for a type that is no string, or malformed metadata.
    """
    if id(schema) not in places:
        return value
    if schema.get(EMBEDDED) and isinstance(value, dict):
        value = dict(value)
        for name in _STRINGS:
            if name in value and not isinstance(value[name], str):
                raise InvalidEmbeddedError(
                    invalid(child(path, name), as_json(value[name]), "must be a string")
                )
        if "metadata" in value:
            value["metadata"] = _read_metadata(value["metadata"], child(path, "metadata"), unknown)

    def visit(item: Any, inner: Tree, at: str) -> Any:
        return coerced(item, inner, places, unknown, at)

    return _each_part(value, schema, path, places, visit)


def _read_metadata(given: Any, path: str, unknown: list[str]) -> Tree:
    found = {} if given is None else given
    try:
        meta = decode(META, found)
    except DecodeError as error:
        text = str(error).replace(META, "v1.ObjectMeta")
        raise InvalidEmbeddedError(invalid(path, as_json(given), text)) from None
    for issue in strict_issues(META, found):
        kind, quote, name = issue.partition('"')
        if quote and kind == "unknown field ":
            unknown.append(f"{path}.{name.rstrip(quote)}")
    return {key: item for key, item in meta.items() if key != "creationTimestamp" or item}


def validate_embedded(
    value: Any, schema: Tree, places: frozenset[int], path: str = ""
) -> list[FieldError]:
    """Return the errors in the types and metadata of embedded resources."""
    errors: list[FieldError] = []
    if id(schema) not in places:
        return errors
    if schema.get(EMBEDDED) and isinstance(value, dict):
        errors += _resource_errors(value, path)

    def visit(item: Any, inner: Tree, at: str) -> Any:
        errors.extend(validate_embedded(item, inner, places, at))
        return item

    _each_part(value, schema, path, places, visit)
    return errors


def _resource_errors(value: Tree, path: str) -> list[FieldError]:
    errors = [required(child(path, name)) for name in _STRINGS if name not in value]
    for name in _STRINGS:
        if name not in value:
            continue
        text, at = value[name], child(path, name)
        if not isinstance(text, str):
            errors.append(invalid(at, as_json(text), "must be a string"))
        elif not text:
            errors.append(invalid(at, text, "must not be empty"))
        elif name == "apiVersion":
            if text.count("/") > 1:
                errors.append(invalid(at, text, f"unexpected GroupVersion string: {text}"))
        else:
            problems = names.dns_1035_label(text.lower())
            if problems:
                detail = "may have mixed case, but should otherwise match: " + ",".join(problems)
                errors.append(invalid(at, text, detail))
    if "metadata" in value:
        try:
            meta = _read_metadata(value["metadata"], child(path, "metadata"), [])
        except InvalidEmbeddedError as problem:
            return [*errors, problem.error]
        named = {**meta, "name": meta.get("name") or "fakename"}  # a name is not asked for
        errors += validate_meta(
            named,
            names.path_segment,
            namespaced=bool(meta.get("namespace")),
            path=child(path, "metadata"),
        )
    return errors
