"""OpenAPI v3: one document per group version, made from the schema table, and the index of them.

The documents carry what clients act on: types, required fields, defaults, enumerations, merge and
list rules, every operation with its parameters, and descriptions of types and fields.
Upstream: kube-openapi pkg/builder3 and pkg/handler3.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from controlplane.api.tree import Tree
from controlplane.apiserver.front import openapi_custom
from controlplane.apiserver.front.plain_text import TEXT, page_not_found
from controlplane.apiserver.front.served import Answer, Served
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema.descriptions import EDITION, field_text, type_text
from controlplane.apiserver.schema.releases import younger_fields
from controlplane.apiserver.schema.resources import ResourceInfo, SubresourceInfo
from controlplane.apiserver.schema.types import load_data

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["answer", "document", "index", "path_of", "schema", "used"]

_LEAVES: dict[str, Tree] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer", "format": "int64"},
    "integer:int32": {"type": "integer", "format": "int32"},
    "integer:int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "number:double": {"type": "number", "format": "double"},
    "string:byte": {"type": "string", "format": "byte"},
    "string:date-time": {"type": "string", "format": "date-time"},
    "string:int-or-string": {
        "oneOf": [{"type": "integer"}, {"type": "string"}],
        "format": "int-or-string",
    },
    "object": {"type": "object"},
    "any": {},
}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_EXTENSIONS = (
    ("listType", "x-kubernetes-list-type"),
    ("listMapKeys", "x-kubernetes-list-map-keys"),
    ("mapType", "x-kubernetes-map-type"),
    ("patchStrategy", "x-kubernetes-patch-strategy"),
    ("patchMergeKey", "x-kubernetes-patch-merge-key"),
)
_FEW_DOCUMENTS = (".well-known/openid-configuration", "openid/v1/jwks", "version")
_JSON = "application/json"
_V3_PROTOBUF = "application/com.github.proto-openapi.spec.v3"


# -- answering -----------------------------------------------------------------------------------


def answer(server: Served, path: str, http: HttpRequest) -> Answer:
    """The answer to a path below /openapi. ApiError 406."""
    if path == "/openapi/v3":
        text = json.dumps(index(server), separators=(",", ":"))
        return 200, {"Content-Type": TEXT}, None, text
    if not path.startswith("/openapi/v3/"):
        return page_not_found()
    name = path.removeprefix("/openapi/v3/")
    if name not in names(server):
        return 404, {}, None, ""
    return _document_answer(server, name, http)


def _document_answer(server: Served, name: str, http: HttpRequest) -> Answer:
    accept = http.headers.get("accept", "")
    if accept.startswith(_V3_PROTOBUF) and _JSON not in accept and "*/*" not in accept:
        return 406, {"Content-Type": TEXT}, None, ""
    digest = digest_of(server, name)
    asked = (http.query.get("hash") or [""])[0]
    if asked and asked != digest:
        place = f"/openapi/v3/{name}?hash={digest}"
        return 301, {"Content-Type": TEXT, "Location": place}, None, ""
    tag = f'"{digest}"'
    headers: dict[str, str | list[str]] = {"ETag": tag, "Vary": "Accept"}
    if asked:  # upstream says the same with an Expires header one year ahead
        headers["Cache-Control"] = "public, immutable, max-age=31536000"
    if http.headers.get("if-none-match") == tag:
        return 304, headers, None, ""
    made = remembered(digest, lambda: _document_named(server, name))
    return 200, {"Content-Type": _JSON, **headers}, made, None


_MADE: dict[str, Any] = {}
_KEPT = 64


def remembered(digest: str, make: Callable[[], Any]) -> Any:
    """Return the value remembered for this digest, or make it now: documents are long and often requested."""
    if digest not in _MADE:
        if len(_MADE) >= _KEPT:
            del _MADE[next(iter(_MADE))]
        _MADE[digest] = make()
    return _MADE[digest]


def _document_named(server: Served, name: str) -> Tree:
    area, _, rest = name.partition("/")
    group, _, version = rest.partition("/")
    if area == "apis" and version:
        return document(server, group, version)
    return document(server, "", rest) if area == "api" and rest else _head(server, {}, {})


def names(server: Served) -> dict[str, None]:
    """The names of all documents, in order. Of a group of custom resources only its versions have one."""
    found = []
    for info in server.table:
        found.append(path_of(info.group, info.version))
        if info.group and info.custom is None:
            found.append(f"apis/{info.group}")
    return dict.fromkeys(sorted(["api", "apis", *_FEW_DOCUMENTS, *found]))


def digest_of(server: Served, name: str) -> str:
    """Identifies the content of a document by what it is made from."""
    parts: list[Any] = [name, server.build, EDITION]
    for info in server.table:
        if path_of(info.group, info.version) == name:
            subs = [sub.entry for sub in info.subresources.values()]
            custom = info.custom
            parts.append(
                [
                    info.entry,
                    subs,
                    custom and (custom.schema, custom.list_kind, list(custom.selectable_fields)),
                ]
            )
    raw = json.dumps(parts, sort_keys=True).encode()
    return hashlib.sha512(raw).hexdigest().upper()


def path_of(group: str, version: str) -> str:
    """The name of a group version's document."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(server: Served) -> Tree:
    """The list of documents."""
    return {
        "paths": {
            name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest_of(server, name)}"}
            for name in names(server)
        }
    }


