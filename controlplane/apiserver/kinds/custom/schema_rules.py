"""The rules for the schema of a definition, beyond those of structural schemas.

Upstream: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go,
ValidateCustomResourceDefinitionOpenAPISchema, and pkg/apiserver/schema/defaulting/validation.go. Upstream goes
through
maps in no order; here they are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from attrs import evolve, field, frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.applied_rules import Budget, apply_rules, ruled_places
from controlplane.apiserver.kinds.custom.cel.costs import Costs, Place, repeated
from controlplane.apiserver.kinds.custom.cel.declared import Declared, declared, escaped
from controlplane.apiserver.kinds.custom.internal_versions import internal_schema
from controlplane.apiserver.kinds.custom.rules import RULES, rule_forms, rule_mistakes
from controlplane.apiserver.kinds.custom.schemas import PRESERVE, UNSET, pruned
from controlplane.apiserver.kinds.custom.structural import (
    JUNCTORS,
    inconvertible,
    structural_errors,
)
from controlplane.apiserver.kinds.custom.validation import validate
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = ["schema_errors"]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")
_META: Final = ("metadata", "kind", "apiVersion")
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_MAP_TYPE: Final = "x-kubernetes-map-type"
_KEYS: Final = "x-kubernetes-list-map-keys"

_AT_ROOT: Final = (
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
)
"""The keywords allowed at the root if the status is a subresource, by the names of upstream's fields."""

_UNSUPPORTED: Final = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
"""Words of JSON schema that definitions may not use, in the order in which they are looked for."""
_EMPTY_IS_NONE: Final = ("id", "patternProperties", "definitions")


def schema_errors(schema: Tree, path: str, *, status: bool) -> list[FieldError]:
    """Return the errors of the schema of a version. `status`: its status is a subresource.

    Rules are compiled only where the schema is structural and its defaults fit.
    """
    errors = _root_errors(schema, path) if status else []
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    problem = inconvertible(schema)
    costs = None
    if not problem:
        found = structural_errors(schema, path) or list(_default_errors(schema, path, Budget()))
        errors += found
        costs = None if found else Costs()
    place = None if costs is None else Place(costs)
    parts = _Errors()
    _walk(schema, path, _Inside(), place, parts, root=True)
    errors += [*parts.schema, *parts.rules]
    if problem and not errors:
        return [invalid(path, "", problem)]
    return errors if costs is None else [*errors, *costs.total_problems(path)]


def _root_errors(schema: Tree, path: str) -> list[FieldError]:
    shown = internal_schema(schema)
    nothing = internal_schema({})
    for name, value in shown.items():
        if value == nothing[name]:
            continue
        if name == "Type" and value != "object":
            text = (
                'only "object" is allowed as the type at the root of the schema if the status '
                "subresource is enabled"
            )
            return [invalid(f"{path}.type", value, text)]
        if name not in _AT_ROOT:
            text = (
                f"only [{' '.join(_AT_ROOT)}] fields are allowed at the root of the schema if the "
                "status subresource is enabled"
            )
            return [invalid(path, shown, text)]
    return []


# -- defaults ------------------------------------------------------------------------------------


def _default_errors(schema: Tree, path: str, budget: Budget) -> Iterator[FieldError]:
    """Yield the errors of defaults that do not fit their schema, or violate its rules.

    Those inside additionalProperties are not looked at. Upstream: pkg/apiserver/schema/defaulting/validation.go.
    """
    default = schema.get("default")
    if default is not None:
        root = bool(schema.get(_EMBEDDED))
        if isinstance(default, dict | list) and default != pruned(
            default, schema, "", [], root=root
        ):
            yield invalid(f"{path}.default", default, "must not have unknown fields")
        unfit = list(validate(default, schema))
        for error in unfit:
            inner = f".{error.field}" if error.field not in ("", "<nil>") else ""
            yield FieldError(error.reason, f"{path}.default{inner}", error.value, error.detail)
        if not unfit:
            yield from _violated_by_default(default, schema, path, budget)
    if budget.left < 0:
        return
    if isinstance(schema.get("items"), dict):
        yield from _default_errors(schema["items"], f"{path}.items", budget)
    for name, part in sorted((schema.get("properties") or {}).items()):
        yield from _default_errors(part, f"{path}.properties[{name}]", budget)


