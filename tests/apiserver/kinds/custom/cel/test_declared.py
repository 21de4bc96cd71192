import pytest

from controlplane.apiserver.kinds.custom.cel.declared import REQUEST_SIZE, declared, escaped

TEXT = REQUEST_SIZE - 2


@pytest.mark.parametrize(
    ("schema", "most", "least"),
    [
        ({"type": "string"}, TEXT, 2),
        ({"type": "string", "maxLength": 10}, 40, 2),
        ({"type": "string", "maxLength": -1}, 0, 2),
        ({"type": "string", "enum": ["a", "äb"]}, 3, 2),
        ({"type": "string", "enum": ["a"], "maxLength": 2}, 8, 2),
        ({"type": "string", "format": "byte", "maxLength": 10}, 10, 2),
        ({"type": "string", "format": "duration", "maxLength": 3}, 32, 3),
        ({"type": "string", "format": "date"}, 12, 12),
        ({"type": "string", "format": "date-time"}, 32, 21),
        ({"x-kubernetes-int-or-string": True}, TEXT, 1),
        ({"x-kubernetes-int-or-string": True, "maxLength": 3}, 12, 1),
        ({"type": "integer"}, 0, 1),
        ({"type": "boolean"}, 0, 4),
        ({"type": "array", "items": {"type": "integer"}}, TEXT // 2, 2),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 7}, 7, 2),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, TEXT // 10, 2),
        ({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3}, 3, 2),
        ({"type": "object", "required": ["ab", "c"], "properties": {
            "ab": {"type": "integer"}, "c": {"type": "integer", "default": 1}}}, 0, 2 + 2 + 1 + 4),
    ],
)  # fmt: skip
def test_a_schema_bounds_the_size_of_its_values(schema, most, least):
    found = declared(schema)
    assert (found.most, found.least) == (most, least)


def test_a_resource_has_its_names_though_its_schema_has_none():
    found = declared({"type": "object"}, root=True)
    assert sorted(found.fields) == ["apiVersion", "kind", "metadata"]
    assert sorted(found.fields["metadata"].fields) == ["generateName", "name"]


def test_rules_see_nothing_of_values_without_a_type():
    assert declared({"x-kubernetes-preserve-unknown-fields": True}) is None
    assert declared({"type": "array", "items": {}}) is None
    assert declared({"type": "object", "properties": {"a": {}}}).fields == {}


@pytest.mark.parametrize(
    ("name", "code"),
    [("a", "a"), ("namespace", "__namespace__"), ("a-b", "a__dash__b"), ("a__b", "a__underscores__b"),
     (".x/y", "__dot__x__slash__y"), ("9a", None), ("é", None), ("", None), ("a b", None)],
)  # fmt: skip
def test_a_property_has_an_identifier(name, code):
    assert escaped(name) == code
