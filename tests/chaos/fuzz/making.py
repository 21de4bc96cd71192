"""What a server serves, found by walking its discovery, and objects made from the schema of its kinds."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from attrs import frozen

from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.apiserver.schema.types import Field, Kind, StructType

Json = Any
DEPTH = 5
WORDS = (
    "a",
    "b",
    "app",
    "Always",
    "Never",
    "ClusterIP",
    "TCP",
    "Equal",
    "Exists",
    "In",
    "",
    "*",
    "-1",
    "10%",
    "1.2.3.4",
    "10.0.0.0/24",
    "a.b.io/c",
    "{}",
    "/x",
    "*/5 * * * *",
    "é",
    "A_b",
    "x" * 300,
    "default",
    "x",
    "o",
    "things.x.io",
    "a in (b)",
    "self == 1",
    "object.metadata.name == 'a'",
    "v1",
)
_VALUES = {
    Kind.STRING: WORDS,
    Kind.BOOL: (True, False),
    Kind.INT: (0, 1, 3, 80, -1, 65536, 2**31, 2**63 - 1),
    Kind.NUMBER: (0, 0.5, -1.5),
    Kind.BYTES: ("", "YQ==", "?"),
    Kind.TIME: (None, "2030-01-01T00:00:00Z", "soon"),
    Kind.MICRO_TIME: (None, "2030-01-01T00:00:00.000001Z", "soon"),
    Kind.QUANTITY: ("1", "100m", "1Gi", "-1", "x", 3, "1e99999", "0.0000000001"),
    Kind.INT_OR_STRING: (1, "25%", "http", -1),
    Kind.OPAQUE: ({}, {"a": 1}, "x", [1], None, {"kind": "X", "apiVersion": "x/v1"}),
}


@frozen
class Served:
    """A resource as discovery tells of it. `subresources`: name, verbs, and what kind it speaks."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    subresources: tuple[tuple[str, tuple[str, ...], str, str], ...] = ()

    @property
    def api_version(self) -> str:
        """`group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str) -> str:
        """Where its objects are."""
        root = f"/apis/{self.group}" if self.group else "/api"
        middle = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{root}/{self.version}{middle}/{self.resource}"


def walked(get: Any) -> list[Served]:
    """All resources that a server serves; `get` answers a path with a tree."""
    found: list[Served] = []
    versions = [("", version) for version in get("/api")["versions"]]
    for group in get("/apis")["groups"]:
        versions += [(group["name"], each["version"]) for each in group["versions"]]
    for group, version in versions:
        entries = get(f"/apis/{group}/{version}" if group else f"/api/{version}")["resources"]
        for entry in entries:
            if "/" in entry["name"]:
                continue
            under = tuple(
                (
                    each["name"].partition("/")[2],
                    tuple(each["verbs"]),
                    _api_version(each, group, version),
                    each["kind"],
                )
                for each in entries
                if each["name"].startswith(f"{entry['name']}/")
            )
            found.append(
                Served(
                    group,
                    version,
                    entry["name"],
                    entry["kind"],
                    entry["namespaced"],
                    tuple(entry["verbs"]),
                    under,
                )
            )
    return found


def _api_version(entry: Json, group: str, version: str) -> str:
    group, version = entry.get("group", group), entry.get("version", version)
    return f"{group}/{version}" if group else version


_TABLE = builtin_resources()


def made(draw: Random, served: Served, name: str) -> Json:
    """An object of a kind that is mostly as its schema says."""
    info = _TABLE.get(served.group, served.version, served.resource)
    if info is None:
        tree = {"spec": draw.choice(_CUSTOM_SPECS), "status": draw.choice(({}, {"size": 1}, 3))}
    else:
        tree = _struct(draw, info.type, DEPTH)
    tree |= {"apiVersion": served.api_version, "kind": served.kind}
    tree["metadata"] = {"name": name}
    while draw.random() < 0.3:
        tree["metadata"] |= json.loads(json.dumps(draw.choice(_META)))
    return tree


_META: tuple[Json, ...] = (
    {"labels": {"a": "b", "app": "x"}},
    {"annotations": {"x/y": "z"}},
    {"finalizers": ["a.io/b"]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]},
    {"generateName": "g-", "name": ""},
    {"resourceVersion": "@rv@"},
    {"resourceVersion": "@old@"},
    {"uid": "@uid@"},
    {"deletionTimestamp": "2030-01-01T00:00:00Z"},
    {"generation": 7},
    {
        "managedFields": [
            {
                "manager": "m",
                "operation": "Apply",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {}}},
            }
        ]
    },
    {"managedFields": [{}]},
    {"managedFields": []},
    {"creationTimestamp": None},
)
_CUSTOM_SPECS: tuple[Json, ...] = (
    {"size": 1},
    {"size": 1, "parts": ["a"]},
    {"size": 9},
    {"size": -1},
    {"size": 2, "any": {"x": [1]}},
    {"size": "1"},
    {"parts": ["b"], "size": 1},
    {"size": 3, "unknown": {"a": [None]}},
    [],
    7,
    None,
)


def _struct(draw: Random, struct: StructType, depth: int) -> Json:
    if depth <= 0:
        return {}
    optional = [name for name, field in struct.fields.items() if not field.required]
    names = [
        name for name, field in struct.fields.items() if field.required and draw.random() < 0.93
    ]
    if optional:
        names += draw.sample(optional, min(draw.choice((0, 1, 1, 2, 3)), len(optional)))
    return {name: value(draw, struct.fields[name], depth) for name in names if name != "metadata"}


def value(draw: Random, field: Field, depth: int) -> Json:
    """A value for a field."""
    if field.enum and draw.random() < 0.8:
        return draw.choice(field.enum)
    if field.kind == Kind.LIST:
        assert field.element is not None
        return [value(draw, field.element, depth) for _ in range(draw.choice((0, 1, 1, 2)))]
    if field.kind == Kind.MAP:
        assert field.element is not None
        return {
            draw.choice(WORDS): value(draw, field.element, depth)
            for _ in range(draw.choice((0, 1, 2)))
        }
    if field.kind == Kind.STRUCT:
        return _struct(draw, field.struct, depth - 1)
    if field.name == "name" or field.name.endswith("Name"):
        return draw.choice(("a", "b", "x", "default", "A b"))
    return draw.choice(_VALUES[field.kind])