def _violated_by_default(default: Any, schema: Tree, path: str, budget: Budget) -> list[FieldError]:
    """Rules that a default violates, where it stays as it is and where it is new."""
    places = ruled_places(schema)
    root = bool(schema.get(_EMBEDDED))
    errors: list[FieldError] = []
    left = budget.left
    for old in (default, UNSET) if places else ():
        trial = Budget(left)
        errors += apply_rules(
            default, schema, f"{path}.default", old, places=places, root=root, budget=trial
        )
        budget.left = min(budget.left, trial.left)
        if errors:
            break
    return errors


# -- the schema and its parts --------------------------------------------------------------------


@frozen
class _Inside:
    """The context of a part: within the metadata of an object, and why it may have no default."""

    meta: bool = False
    no_default: str = ""


@frozen(eq=False)
class _Errors:
    """Errors of schemas, and those of their rules, which come last."""

    schema: list[FieldError] = field(factory=list)
    rules: list[FieldError] = field(factory=list)


def _walk(
    schema: Tree,
    path: str,
    inside: _Inside,
    place: Place | None,
    errors: _Errors,
    *,
    root: bool = False,
) -> None:
    """Add what is wrong with a schema and its parts; without `place` rules are not compiled."""
    own = _Errors()
    said = own.schema
    said += _standard_errors(schema, path, inside)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        said.append(forbidden(f"{path}.uniqueItems", text))
    properties = schema.get("properties") or {}
    embedded = root or bool(schema.get(_EMBEDDED))
    kind = None if place is None else place.declared
    if place is not None and kind is None and schema.get(RULES):
        kind = declared(schema, root=embedded)
    more = schema.get("additionalProperties")
    if more is not None:
        here = f"{path}.additionalProperties"
        if properties and more is not True:
            text = "additionalProperties and properties are mutual exclusive"
            said.append(forbidden(here, text))
        if isinstance(more, dict):
            within = inside
            if inside.meta:
                reason = "inside additionalProperties applying to object metadata"
                within = evolve(inside, no_default=reason)
            _walk(more, here, within, _within(place, schema, kind and kind.element), own)
    for name, part in sorted(properties.items()):
        within = inside
        if embedded and name in _META:
            reason = f"in top-level {name}" if root else inside.no_default
            within = _Inside(meta=True, no_default=reason)
        # Only types of maps that do not exist have no former state.
        loose = "" if schema.get(_MAP_TYPE) in (None, *_MAP_TYPES) else path
        inner = _within(place, schema, _field(kind, name), loose)
        _walk(part, f"{path}.properties[{name}]", within, inner, own)
    for key, part in _unstructured(schema):
        _walk(part, f"{path}.{key}", inside, None, own)
    items = schema.get("items")
    if items is not None:
        loose = "" if schema.get(_LIST_TYPE) == "map" else path
        inner = _within(place, schema, kind and kind.element, loose)
        if isinstance(items, dict):
            _walk(items, f"{path}.items", inside, inner, own)
        else:
            for index, part in enumerate(items):
                _walk(part, f"{path}.items[{index}]", inside, inner, own)
    for name, part in sorted((schema.get("dependencies") or {}).items()):
        if isinstance(part, dict):
            _walk(part, f"{path}.dependencies[{name}]", inside, None, own)
    said += _extension_errors(schema, path)
    said += rule_forms(schema, path)
    if place is not None and not said:
        own.rules.extend(rule_mistakes(schema, path, place, kind))
    errors.schema.extend(own.schema)
    errors.rules.extend(own.rules)


def _within(
    place: Place | None, schema: Tree, kind: Declared | None, loose: str = ""
) -> Place | None:
    """The place of a part of a schema, of which there are many in lists and maps."""
    if place is None:
        return None
    many = repeated(place.many, schema)
    return evolve(place, loose=place.loose or loose, many=many, declared=kind)


def _field(kind: Declared | None, name: str) -> Declared | None:
    """The declaration of a property of an object."""
    code = escaped(name)
    return None if kind is None or kind.fields is None or not code else kind.fields.get(code)


