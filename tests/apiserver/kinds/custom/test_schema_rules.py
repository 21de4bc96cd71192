"""What the schema of a definition may say."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.custom.schema_rules import schema_errors
from controlplane.apiserver.kinds.custom.structural import inconvertible, structural_errors

Schema = dict[str, Any]


def root(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def said(schema: Schema, *, status: bool = False) -> list[str]:
    return [str(error) for error in schema_errors(schema, "s", status=status)]


def test_a_plain_schema_is_fine():
    assert said(root(spec={"type": "object", "properties": {"a": {"type": "integer"}}})) == []


STRUCTURAL = {
    "no type at the root": ({}, ["s.type: Required value: must not be empty at the root"]),
    "another type at the root": (
        {"type": "array", "items": {"type": "string"}},
        ['s.type: Invalid value: "array": must be object at the root'],
    ),
    "no items": (root(a={"type": "array"}), ["s.properties[a].items: Required value: must be specified"]),
    "a map at the root": (
        {"type": "object", "additionalProperties": {"type": "string"}},
        ["s.additionalProperties: Forbidden: must not be used at the root"],
    ),
    "a type in a junctor": (
        root(a={"type": "string", "anyOf": [{"type": "string"}]}),
        ["s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
    ),
    "a map type in a junctor": (
        root(a={"type": "object", "allOf": [{"x-kubernetes-map-type": "atomic"}]}),
        ["s.properties[a].allOf[0].x-kubernetes-map-type: Forbidden: must be undefined to be structural"],
    ),
    "a field that only a junctor knows": (
        root(a={"type": "string"}) | {"not": {"properties": {"b": {"minimum": 1}}}},
        ["s.properties[b]: Required value: because it is defined in s.not.properties[b]"],
    ),
    "more of the metadata than names": (
        root(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
        ["s.properties[metadata]: Forbidden: must not specify anything other than name and "
         "generateName, but metadata is implicitly specified"],
    ),
    "metadata in a junctor": (
        root(metadata={"type": "object"}) | {"anyOf": [{"properties": {"metadata": {}}}]},
        ["s.anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context"],
    ),
    "an embedded object that says nothing": (
        root(a={"type": "object", "x-kubernetes-embedded-resource": True}),
        ["s.properties[a].properties: Required value: must not be empty if "
         "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"],
    ),
    "no pattern": (
        root(a={"type": "string", "pattern": "("}),
        ['s.properties[a].pattern: Invalid value: "(": must be a valid regular expression, but '
         "isn't: error parsing regexp: missing closing ): `(`"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STRUCTURAL)
def test_what_is_not_structural_is_told(case: str):
    schema, expected = STRUCTURAL[case]
    assert [str(error) for error in structural_errors(schema, "s")] == expected


def test_names_of_the_metadata_may_be_restricted():
    named = {"name": {"type": "string", "maxLength": 5}, "generateName": {"type": "string"}}
    assert said(root(metadata={"type": "object", "properties": named})) == []


def test_an_integer_or_a_string_may_be_described_by_a_pair():
    pair = [{"type": "integer"}, {"type": "string"}]
    assert said(root(a={"x-kubernetes-int-or-string": True, "anyOf": pair})) == []
    assert said(root(a={"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": pair}]})) == []


RULES = {
    "both properties and a map": (
        {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}},
        ["s.properties[a].additionalProperties: Forbidden: additionalProperties and properties are "
         "mutual exclusive"],
    ),
    "a map list without keys": (
        {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}},
        ["s.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if "
         "x-kubernetes-list-type is map"],
    ),
    "a key that may be missing": (
        {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
         "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
        ["s.properties[a].items.properties[k].default: Required value: this property is in "
         "x-kubernetes-list-map-keys, so it must have a default or be a required property"],
    ),
    "keys of no map": (
        {"type": "array", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "string"}},
        ["s.properties[a].x-kubernetes-list-type: Required value: must be map if "
         "x-kubernetes-list-map-keys is non-empty"],
    ),
    "a set of maps that merge": (
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}},
        ["s.properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of "
         "a list with x-kubernetes-list-type=set"],
    ),
    "a list type of no list": (
        {"type": "string", "x-kubernetes-list-type": "set"},
        ['s.properties[a].type: Invalid value: "string": must be array if x-kubernetes-list-type is '
         "specified"],
    ),
    "an unknown map type": (
        {"type": "object", "x-kubernetes-map-type": "x"},
        ['s.properties[a].x-kubernetes-map-type: Unsupported value: "x": supported values: "atomic", '
         '"granular"'],
    ),
    "unknown fields that are not kept": (
        {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
        ["s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or "
         "undefined"],
    ),
    "a default with a field that nobody knows": (
        {"type": "object", "properties": {"b": {"type": "string"}}, "default": {"c": 1}},
        ['s.properties[a].default: Invalid value: {"c":1}: must not have unknown fields'],
    ),
    "an empty reference": (
        {"type": "string", "$ref": ""}, ["s.properties[a].$ref: Forbidden: $ref is not supported"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RULES)
def test_what_a_part_may_not_say_is_told(case: str):
    schema, expected = RULES[case]
    assert said(root(a=schema)) == expected


def test_the_top_level_metadata_have_no_defaults():
    named = {"name": {"type": "string", "default": "a"}}
    assert said(root(metadata={"type": "object", "properties": named})) == [
        "s.properties[metadata].properties[name].default: Forbidden: must not be set in top-level "
        "metadata"
    ]


def test_a_part_is_told_of_before_what_is_in_it_and_its_extensions_after():
    inner = {"type": "b-", "x-kubernetes-list-type": "x"}
    outer = {"type": "a-", "properties": {"b": inner}, "x-kubernetes-map-type": "y"}
    fields = [error.field for error in schema_errors(root(a=outer), "s", status=False)]
    assert fields == [
        "s.properties[a].type", "s.properties[a].properties[b].type",
        "s.properties[a].properties[b].type", "s.properties[a].properties[b].x-kubernetes-list-type",
        "s.properties[a].type", "s.properties[a].x-kubernetes-map-type",
    ]  # fmt: skip


def test_rules_are_compiled_only_where_the_schema_is_structural():
    rule = {"x-kubernetes-validations": [{"rule": "self.nothing == 1"}]}
    wrong = root(a={"type": "object", **rule})
    assert any("compilation failed" in text for text in said(wrong))
    unstructured = root(a={"type": "object", **rule}, b={"type": "array"})
    assert said(unstructured) == ["s.properties[b].items: Required value: must be specified"]


def test_a_schema_that_cannot_be_converted_is_told_of_only_if_nothing_else_is_wrong():
    schema = root(a={"type": "string", "$schema": "x"})
    assert inconvertible(schema) == "OpenAPIV3Schema 'schema' is not supported"
    assert said(schema) == ["s: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"]


def test_with_a_status_subresource_only_some_words_stand_at_the_root():
    assert said(root() | {"enum": [{}]}, status=True)[0].endswith(
        "fields are allowed at the root of the schema if the status subresource is enabled"
    )
    assert said(root() | {"description": "x"}, status=True) == []


def test_a_default_may_not_violate_the_rules_of_its_schema():
    rules = [{"rule": "self.a > 1", "message": "too small"}]
    part = {
        "type": "object", "default": {"a": 1}, "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": rules,
    }  # fmt: skip
    assert said(root(spec=part)) == ["s.properties[spec].default: Invalid value: too small"]
    assert said(root(spec={**part, "default": {"a": 2}})) == []


def test_a_default_is_new_where_a_rule_asks_for_a_former_value():
    rule = {"rule": "oldSelf.hasValue() || self > 1", "optionalOldSelf": True, "message": "new"}
    part = {"type": "integer", "default": 1, "x-kubernetes-validations": [rule]}
    assert said(root(a=part)) == ["s.properties[a].default: Invalid value: 1: new"]


LOOSE = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}


def test_a_transition_rule_stands_where_values_have_a_former_state():
    inner = {"id": {"type": "string"}, "b": LOOSE}
    item = {"type": "object", "properties": inner, "required": ["id"]}
    keyed = {
        "type": "array", "maxItems": 5, "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
    }  # fmt: skip
    assert said(root(a=keyed)) == []
    assert said(root(a={"type": "object", "maxProperties": 5, "additionalProperties": LOOSE})) == []
    whole = {"type": "object", "properties": {"b": LOOSE}, "x-kubernetes-map-type": "atomic"}
    assert said(root(a=whole)) == []
    text = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
    for kind in ("set", "atomic"):
        plain = {"type": "array", "maxItems": 5, "items": LOOSE, "x-kubernetes-list-type": kind}
        (error,) = said(root(a=plain))
        assert error.endswith(f"{text} s.properties[a]")