# -- types ---------------------------------------------------------------------------------------


def _named(declared: str, prefix: str, *, plain: bool) -> Tree:
    reference = {"$ref": f"{prefix}{declared}"}
    return reference if plain else {"allOf": [reference]}


def _reference(declared: Any, attributes: Tree, prefix: str, *, old: bool) -> Tree:
    """A field, element or value; `old` writes it as version 2 does, with bare references."""
    tree: Tree
    if isinstance(declared, list):
        inner = {"enum": attributes["itemEnum"]} if "itemEnum" in attributes else {}
        tree = {"type": "array", "items": _element(declared[0], inner, prefix, old=old)}
    elif isinstance(declared, dict):
        values = _element(declared["map"], {}, prefix, old=old)
        tree = {"type": "object", "additionalProperties": values}
    elif declared in _LEAVES:
        tree = dict(_LEAVES[declared])
    else:
        tree = _named(declared, prefix, plain=old)
    if not old or "$ref" not in tree:
        for key in ("default", "enum"):
            if key in attributes:
                tree[key] = attributes[key]
    for key, name in _EXTENSIONS:
        if key in attributes:
            tree[name] = attributes[key]
    return tree


def _element(declared: Any, attributes: Tree, prefix: str, *, old: bool) -> Tree:
    tree = _reference(declared, attributes, prefix, old=old)
    if isinstance(declared, str) and not old:
        if declared not in _LEAVES:
            if "fields" in load_data("types")["types"][declared]:
                return {**tree, "default": {}}
            return _named(declared, prefix, plain=True)
        if declared == "string":
            return {**tree, "default": ""}
    return tree


@cache
def schema(
    name: str, prefix: str = "#/components/schemas/", *, old: bool = False, earlier: str = ""
) -> Tree:
    """One type of the schema table as a JSON schema; `earlier` is the release, "" for the latest."""
    shared = openapi_custom.published_type(name, old=old)
    if shared is not None:
        return shared
    declared = load_data("types")["types"][name]
    about = {"description": type_text(name)}
    if "fields" not in declared:
        if name == _QUANTITY and not old:
            return {**about, "oneOf": [{"type": "string"}, {"type": "number"}]}
        leaf = dict(_LEAVES.get(declared["type"], {"type": "object"}))
        if old and "oneOf" in leaf:
            return {**about, "type": "string", "format": "int-or-string"}
        return {**about, **leaf}
    younger = younger_fields(name, earlier)
    tree: Tree = {
        **about,
        "type": "object",
        "properties": {
            key: {
                "description": field_text(name, key, field["type"]),
                **_reference(field["type"], field, prefix, old=old),
            }
            for key, field in declared["fields"].items()
            if key not in younger
        },
    }
    if declared.get("required"):
        tree["required"] = declared["required"]
    if declared.get("gvk"):
        kinds = declared["gvk"]
        tree["x-kubernetes-group-version-kind"] = kinds if isinstance(kinds, list) else [kinds]
    return tree


def used(name: str, found: dict[str, None], earlier: str = "") -> None:
    """Add a type and all types that it refers to in a release, "" for the latest."""
    if name in found:
        return
    found[name] = None
    younger = younger_fields(name, earlier)
    for key, field in load_data("types")["types"][name].get("fields", {}).items():
        if key in younger:
            continue
        declared = field["type"]
        while not isinstance(declared, str):
            declared = declared[0] if isinstance(declared, list) else declared["map"]
        if declared not in _LEAVES:
            used(declared, found, earlier)


# -- operations ----------------------------------------------------------------------------------

