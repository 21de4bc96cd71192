"""Objects in CBOR, as upstream's serializer writes them.

Texts and names of fields are byte strings, content of byte fields is tagged for base64, numbers with a fraction are as
short as they can be, keys are in the order of their bytes, and each document begins with the tag that marks CBOR.
Upstream: apimachinery pkg/runtime/serializer/cbor.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, Final

from controlplane.apiserver.schema.protobuf.numbers import Unnumbered, type_named
from controlplane.apiserver.schema.types import Field, Kind, struct_type

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree

__all__ = [
    "APPLY_PATCH",
    "AT_ONCE",
    "GATE",
    "MEDIA_TYPE",
    "PREFIX",
    "SEQUENCE",
    "encoded",
    "event_item",
    "inner",
    "listing",
    "type_of",
]

GATE: Final = "CBORServingAndStorage"
MEDIA_TYPE: Final = "application/cbor"
SEQUENCE: Final = "application/cbor-seq"
"""The media type of a watch."""
APPLY_PATCH: Final = "application/apply-patch+cbor"
PREFIX: Final = b"\xd9\xd9\xf7"
"""The head of tag 55799, self-described CBOR."""
AT_ONCE: Final = 100
"""The number of items of a list that are encoded before other tasks may run."""
_LATER_BASE64: Final = b"\xd6"
"""The head of tag 22: in JSON the bytes would be in base64."""
_UNSIGNED, _NEGATIVE, _BYTES, _ARRAY, _MAP = 0x00, 0x20, 0x40, 0x80, 0xA0
_SMALL: Final = 24
_FLOATS: Final = {">Be": 0xF9, ">Bf": 0xFA, ">Bd": 0xFB}
"""Heads of numbers with a fraction, by their form."""
_LARGEST: Final = 1 << 64


def encoded(tree: Any) -> bytes:
    """Return a document."""
    out = bytearray(PREFIX)
    _write(out, tree, type_of(tree))
    return bytes(out)


def event_item(event: str, tree: Tree) -> bytes:
    """Return one event of a watch: an item of a sequence."""
    out = bytearray(PREFIX)
    _head(out, _MAP, 2)
    _text(out, "type")
    _text(out, event)
    _text(out, "object")
    return bytes(out) + encoded(tree)


def listing(head: Tree, items: Iterable[Object], *, typed: bool) -> Generator[None, None, bytes]:
    """Return a list, `head` without its items; with pauses. `typed`: its items say their kinds."""
    known = type_of(head)
    of_items = known.struct.fields.get("items") if known is not None else None
    element = of_items.element if of_items is not None else None
    body, count = bytearray(), 0
    for count, obj in enumerate(items, start=1):
        if not count % AT_ONCE:
            yield
        tree = obj.tree
        if not typed:
            tree = {key: value for key, value in tree.items() if key not in ("apiVersion", "kind")}
        _write(body, tree, element)
    out = bytearray(PREFIX)
    _head(out, _MAP, len(head) + 1)
    for key in sorted((*head, "items"), key=_order):
        _text(out, key)
        if key != "items":
            _write(out, head[key], known.struct.fields.get(key) if known is not None else None)
            continue
        _head(out, _ARRAY, count)
        out += body
    return bytes(out)


def type_of(tree: Any) -> Field | None:
    """Return the type of a built-in object or list; None of others."""
    if not isinstance(tree, dict):
        return None
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if not (isinstance(version, str) and isinstance(kind, str)):
        return None
    try:
        name = type_named(version, kind)
        struct_type(name)
    except (Unnumbered, KeyError):
        return None
    return Field("", Kind.STRUCT, name)


def inner(known: Field | None, key: str) -> Field | None:
    """Return the type of a field of a struct, or of a value of a map."""
    if known is None:
        return None
    if known.kind == Kind.STRUCT:
        return known.struct.fields.get(key)
    return known.element if known.kind == Kind.MAP else None


def _order(key: str) -> tuple[int, bytes]:
    raw = key.encode("utf-8", "surrogatepass")
    return len(raw), raw


def _head(out: bytearray, major: int, number: int) -> None:
    if number < _SMALL:
        out.append(major | number)
    elif number < 1 << 8:
        out += bytes((major | 24, number))
    elif number < 1 << 16:
        out += struct.pack(">BH", major | 25, number)
    elif number < 1 << 32:
        out += struct.pack(">BI", major | 26, number)
    else:
        out += struct.pack(">BQ", major | 27, number)


def _text(out: bytearray, value: str) -> None:
    raw = value.encode("utf-8", "surrogatepass")
    _head(out, _BYTES, len(raw))
    out += raw


def _number(out: bytearray, value: float) -> None:
    for form in (">Be", ">Bf", ">Bd"):
        try:
            raw = struct.pack(form, _FLOATS[form], value)
        except OverflowError:
            continue
        if struct.unpack(form, raw)[1] == value:
            out += raw
            return


def _write(out: bytearray, value: Any, known: Field | None) -> None:
    if isinstance(value, str):
        if known is not None and known.kind == Kind.BYTES:
            raw = base64.b64decode(value)
            out += _LATER_BASE64
            _head(out, _BYTES, len(raw))
            out += raw
        else:
            _text(out, value)
    elif value is None:
        out += b"\xf6"
    elif isinstance(value, bool):
        out += b"\xf5" if value else b"\xf4"
    elif isinstance(value, int) and -_LARGEST <= value < _LARGEST:
        _head(out, _UNSIGNED if value >= 0 else _NEGATIVE, value if value >= 0 else -1 - value)
    elif isinstance(value, int | float):
        _number(out, float(value))
    elif isinstance(value, dict):
        _head(out, _MAP, len(value))
        for key in sorted(value, key=_order):
            _text(out, key)
            _write(out, value[key], inner(known, key))
    else:
        _head(out, _ARRAY, len(value))
        element = known.element if known is not None and known.kind == Kind.LIST else None
        for each in value:
            _write(out, each, element)
