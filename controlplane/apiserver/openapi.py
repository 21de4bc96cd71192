"""OpenAPI: the little that kubectl needs to know that the server validates fields itself.

`/openapi/v3` lists one document per group version; each document has, per kind, the PATCH operation
with its query parameters, and the schemas of the types. `/openapi/v2` is an empty document in the
protobuf form that old clients ask for.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.resources import ResourceInfo
from controlplane.apiserver.schema import load_data

if TYPE_CHECKING:
    from controlplane.apiserver.server import ApiServer

__all__ = ["document", "index", "path_of"]

Tree = dict[str, Any]

_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
_PRIMITIVES: dict[str, Tree] = {
    "string": {"type": "string"}, "boolean": {"type": "boolean"},
    "integer": {"type": "integer", "format": "int64"},
    "integer:int32": {"type": "integer", "format": "int32"},
    "integer:int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"}, "number:double": {"type": "number", "format": "double"},
    "string:byte": {"type": "string", "format": "byte"},
    "string:date-time": {"type": "string", "format": "date-time"},
    "string:int-or-string": {"oneOf": [{"type": "integer"}, {"type": "string"}],
                             "format": "int-or-string"},
    "object": {"type": "object"}, "any": {},
}  # fmt: skip


def path_of(group: str, version: str) -> str:
    """The name of a group version's document."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(server: ApiServer) -> Tree:
    """The list of documents."""
    seen = dict.fromkeys((info.group, info.version) for info in server.table)
    paths: Tree = {}
    for group, version in seen:
        name = path_of(group, version)
        raw = json.dumps(document(server, group, version), sort_keys=True).encode()
        digest = hashlib.sha256(raw).hexdigest().upper()
        paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
    return {"paths": paths}


def _reference(declared: Any) -> Tree:
    if isinstance(declared, list):
        return {"type": "array", "items": _reference(declared[0])}
    if isinstance(declared, dict):
        return {"type": "object", "additionalProperties": _reference(declared["map"])}
    if declared in _PRIMITIVES:
        return _PRIMITIVES[declared]
    return {"allOf": [{"$ref": f"#/components/schemas/{declared}"}]}


@cache
def _schema(name: str) -> Tree:
    declared = load_data("types")["types"][name]
    if "fields" not in declared:
        return dict(_PRIMITIVES.get(declared["type"], {"type": "object"}))
    tree: Tree = {
        "type": "object",
        "properties": {key: _reference(field["type"]) for key, field in declared["fields"].items()},
    }
    if declared.get("required"):
        tree["required"] = declared["required"]
    if declared.get("gvk"):
        tree["x-kubernetes-group-version-kind"] = declared["gvk"]
    return tree


def _used(name: str, found: dict[str, None]) -> None:
    if name in found:
        return
    found[name] = None
    for field in load_data("types")["types"][name].get("fields", {}).values():
        declared = field["type"]
        while not isinstance(declared, str):
            declared = declared[0] if isinstance(declared, list) else declared["map"]
        if declared not in _PRIMITIVES:
            _used(declared, found)


def _paths_of(info: ResourceInfo) -> tuple[str, Tree]:
    base = f"/{path_of(info.group, info.version)}"
    if info.namespaced:
        base += "/namespaces/{namespace}"
    operation = {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": info.group, "version": info.version, "kind": info.kind,
        },
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS
        ],
        "responses": {"200": {"description": "OK"}},
    }  # fmt: skip
    return f"{base}/{info.resource}/{{name}}", {"patch": operation}


def document(server: ApiServer, group: str, version: str) -> Tree:
    """The document of one group version."""
    paths: Tree = {}
    schemas: dict[str, None] = {}
    custom: Tree = {}
    for info in server.table.in_version(group, version):
        if "patch" in info.verbs:
            path, operations = _paths_of(info)
            paths[path] = operations
        if info.custom is not None:
            gvk = {"group": group, "version": version, "kind": info.kind}
            reverse = ".".join(reversed(group.split(".")))
            custom[f"{reverse}.{version}.{info.kind}"] = {
                **info.custom.schema,
                "x-kubernetes-group-version-kind": [gvk],
            }
        elif info.type_name:
            _used(info.type_name, schemas)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.2"},
        "paths": paths,
        "components": {"schemas": {**{name: _schema(name) for name in sorted(schemas)}, **custom}},
    }