def _unstructured(schema: Tree) -> Iterator[tuple[str, Tree]]:
    """The parts that are no part of the structure."""
    if isinstance(schema.get("not"), dict):
        yield "not", schema["not"]
    for key in JUNCTORS:
        for index, part in enumerate(schema.get(key) or ()):
            yield f"{key}[{index}]", part
    for name, part in sorted((schema.get("definitions") or {}).items()):
        yield f"definitions[{name}]", part


def _standard_errors(schema: Tree, path: str, inside: _Inside) -> Iterator[FieldError]:
    """Words of JSON schema that are not supported, or not here."""
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES, typed=False)
    if schema.get("default") is not None and inside.no_default:
        yield forbidden(f"{path}.default", f"must not be set {inside.no_default}")
    for key in _UNSUPPORTED:
        value = schema.get(key)
        if value is not None and (value or key not in _EMPTY_IS_NONE):
            yield forbidden(f"{path}.{key}", f"{key} is not supported")
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        yield forbidden(f"{path}.type", text)
    if schema.get("items") and isinstance(schema["items"], list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if inside.meta and schema.get(_EMBEDDED):
        yield forbidden(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta")


def _extension_errors(schema: Tree, path: str) -> Iterator[FieldError]:
    """Yield the errors of the Kubernetes extensions of a schema."""
    kind = schema.get("type", "")
    if schema.get(PRESERVE) is False:
        yield invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    map_type, list_type = schema.get(_MAP_TYPE), schema.get(_LIST_TYPE)
    if map_type is not None:
        if kind != "object":
            yield _type_wanted(kind, path, "must be object if x-kubernetes-map-type is specified")
        if map_type not in _MAP_TYPES:
            yield not_supported(
                f"{path}.{_MAP_TYPE}", map_type, _MAP_TYPES, sort=False, typed=False
            )
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if list_type is not None and kind != "array":
        yield _type_wanted(kind, path, "must be array if x-kubernetes-list-type is specified")
    elif list_type == "set" and items is not None:
        yield from _set_errors(items, f"{path}.items")
    if list_type is not None and list_type not in _LIST_TYPES:
        yield not_supported(f"{path}.{_LIST_TYPE}", list_type, _LIST_TYPES, sort=False, typed=False)
    keys = schema.get(_KEYS) or []
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.{_LIST_TYPE}"
        yield required(where, text) if list_type is None else invalid(where, list_type, text)
    if list_type == "map":
        yield from _map_errors(schema, items, keys, path)
    if list_type in ("set", "map") and items is not None:
        yield from _key_errors(items, list_type, keys, f"{path}.items")


def _type_wanted(kind: str, path: str, text: str) -> FieldError:
    return invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)


def _set_errors(items: Tree, path: str) -> Iterator[FieldError]:
    """Items of a set are compared whole."""
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    told = items.get(_LIST_TYPE)
    if items.get("type") == "array" and told not in (None, "atomic"):
        yield invalid(f"{path}.{_LIST_TYPE}", told, text)
    if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        yield invalid(f"{path}.{_MAP_TYPE}", told, text)  # as upstream: the other word's value


def _map_errors(
    schema: Tree, items: Tree | None, keys: list[Any], path: str
) -> Iterator[FieldError]:
    """A list that is a map has keys, which its items have as scalars."""
    where = f"{path}.{_KEYS}"
    if not keys:
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    if schema.get("items") is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if items is None:
        return
    kind = items.get("type", "")
    if kind != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", kind, text)
        return
    seen: dict[Any, None] = {}
    for key in keys:
        part = (items.get("properties") or {}).get(key)
        if part is None:
            yield invalid(where, keys, "entries must all be names of item properties")
        elif part.get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", kind, text)
        if key in seen:
            yield invalid(where, keys, "must not contain duplicate entries")
        seen[key] = None


def _key_errors(items: Tree, list_type: str, keys: list[Any], path: str) -> Iterator[FieldError]:
    """Yield the errors of an item's keys, which must be neither null nor missing."""
    if items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield forbidden(f"{path}.nullable", text)
    if list_type != "map":
        return
    for key in keys:
        part = (items.get("properties") or {}).get(key)
        if part is None:
            continue
        here = f"{path}.properties[{key}]"
        if key not in (items.get("required") or ()) and part.get("default") is None:
            text = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a "
                "required property"
            )
            yield required(f"{here}.default", text)
        if part.get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{here}.nullable", text)
