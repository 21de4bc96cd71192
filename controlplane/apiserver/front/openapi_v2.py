"""OpenAPI v2 (Swagger): one document for everything, as JSON or in the protobuf form kubectl asks for.

The protobuf messages are those of gnostic's OpenAPIv2.proto; only the parts that the document uses
are written. Upstream: kube-openapi pkg/builder and pkg/handler.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.front import openapi
from controlplane.apiserver.front.negotiation import parse_accept
from controlplane.apiserver.front.served import Answer, Served
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.types import load_data

__all__ = ["answer", "document", "encoded"]

_ASKED = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
_SENT = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PREFIX = "#/definitions/"


def answer(server: Served, http: HttpRequest) -> Answer:
    """The document in the form asked for. ApiError 406."""
    accept = http.headers.get("accept", "")
    media = ""
    for clause in parse_accept(accept) if accept else ():
        if clause.media_type in _ASKED:
            media = _SENT
            break
        if clause.media_type in ("application/json", "application/*", "*/*"):
            media = "application/json"
            break
    if accept and not media:
        raise status.not_acceptable(("application/json", *_ASKED))
    media = media or "application/json"
    digests = "".join(openapi.digest_of(server, name) for name in openapi.names(server))
    tag = f'"{hashlib.sha512((media + digests).encode()).hexdigest().upper()}"'
    headers: dict[str, str | list[str]] = {"ETag": tag, "Vary": "Accept"}
    if http.headers.get("if-none-match") == tag:
        return 304, headers, None, ""
    headers["Content-Type"] = media
    made = openapi.remembered(
        tag, lambda: encoded(document(server)) if media == _SENT else document(server)
    )
    return 200, headers, made, None


def document(server: Served) -> Tree:
    """The whole API as one Swagger document."""
    paths: Tree = {}
    types: dict[str, None] = {}
    definitions: Tree = {}
    for info in server.table:
        for path, methods in openapi.paths_of(info):
            paths[path] = {
                method: {
                    "x-kubernetes-action": {"list": "list", "create": "post", "update": "put",
                                            "deletecollection": "deletecollection"}.get(verb, verb),
                    "x-kubernetes-group-version-kind": kind,
                    "parameters": [
                        {**each, "required": True} if each["in"] == "path" else each
                        for each in openapi.parameters_of(path, verb)
                    ],
                    "responses": {"200": {"description": "OK"}},
                }
                for method, (verb, kind) in methods.items()
            }  # fmt: skip
        if info.custom is not None:
            definitions[openapi.custom_name(info)] = _swagger(openapi.custom_schema(info))
        elif info.type_name:
            openapi.used(info.type_name, types)
            listed = f"{info.type_name}List"
            if listed in load_data("types")["types"]:
                openapi.used(listed, types)
    for name in types:
        definitions[name] = openapi.schema(name, _PREFIX, old=True)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": server.build["gitVersion"]},
        "paths": paths,
        "definitions": dict(sorted(definitions.items())),
    }


_UNKNOWN_TO_V2 = ("oneOf", "anyOf", "not", "nullable", "x-kubernetes-validations")


def _swagger(tree: Any) -> Any:
    """A custom resource's schema without what version 2 cannot say."""
    if isinstance(tree, list):
        return [_swagger(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("nullable") or tree.get("x-kubernetes-preserve-unknown-fields"):
        kept = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-group-version-kind")
        return {key: tree[key] for key in kept if key in tree}
    return {key: _swagger(value) for key, value in tree.items() if key not in _UNKNOWN_TO_V2}


# -- protobuf ------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _flag(number: int, value: bool) -> bytes:
    return _varint(number << 3) + _varint(int(value))


def _any(value: Any) -> bytes:
    """An Any: the value as YAML, of which JSON is a part."""
    return _text(2, json.dumps(value) + "\n")


def _pair(number: int, name: str, value: bytes) -> bytes:
    return _bytes(number, _text(1, name) + _bytes(2, value))


def _vendor(number: int, tree: Tree) -> bytes:
    return b"".join(
        _pair(number, key, _any(value)) for key, value in tree.items() if key.startswith("x-")
    )


def encoded(tree: Tree) -> bytes:
    """The Swagger document as a protobuf message Document."""
    info = _text(1, tree["info"]["title"]) + _text(2, tree["info"]["version"])
    paths = b"".join(_pair(2, path, _path_item(item)) for path, item in tree["paths"].items())
    types = b"".join(_pair(1, name, _schema(item)) for name, item in tree["definitions"].items())
    return _text(1, tree["swagger"]) + _bytes(2, info) + _bytes(8, paths) + _bytes(9, types)


_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _path_item(item: Tree) -> bytes:
    return b"".join(
        _bytes(number, _operation(item[method]))
        for method, number in _METHODS.items()
        if method in item
    )


def _operation(tree: Tree) -> bytes:
    parameters = b"".join(_bytes(8, _parameter(each)) for each in tree["parameters"])
    described = _bytes(1, _text(1, "200") + _bytes(2, _bytes(1, _text(1, "OK"))))
    return parameters + _bytes(9, described) + _vendor(13, tree)


def _parameter(tree: Tree) -> bytes:
    """A ParametersItem with a non-body parameter: in the query (3) or in the path (4)."""
    in_path = tree["in"] == "path"
    made = (
        _flag(1, True) if in_path else b""
    ) + _text(2, tree["in"]) + _text(4, tree["name"]) + _text(
        5 if in_path else 6, tree["type"]
    )  # fmt: skip
    return _bytes(1, _bytes(2, _bytes(4 if in_path else 3, made)))


def _schema(tree: Tree) -> bytes:
    out = b""
    for key, number in (("$ref", 1), ("format", 2), ("title", 3), ("description", 4),
                        ("pattern", 13)):  # fmt: skip
        if key in tree:
            out += _text(number, str(tree[key]))
    if "default" in tree:
        out += _bytes(5, _any(tree["default"]))
    for key, number in (("maxLength", 11), ("minLength", 12), ("maxItems", 14), ("minItems", 15),
                        ("maxProperties", 17), ("minProperties", 18)):  # fmt: skip
        if isinstance(tree.get(key), int):
            out += _varint(number << 3) + _varint(tree[key])
    for name in tree.get("required") or ():
        out += _text(19, name)
    for value in tree.get("enum") or ():
        out += _bytes(20, _any(value))
    more = tree.get("additionalProperties")
    if more is not None:
        inner = _flag(2, more) if isinstance(more, bool) else _bytes(1, _schema(more))
        out += _bytes(21, inner)
    if "type" in tree:
        out += _bytes(22, _text(1, tree["type"]))
    if isinstance(tree.get("items"), dict):
        out += _bytes(23, _bytes(1, _schema(tree["items"])))
    for each in tree.get("allOf") or ():
        out += _bytes(24, _schema(each))
    if tree.get("properties"):
        inner = b"".join(_pair(1, key, _schema(value)) for key, value in tree["properties"].items())
        out += _bytes(25, inner)
    return out + _vendor(31, tree)
