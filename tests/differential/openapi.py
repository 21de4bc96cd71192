"""The fields of every kind, as a server's OpenAPI documents tell them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from attrs import field, frozen

from tests.differential import hostile

Json = Any


@frozen
class Schemas:
    """All named schemas, and the name of each kind's by apiVersion and kind."""

    named: dict[str, Json] = field(factory=dict)
    kinds: dict[tuple[str, str], str] = field(factory=dict)

    def of_kind(self, api_version: str, kind: str) -> Json:
        """The schema of a kind, {} if it is unknown."""
        return self.named.get(self.kinds.get((api_version, kind), ""), {})

    def whole(self, schema: Json) -> Json:
        """A schema with its reference followed."""
        for _ in range(4):
            each = schema.get("allOf")
            if isinstance(each, list) and each:
                schema = {**schema, **each[0]}
                schema.pop("allOf", None)
            reference = schema.get("$ref")
            if not reference:
                return schema
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**rest, **self.named.get(reference.rpartition("/")[2], {})}
        return schema


def read(get: Callable[[str], Json]) -> Schemas:
    """Ask for every document of `/openapi/v3`; `get` returns the parsed answer to a path."""
    found = Schemas()
    paths = (get("/openapi/v3") or {}).get("paths") or {}
    for name in sorted(paths):
        url = paths[name]["serverRelativeURL"]
        document = get(url) or {}
        schemas = (document.get("components") or {}).get("schemas") or {}
        for schema_name in sorted(schemas):
            schema = schemas[schema_name]
            found.named[schema_name] = schema
            kinds = schema.get("x-kubernetes-group-version-kind") or []
            if len(kinds) == 1:
                kind = kinds[0]
                group = f"{kind['group']}/" if kind["group"] else ""
                found.kinds[f"{group}{kind['version']}", kind["kind"]] = schema_name
    return found


def sample(schemas: Schemas, schema: Json, random: Random, depth: int = 0) -> Json:
    """A value that a schema allows, or nearly: leaves are often hostile."""
    schema = schemas.whole(schema)
    kind = schema.get("type")
    if schema.get("enum") and random.random() < 0.7:
        return random.choice(schema["enum"])
    if random.random() < 0.06:
        return random.choice(hostile.OTHERS)
    if kind == "array":
        many = random.choice((0, 1, 1, 1, 2))
        return [sample(schemas, schema.get("items", {}), random, depth + 1) for _ in range(many)]
    if kind == "object" or "properties" in schema:
        return _object(schemas, schema, random, depth)
    if kind == "boolean":
        return random.random() < 0.5
    if kind in ("integer", "number"):
        return random.choice(hostile.NUMBERS) if random.random() < 0.5 else random.choice((0, 1, 5))
    if schema.get("format") == "date-time":
        return random.choice(("2020-01-01T00:00:00Z", "2040-01-01T00:00:00.000001Z", "x"))
    return random.choice(hostile.STRINGS)


def _object(schemas: Schemas, schema: Json, random: Random, depth: int) -> Json:
    properties = schema.get("properties")
    if not properties:
        inner = schema.get("additionalProperties")
        if not isinstance(inner, dict):
            return random.choice(({}, {"a": "b"}))
        keys = random.sample(
            ("a", "b", "cpu", "memory", "-", "example.com/x"), random.choice((0, 1, 1, 2))
        )
        return {key: sample(schemas, inner, random, depth + 1) for key in keys}
    required = [name for name in schema.get("required") or () if random.random() < 0.95]
    room = max(0, 3 - depth)
    others = [name for name in sorted(properties) if name not in required]
    more = random.sample(others, min(len(others), random.randint(0, room))) if others else []
    return {
        name: sample(schemas, properties[name], random, depth + 1) for name in [*required, *more]
    }
