"""A Swagger document in protobuf: the messages of gnostic's OpenAPIv2.proto, as far as documents here use them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

from controlplane.api.tree import Tree

__all__ = ["encoded"]


def encoded(tree: Tree) -> bytes:
    """The Swagger document as a message Document."""
    info = _text(1, tree["info"]["title"]) + _text(2, tree["info"]["version"])
    made = _text(1, tree["swagger"]) + _bytes(2, info)
    made += _bytes(8, _pairs(2, tree["paths"], _path_item))
    made += _bytes(9, _pairs(1, tree["definitions"], _schema))
    if "parameters" in tree:
        made += _bytes(10, _pairs(1, tree["parameters"], _parameter))
    return made


# -- the wire form -------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    if number < 0:
        number += 1 << 64
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


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_text(number, value) for value in values)


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _any(value: Any) -> bytes:
    """An Any: the value as YAML, of which JSON is a part."""
    return _text(2, json.dumps(value) + "\n")


def _pairs(number: int, trees: Tree, write: Callable[[Any], bytes]) -> bytes:
    """A map, as a repeated message of name and value."""
    return b"".join(
        _bytes(number, _text(1, name) + _bytes(2, write(value))) for name, value in trees.items()
    )


def _vendor(number: int, tree: Tree) -> bytes:
    return _pairs(number, {k: v for k, v in tree.items() if k.startswith("x-")}, _any)


# -- paths ---------------------------------------------------------------------------------------

_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _path_item(item: Tree) -> bytes:
    made = b"".join(
        _bytes(number, _operation(item[method]))
        for method, number in _METHODS.items()
        if method in item
    )
    return made + _listed(9, item)


def _listed(number: int, tree: Tree) -> bytes:
    """The `parameters` of a path or an operation: messages ParametersItem."""
    made = b""
    for each in tree.get("parameters") or ():
        shared = each.get("$ref")
        item = _bytes(1, _parameter(each)) if shared is None else _bytes(2, _text(1, shared))
        made += _bytes(number, item)
    return made


def _operation(tree: Tree) -> bytes:
    made = _texts(1, tree.get("tags") or ())
    if "description" in tree:
        made += _text(3, tree["description"])
    if "operationId" in tree:
        made += _text(5, tree["operationId"])
    made += _texts(6, tree.get("produces") or ()) + _texts(7, tree.get("consumes") or ())
    made += _listed(8, tree) + _bytes(9, _pairs(1, tree["responses"], _response))
    return made + _texts(10, tree.get("schemes") or ()) + _vendor(13, tree)


def _response(tree: Tree) -> bytes:
    """A ResponseValue with a Response."""
    made = _text(1, tree["description"])
    if "schema" in tree:
        made += _bytes(2, _bytes(1, _schema(tree["schema"])))
    return _bytes(1, made)


def _parameter(tree: Tree) -> bytes:
    """A Parameter: of the body (1), or another one (2), that is in the query (3) or in the path (4)."""
    required = _integer(1, 1) if tree.get("required") else b""
    if tree["in"] == "body":
        made = _text(2, tree["name"]) + _text(3, tree["in"])
        made += _integer(4, 1) if required else b""
        return _bytes(1, made + _bytes(5, _schema(tree["schema"])))
    in_path = tree["in"] == "path"
    made = required + _text(2, tree["in"])
    if "description" in tree:
        made += _text(3, tree["description"])
    made += _text(4, tree["name"]) + _text(5 if in_path else 6, tree["type"])
    if tree.get("uniqueItems"):
        made += _integer(19 if in_path else 20, 1)
    return _bytes(2, _bytes(4 if in_path else 3, made))


# -- schemas -------------------------------------------------------------------------------------

_TEXTS: Final = (("$ref", 1), ("format", 2), ("title", 3), ("description", 4), ("pattern", 13))
_DOUBLES: Final = (("multipleOf", 6), ("maximum", 7), ("minimum", 9))
_FLAGS: Final = (("exclusiveMaximum", 8), ("exclusiveMinimum", 10), ("uniqueItems", 16))
_INTEGERS: Final = (
    ("maxLength", 11),
    ("minLength", 12),
    ("maxItems", 14),
    ("minItems", 15),
    ("maxProperties", 17),
    ("minProperties", 18),
)


def _schema(tree: Tree) -> bytes:
    out = b"".join(_text(number, str(tree[key])) for key, number in _TEXTS if key in tree)
    out += b"".join(_double(number, tree[key]) for key, number in _DOUBLES if key in tree)
    out += b"".join(_integer(number, 1) for key, number in _FLAGS if tree.get(key))
    out += b"".join(_integer(number, tree[key]) for key, number in _INTEGERS if key in tree)
    for key, number in (("default", 5), ("example", 30)):
        if key in tree:
            out += _bytes(number, _any(tree[key]))
    out += _texts(19, tree.get("required") or ())
    out += b"".join(_bytes(20, _any(value)) for value in tree.get("enum") or ())
    more = tree.get("additionalProperties")
    if more is not None:
        inner = _integer(2, int(more)) if isinstance(more, bool) else _bytes(1, _schema(more))
        out += _bytes(21, inner)
    if "type" in tree:
        out += _bytes(22, _text(1, tree["type"]))
    if isinstance(tree.get("items"), dict):
        out += _bytes(23, _bytes(1, _schema(tree["items"])))
    out += b"".join(_bytes(24, _schema(each)) for each in tree.get("allOf") or ())
    if tree.get("properties"):
        out += _bytes(25, _pairs(1, tree["properties"], _schema))
    if "externalDocs" in tree:
        docs = tree["externalDocs"]
        places = (("description", 1), ("url", 2))
        out += _bytes(29, b"".join(_text(at, docs[key]) for key, at in places if key in docs))
    return out + _vendor(31, tree)
