"""The versions of a definition as upstream's internal types print: refusals quote them."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree

__all__ = ["internal_part", "internal_schema"]

_SCHEMA = (
    'ID:"" Schema:"" Ref:? Description:"" Type:"" Nullable:false Format:"" Title:"" Default:? '
    "Maximum:? ExclusiveMaximum:false Minimum:? ExclusiveMinimum:false MaxLength:? MinLength:? "
    'Pattern:"" MaxItems:? MinItems:? UniqueItems:false MultipleOf:? Enum:? MaxProperties:? '
    "MinProperties:? Required:? Items:items AllOf:[] OneOf:[] AnyOf:[] Not:* Properties:{} "
    "AdditionalProperties:bool PatternProperties:{} Dependencies:{} AdditionalItems:bool "
    "Definitions:{} ExternalDocs:docs Example:? XPreserveUnknownFields:? XEmbeddedResource:false "
    "XIntOrString:false XListMapKeys:? XListType:? XMapType:? XValidations:rules"
)
"""Go field and what stands there when nothing is given, or how the value is made."""

_NAMES = {"ID": "id", "Schema": "$schema", "Ref": "$ref"}
_ZEROS: dict[str, Any] = {'""': "", "false": False}


def _json_name(name: str) -> str:
    known = _NAMES.get(name)
    if known is not None:
        return known
    if name[0] == "X" and name[1].isupper():
        words = "".join(f"-{char.lower()}" if char.isupper() else char for char in name[1:])
        prefix = "x-kubernetes"
        return prefix + words
    return name[0].lower() + name[1:]


def internal_schema(given: Tree) -> Tree:
    """A schema by the names of upstream's fields, those without a value included."""
    out: Tree = {}
    for entry in _SCHEMA.split():
        name, _, form = entry.partition(":")
        out[name] = _value(given.get(_json_name(name)), form)
    return out


def _value(value: Any, form: str) -> Any:
    if value is None:
        return _ZEROS.get(form)
    if form == "[]":
        return [internal_schema(item) for item in value]
    if form == "{}":
        return {
            key: internal_schema(item) if isinstance(item, dict) else item
            for key, item in sorted(value.items())
        }
    if form == "*":
        return internal_schema(value)
    if form == "items":
        if isinstance(value, list):
            return {"Schema": None, "JSONSchemas": [internal_schema(item) for item in value]}
        return {"Schema": internal_schema(value), "JSONSchemas": None}
    if form == "bool":
        if isinstance(value, bool):
            return {"Allows": value, "Schema": None}
        return {"Allows": True, "Schema": internal_schema(value)}
    if form == "docs":
        return _fields(value, (("Description", ""), ("URL", "")))
    if form == "rules":
        return [_fields(rule, _RULE) for rule in value]
    return value


_RULE = (
    ("Rule", ""),
    ("Message", ""),
    ("MessageExpression", ""),
    ("Reason", None),
    ("FieldPath", ""),
    ("OptionalOldSelf", None),
)
_COLUMN = (
    ("Name", ""),
    ("Type", ""),
    ("Format", ""),
    ("Description", ""),
    ("Priority", 0),
    ("JSONPath", ""),
)
_SCALE = (("SpecReplicasPath", ""), ("StatusReplicasPath", ""), ("LabelSelectorPath", None))


def _fields(given: Tree, fields: tuple[tuple[str, Any], ...]) -> Tree:
    special = {"JSONPath": "jsonPath", "URL": "url"}
    found = {}
    for name, zero in fields:
        value = given.get(special.get(name, name[0].lower() + name[1:]))
        found[name] = zero if value is None else value
    return found


def internal_part(name: str, value: Any) -> Any:
    """One part of a version (`schema`, `subresources` ...) in internal form; None for none."""
    if not value:
        return None
    if name == "schema":
        inner = value.get("openAPIV3Schema")
        return {"OpenAPIV3Schema": None if inner is None else internal_schema(inner)}
    if name == "subresources":
        scale = value.get("scale")
        return {
            "Status": value.get("status"),
            "Scale": None if scale is None else _fields(scale, _SCALE),
        }
    if name == "additionalPrinterColumns":
        return [_fields(column, _COLUMN) for column in value]
    return [_fields(item, (("JSONPath", ""),)) for item in value]