_ACTIONS = {
    "list": ("get", "list"),
    "create": ("post", "post"),
    "deletecollection": ("delete", "deletecollection"),
    "get": ("get", "get"),
    "update": ("put", "put"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
}
_LISTING = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_QUERY = {
    "list": _LISTING,
    "deletecollection": ("dryRun", *_LISTING[1:-1]),
    "get": (),
    "create": ("dryRun", "fieldManager", "fieldValidation"),
    "update": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
}
_TYPES = {
    "limit": "integer",
    "timeoutSeconds": "integer",
    "gracePeriodSeconds": "integer",
    "watch": "boolean",
    "allowWatchBookmarks": "boolean",
    "sendInitialEvents": "boolean",
    "force": "boolean",
    "orphanDependents": "boolean",
}
_PATCH_MEDIA = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


def paths_of(info: ResourceInfo) -> list[tuple[str, dict[str, tuple[str, Tree]]]]:
    """Per path: HTTP method to verb and kind, for a resource and its subresources."""
    base = f"/{path_of(info.group, info.version)}"
    if info.namespaced:
        base += "/namespaces/{namespace}"
    place = f"{base}/{info.resource}"
    own = {"group": info.group, "version": info.version, "kind": info.kind}
    found: list[tuple[str, dict[str, tuple[str, Tree]]]] = []
    if info.namespaced and "list" in info.verbs:
        everywhere = f"/{path_of(info.group, info.version)}/{info.resource}"
        found.append((everywhere, {"get": ("list", own)}))
    for path, verbs in (
        (place, ("list", "create", "deletecollection")),
        (f"{place}/{{name}}", ("get", "update", "patch", "delete")),
    ):
        found.append((path, {_ACTIONS[v][0]: (v, own) for v in verbs if v in info.verbs}))
    for sub in info.subresources.values():
        kind = _kind_of(info, sub)
        methods = {_ACTIONS[verb][0]: (verb, kind) for verb in sub.verbs if verb in _ACTIONS}
        found.append((f"{place}/{{name}}/{sub.name}", methods))
    return [(path, methods) for path, methods in found if methods]


def _kind_of(info: ResourceInfo, sub: SubresourceInfo) -> Tree:
    version = sub.version or info.version
    return {"group": sub.group if sub.version else info.group, "version": version, "kind": sub.kind}


def parameters_of(path: str, verb: str) -> list[Tree]:
    """Path and query parameters of an operation: name, place, type."""
    found = [
        {"name": name, "in": "path", "type": "string"}
        for name in ("namespace", "name")
        if f"{{{name}}}" in path
    ]
    for name in (*_QUERY[verb], "pretty"):
        found.append({"name": name, "in": "query", "type": _TYPES.get(name, "string")})
    return found


def _operation(info: ResourceInfo, path: str, verb: str, kind: Tree) -> Tree:
    tree: Tree = {
        "x-kubernetes-action": _ACTIONS[verb][1],
        "x-kubernetes-group-version-kind": kind,
        "parameters": [
            {
                "name": each["name"],
                "in": each["in"],
                "schema": {"type": each["type"]},
                **({"required": True} if each["in"] == "path" else {}),
            }
            for each in parameters_of(path, verb)
        ],
        "responses": {"200": {"description": "OK"}},
    }
    body = _body_of(info, path, verb)
    if body:
        tree["requestBody"] = body
    return tree


def _body_of(info: ResourceInfo, path: str, verb: str) -> Tree:
    if verb == "patch":
        content = {media: {"schema": {"type": "object"}} for media in _PATCH_MEDIA}
        return {"required": True, "content": content}
    if verb not in ("create", "update"):
        return {}
    schema_of: Tree = {"type": "object"}
    if info.type_name and path.endswith(("/{name}", f"/{info.resource}")):
        schema_of = {"$ref": f"#/components/schemas/{info.type_name}"}
    return {"required": True, "content": {_JSON: {"schema": schema_of}}}


def _head(server: Served, paths: Tree, schemas: Tree) -> Tree:
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": server.build["gitVersion"]},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def document(server: Served, group: str, version: str) -> Tree:
    """The document of one group version; beside built-in resources custom ones have no place in it."""
    found = server.table.in_version(group, version)
    builtin = [info for info in found if info.custom is None]
    if not builtin:
        return openapi_custom.document(found)
    paths: Tree = {}
    types: dict[str, None] = {}
    for info in builtin:
        for path, methods in paths_of(info):
            paths[path] = {
                method: _operation(info, path, verb, kind)
                for method, (verb, kind) in methods.items()
            }
        if info.type_name:
            used(info.type_name, types, server.earlier)
            listed = f"{info.type_name}List"
            if listed in load_data("types")["types"]:
                used(listed, types, server.earlier)
    schemas = {name: schema(name, earlier=server.earlier) for name in sorted(types)}
    return _head(server, paths, schemas)
