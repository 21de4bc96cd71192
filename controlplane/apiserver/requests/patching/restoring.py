"""A merged tree as an object of its type: what upstream's unstructured converter does.

It is another reader than the one of JSON texts: it goes by the fields of the type in their order,
stops at the first value that does not fit, cuts integers to their size, takes whole fractions for
integers, and has words of its own. Upstream: apimachinery pkg/runtime/converter.go.
"""

from __future__ import annotations

import base64
from typing import Any

from controlplane.api.go_values import go_type
from controlplane.apiserver.schema.codec import DecodeError, FieldCodec, codec
from controlplane.apiserver.schema.field_order import in_order
from controlplane.apiserver.schema.types import Field, Kind, struct_type
from controlplane.apiserver.schema.work import spend

__all__ = ["UnfitError", "restored"]


class UnfitError(ValueError):
    """A value does not fit its field; the text is upstream's."""


_GO_KINDS = {Kind.STRING: "string", Kind.BOOL: "bool", Kind.NUMBER: "float64"}
_OWN_READERS = (Kind.QUANTITY, Kind.TIME, Kind.MICRO_TIME, Kind.INT_OR_STRING)


def restored(tree: Any, type_name: str, old: Any) -> Any:
    """The tree with values that its type can hold; parts of the old one are taken as they are."""
    return _struct(in_order(type_name, tree, old), type_name, old)


def _struct(value: Any, type_name: str, old: Any) -> Any:
    if not isinstance(value, dict):
        raise UnfitError(f"cannot restore struct from: {_kind(value)}")
    fields, readers = struct_type(type_name).fields, codec(type_name).fields
    olds = old if isinstance(old, dict) else {}
    out = dict(value)
    for name, item in value.items():
        field = fields.get(name)
        if field is None or item is None or (field.kind == Kind.STRING and type(item) is str):
            continue
        if item is not olds.get(name):
            out[name] = _value(item, field, readers[name].text_type, olds.get(name))
    return out


def _kind(value: Any) -> str:
    found = go_type(value)
    return {"map[string]interface {}": "map", "[]interface {}": "slice"}.get(found, found)


def _value(value: Any, field: Field, text_type: str, old: Any) -> Any:
    kind = field.kind
    if value is None or value is old:
        return value
    if kind == Kind.STRUCT:
        return _struct(value, field.type_name, old)
    if kind == Kind.LIST:
        if not isinstance(value, list):
            raise UnfitError(f"cannot restore slice from {_kind(value)}")
        assert field.element is not None
        spend(len(value))
        return [_value(item, field.element, text_type, None) for item in value]
    if kind == Kind.MAP:
        if not isinstance(value, dict):
            raise UnfitError(f"cannot restore map from {_kind(value)}")
        assert field.element is not None
        texts = field.element.kind == Kind.STRING
        spend((1 if texts else 3) * len(value))
        return {
            key: value[key]
            if texts and type(value[key]) is str
            else _value(value[key], field.element, text_type, None)
            for key in sorted(value)
        }
    if kind == Kind.BYTES:
        return _bytes(value, field)
    if kind in _OWN_READERS:
        return _read(value, field, "")
    return _simple(value, field, text_type)


_READERS: dict[int, FieldCodec] = {}
"""By the fields that they read, which they keep: those of built-in types, which are for ever."""


def _read(value: Any, field: Field, prefix: str) -> Any:
    """A value of a type that reads JSON by itself."""
    reader = _READERS.get(id(field))
    if reader is None:
        reader = _READERS[id(field)] = FieldCodec(field, keep_zero=True)
    try:
        reader.leaf(value)
    except DecodeError as error:
        raise UnfitError(f"{prefix}{error}") from None
    return value


def _bytes(value: Any, field: Field) -> Any:
    if isinstance(value, str):
        return _read(value, field, "error decoding from json: ")
    if not isinstance(value, list):
        raise UnfitError(f"cannot restore slice from {_kind(value)}")
    if not all(type(item) is int for item in value):
        raise UnfitError("unrecognized type: uint8")
    return base64.b64encode(bytes(item & 0xFF for item in value)).decode()


_HELD: dict[int, tuple[type, ...]] = {
    Kind.STRING: (str,),
    Kind.BOOL: (bool,),
    Kind.NUMBER: (int, float),
}


def _simple(value: Any, field: Field, text_type: str) -> Any:
    kind = field.kind
    if kind == Kind.INT:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if not -(2**63) <= value < 2**63:  # as amd64 converts floats that 64 bits do not hold
                value = -(2**63)
            half = 1 << (field.bits - 1)
            return (value + half) % (2 * half) - half
        if isinstance(value, float):
            raise UnfitError(f"cannot convert float64 to int{field.bits}")
        raise UnfitError(f"unrecognized type: int{field.bits}")
    if kind == Kind.STRING and isinstance(value, int) and not isinstance(value, bool):
        raise UnfitError(f"cannot convert int64 to {text_type}")
    wanted = _HELD.get(kind)
    if wanted is not None and (
        not isinstance(value, wanted) or (kind == Kind.NUMBER and isinstance(value, bool))
    ):
        raise UnfitError(f"unrecognized type: {_GO_KINDS[kind]}")
    return value
