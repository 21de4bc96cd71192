"""Request bodies in protobuf, as kubectl's generators and typed Go clients send them, read into JSON trees.

Unknown fields are skipped, as upstream's generated code does: older clients send some that are gone, such as
clusterName (15) of ObjectMeta up to client-go 1.23. A body of a type outside of the table, or with a field that the
table may lack, is left to the refusal that follows, so nothing that upstream would keep is lost silently.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any, Final

from controlplane.api.times import SECOND, format_micro_time, format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.schema.protobuf.definitions import PACKAGE, RULE, SCHEMA
from controlplane.apiserver.schema.protobuf.numbers import (
    Unnumbered,
    complete,
    fields_of,
    type_named,
)
from controlplane.apiserver.schema.protobuf.wire import BYTES, FIXED32, FIXED64, PREFIX, VARINT
from controlplane.apiserver.schema.types import Field, Kind
from controlplane.apiserver.schema.work import spend

__all__ = ["MEDIA_TYPE", "Unreadable", "decoded"]

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"


class Unreadable(ValueError):
    """Not protobuf, or of a type or with a field that the table does not have."""


def decoded(raw: bytes) -> Tree:
    """The object in a body. Raises Unreadable."""
    if not raw.startswith(PREFIX):
        raise Unreadable("no prefix")
    about: dict[int, bytes] = {}
    body = b""
    for number, value in _pairs(raw[len(PREFIX) :]):
        if number == 1 and isinstance(value, bytes):
            about = {n: v for n, v in _pairs(value) if isinstance(v, bytes)}
        elif number == 2 and isinstance(value, bytes):
            body = value
    api_version, kind = _text(about.get(1, b"")), _text(about.get(2, b""))
    try:
        name = type_named(api_version, kind)
    except Unnumbered as error:
        raise Unreadable(str(error)) from error
    try:
        return {"apiVersion": api_version, "kind": kind, **_message(name, body)}
    except Unreadable:
        raise
    except (
        RecursionError,
        ArithmeticError,
        struct.error,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise Unreadable(f"{name}: {type(error).__name__}") from error


def _message(name: str, raw: bytes, listing: str = "") -> Tree:
    if name == f"{PACKAGE}JSONSchemaProps":
        return _schema(raw)
    try:
        fields = fields_of(name, listing)
    except Unnumbered as error:
        raise Unreadable(str(error)) from error
    tree: Tree = {}
    for number, value in _pairs(raw):
        if number not in fields:
            if complete(name, listing):
                continue
            raise Unreadable(f"{name}: field {number}")
        mark, known = fields[number]
        if known is None:
            tree.update(_message(name, _raw(value), mark))
        elif mark == "*":
            tree[known.name] = _value(known, value)
        elif known.kind == Kind.LIST:
            assert known.element is not None
            tree.setdefault(known.name, []).append(_value(known.element, value))
        elif known.kind == Kind.MAP:
            assert known.element is not None
            pair = dict(_pairs(_raw(value)))
            key = _text(_raw(pair.get(1, b"")))
            tree.setdefault(known.name, {})[key] = _value(known.element, pair.get(2, b""))
        else:
            found = _value(known, value)
            if found is None or (mark == "~" and not found and known.kind in _PLAIN):
                continue
            tree[known.name] = found
    return tree


FIRST_SECOND: Final = -62_135_596_800
LAST_SECOND: Final = 253_402_300_799
"""The first second of year 1, which is Go's zero time, and the last one of year 9999."""
_PLAIN: Final = frozenset((Kind.STRING, Kind.INT, Kind.BOOL, Kind.NUMBER))
"""The kinds whose zero in a plain field says as much as absence."""


def _value(known: Field, value: int | bytes) -> Any:
    kind = known.kind
    if kind in (Kind.INT, Kind.BOOL):
        if not isinstance(value, int):
            raise Unreadable(f"{known.name}: not a number")
        if kind == Kind.BOOL:
            return bool(value)
        return value - (1 << 64) if value >> 63 else value
    raw = _raw(value)
    if kind == Kind.STRING:
        return _text(raw)
    if kind == Kind.BYTES:
        return base64.b64encode(raw).decode()
    if kind == Kind.STRUCT:
        return _message(known.type_name, raw)
    if kind == Kind.LIST and known.element is not None:  # a list as the value of a map
        return [_value(known.element, item) for _, item in _pairs(raw)]
    parts = dict(_pairs(raw))
    if known.type_name == f"{PACKAGE}CustomResourceSubresourceStatus":
        return {}
    if kind == Kind.OPAQUE:
        return _opaque(known, _raw(parts.get(1, b"")))
    if kind == Kind.QUANTITY:
        return _text(_raw(parts.get(1, b"")))
    if kind == Kind.INT_OR_STRING:
        if parts.get(1, 0):
            return _text(_raw(parts.get(3, b"")))
        return _value(Field(known.name, Kind.INT, "integer"), parts.get(2, 0))
    if kind in (Kind.TIME, Kind.MICRO_TIME):
        if not parts:
            return None
        seconds, nanos = parts.get(1, 0), parts.get(2, 0)
        if not isinstance(seconds, int) or not isinstance(nanos, int):
            raise Unreadable(f"{known.name}: not a time")
        seconds -= (seconds >> 63) << 64
        if not FIRST_SECOND <= seconds <= LAST_SECOND:
            raise Unreadable(f"{known.name}: not a time")
        form = format_time if kind == Kind.TIME else format_micro_time
        return form(seconds * SECOND + nanos)
    raise Unreadable(f"{known.name}: unknown shape")


def _schema(raw: bytes) -> Tree:
    """A JSON schema."""
    tree: Tree = {}
    for number, value in _pairs(raw):
        if number not in SCHEMA:
            continue
        form, name = SCHEMA[number]
        if form in ("flag", "told", "whole"):
            if form == "whole":
                tree[name] = value
            elif value or form == "told":
                tree[name] = bool(value)
        elif form == "real":
            (number_given,) = struct.unpack("<d", _raw(value))
            tree[name] = int(number_given) if number_given.is_integer() else number_given
        elif form in ("texts", "jsons", "schemas", "rules"):
            tree.setdefault(name, []).append(_part(form, _raw(value)))
        elif form in ("named", "strings"):
            pair = dict(_pairs(_raw(value)))
            inner = _part("schema" if form == "named" else form, _raw(pair.get(2, b"")))
            tree.setdefault(name, {})[_text(_raw(pair.get(1, b"")))] = inner
        else:
            found = _part(form, _raw(value))
            if found != "":
                tree[name] = found
    return tree


def _part(form: str, raw: bytes) -> Any:
    """A part of a schema: text, JSON, a schema, or a schema or something else."""
    if form in ("text", "texts"):
        return _text(raw)
    if form in ("schema", "schemas"):
        return _schema(raw)
    pairs = _pairs(raw)
    if form in ("json", "jsons"):
        return _json(_raw(dict(pairs).get(1, b"null")))
    if form == "docs":
        return {
            ("description", "url")[number - 1]: _text(_raw(each)) for number, each in pairs if each
        }
    if form == "rules":
        return _rule(pairs)
    inner = {"array": 1, "bool": 2, "strings": 1}[form]
    for number, value in pairs:
        if number == inner:
            return _schema(_raw(value))
    if form == "array":
        return [_schema(_raw(value)) for _, value in pairs]
    if form == "bool":
        return bool(dict(pairs).get(1, 0))
    return [_text(_raw(value)) for _, value in pairs]


def _rule(pairs: list[tuple[int, int | bytes]]) -> Tree:
    found: Tree = {}
    for number, value in pairs:
        if not 0 < number <= len(RULE):
            continue
        if isinstance(value, int):
            found[RULE[number - 1]] = bool(value)
        elif value:
            found[RULE[number - 1]] = _text(value)
    return found


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError as error:
        raise Unreadable("not JSON") from error


def _opaque(known: Field, raw: bytes) -> Any:
    """JSON inside a message: field sets, raw extensions."""
    try:
        return json.loads(raw) if raw else None
    except ValueError as error:
        raise Unreadable(f"{known.name}: not JSON") from error


def _raw(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Unreadable("a number where bytes were expected")
    return value


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8") from error


def _pairs(raw: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a message: number, and a varint or bytes."""
    found: list[tuple[int, int | bytes]] = []
    at = 0
    spend(1 + (len(raw) >> 3))
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _varint(raw, at)
            found.append((number, value))
            continue
        if wire == BYTES:
            length, at = _varint(raw, at)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise Unreadable(f"wire type {wire}")
        if at + length > len(raw):
            raise Unreadable("cut short")
        found.append((number, raw[at : at + length]))
        at += length
    return found


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(raw) and shift < 70:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & ((1 << 64) - 1), at
        shift += 7
    raise Unreadable("cut short")
