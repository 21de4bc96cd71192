"""Answers in protobuf: JSON trees of built-in kinds as bytes.

A plain Go field (no pointer) is on the wire even when the tree leaves it out, as upstream's generated code
writes it; only schemas of custom resources leave zeros out, which a reader cannot tell apart. A field
whose number is not known cannot be written: the answer is JSON then, so nothing is lost silently.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Generator, Iterable
from functools import cache
from struct import pack
from typing import Any, Final

from controlplane.api.object import KEPT_JSON, Object
from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.schema.protobuf.definitions import PACKAGE, RULE, SCHEMA
from controlplane.apiserver.schema.protobuf.numbers import (
    Unnumbered,
    fields_of,
    type_named,
)
from controlplane.apiserver.schema.protobuf.wire import (
    BYTES,
    FIXED64,
    PREFIX,
    VARINT,
    field,
    tag,
    varint,
)
from controlplane.apiserver.schema.types import Field, Kind

__all__ = ["Unwritable", "encoded", "event_frame", "listed", "writable"]

Write = Callable[[Any], bytes]

_TYPE: Final = ("apiVersion", "kind")
_ONE, _TWO = tag(1, BYTES), tag(2, BYTES)
_NO_ENCODING: Final = field(tag(3, BYTES), b"") + field(tag(4, BYTES), b"")
_NUMBER_ONE, _NUMBER_TWO = tag(1, VARINT), tag(2, VARINT)


class Unwritable(ValueError):
    """Of a kind, or with a field, that has no number in the table."""


def encoded(tree: Tree) -> bytes:
    """An object as a body. Raises Unwritable."""
    api_version, kind = tree.get("apiVersion", ""), tree.get("kind", "")
    name = _name(api_version or "v1", kind)  # some documents of discovery do not tell it
    return _wrapped(api_version, kind, _writer(name).object(tree))


AT_ONCE: Final = 500
"""The number of objects that are written without a pause."""


def listed(head: Tree, items: Iterable[Object]) -> bytes:
    """A list as a body; see `listing`."""
    steps = listing(head, items)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            body: bytes = end.value
            return body


def listing(head: Tree, items: Iterable[Object]) -> Generator[None, None, bytes]:
    """A list as a body; `head` is the list without its items. Raises Unwritable.

    Small objects keep their message, as they keep their JSON. It pauses after every `AT_ONCE` of them.
    """
    api_version, kind = head["apiVersion"], head["kind"]
    name = _name(api_version, kind)
    numbered = {
        known.name: (number, known)
        for number, (_, known) in fields_of(name).items()
        if known is not None
    }
    number, known = numbered["items"]
    assert known.element is not None
    write, start = _writer(known.element.type_name).object, tag(number, BYTES)
    parts = [_writer(name).object(head)]
    for count, obj in enumerate(items, start=1):
        if not count % AT_ONCE:
            yield
        raw = obj.packed
        if raw is None:
            raw = write(obj.tree)
            if len(raw) <= KEPT_JSON:
                obj.packed = raw
        parts.append(field(start, raw))
    return _wrapped(api_version, kind, b"".join(parts))


def event_frame(event: str, tree: Tree) -> bytes:
    """One event of a watch: its length in four bytes, and the event. Raises Unwritable."""
    inner = field(_ONE, encoded(tree))
    raw = field(_ONE, event.encode()) + field(_TWO, inner)
    return pack(">I", len(raw)) + raw


@cache
def writable(api_version: str, kind: str) -> bool:
    """Return whether objects of a kind, and lists of them, have field numbers."""
    try:
        _writer(type_named(api_version, kind))
    except Unnumbered:
        return False
    return True


def _name(api_version: str, kind: str) -> str:
    try:
        return type_named(api_version, kind)
    except Unnumbered as error:
        raise Unwritable(str(error)) from error


def _wrapped(api_version: str, kind: str, raw: bytes) -> bytes:
    about = field(_ONE, api_version.encode()) + field(_TWO, kind.encode())
    return PREFIX + field(_ONE, about) + field(_TWO, raw) + _NO_ENCODING


class _Message:
    """The writer of a message: the fields of a tree, by ascending number."""

    __slots__ = ("_always", "_fields", "_inner", "_plain", "_within", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._fields: dict[str, tuple[int, Write]] = {}
        self._always: list[tuple[str, int, bytes]] | None = None
        self._plain: list[tuple[int, Field]] = []
        self._inner: list[tuple[int, bytes, _Message]] = []
        self._within: frozenset[str] = frozenset()

    def fill(self, listing: str = "") -> None:
        """Find the parts; apart from making it, as types may contain themselves."""
        within: set[str] = set()
        for number, (mark, known) in fields_of(self.name, listing).items():
            if known is None:
                inner = _Message(self.name)
                inner.fill(mark)
                self._inner.append((number, tag(number, BYTES), inner))
                within |= inner._fields.keys() | inner._within
                continue
            write = _field_writer(number, known) if mark != "*" else _list_value(known, number)
            self._fields[known.name] = number, write
            if mark == "~":
                self._plain.append((number, known))
        self._within = frozenset(within)

    def object(self, tree: Tree) -> bytes:
        """A whole message. Raises Unwritable."""
        out: list[tuple[int, bytes]] = []
        fields = self._fields
        for name, value in tree.items():
            if value is None:
                continue
            found = fields.get(name)
            if found is not None:
                out.append((found[0], found[1](value)))
            elif name not in self._within and name not in _TYPE:
                raise Unwritable(f"{self.name}.{name}")
        always = self._always
        if always is None:
            always = self._always = [
                (known.name, number, _zero(number, known)) for number, known in self._plain
            ]
        for name, number, zero in always:
            if tree.get(name) is None:
                out.append((number, zero))
        for number, start, inner in self._inner:
            part = {
                name: tree[name] for name in tree if name in inner._fields or name in inner._within
            }
            out.append((number, field(start, inner.object(part))))
        out.sort()
        return b"".join([raw for _, raw in out])


_WRITERS: dict[str, _Message] = {}


def _writer(name: str) -> _Message:
    """Return the writer of a type. Raises Unnumbered."""
    found = _WRITERS.get(name)
    if found is None:
        found = _WRITERS[name] = _Message(name)
        try:
            found.fill()
        except Unnumbered:
            del _WRITERS[name]
            raise
    return found


def _zero(number: int, known: Field) -> bytes:
    """Return the zero of a plain Go field, which upstream puts on the wire, too."""
    if known.kind in (Kind.INT, Kind.BOOL):
        return tag(number, VARINT) + b"\0"
    if known.kind == Kind.NUMBER:
        return tag(number, FIXED64) + pack("<d", 0.0)
    if known.kind == Kind.STRUCT:
        return field(tag(number, BYTES), _writer(known.type_name).object({}))
    if known.kind in (Kind.QUANTITY, Kind.INT_OR_STRING):
        return field(tag(number, BYTES), _LEAVES[known.kind](0))
    return tag(number, BYTES) + b"\0"


def _field_writer(number: int, known: Field) -> Write:
    """Writes a field with all that stands before it."""
    element = known.element
    if known.kind == Kind.LIST and element is not None:
        one = _field_writer(number, element)
        return lambda items: b"".join([one(item) for item in items])
    if known.kind == Kind.MAP and element is not None:
        value, start = _field_writer(2, element), tag(number, BYTES)
        if element.kind == Kind.LIST:
            value = _list_value(element)
        return lambda pairs: b"".join(
            [field(start, field(_ONE, _text(key)) + value(pairs[key])) for key in sorted(pairs)]
        )
    if known.kind in (Kind.INT, Kind.BOOL):
        start = tag(number, VARINT)
        return lambda found: start + varint(int(found))
    if known.kind == Kind.NUMBER:
        start = tag(number, FIXED64)
        return lambda found: start + pack("<d", found)
    start = tag(number, BYTES)
    if known.kind == Kind.STRING:
        return lambda found: start + varint(len(raw := _text(found))) + raw
    if known.kind == Kind.STRUCT:
        if known.type_name == f"{PACKAGE}JSONSchemaProps":
            return lambda found: field(start, _schema(found))
        inner = _writer(known.type_name)
        return lambda found: field(start, inner.object(found))
    write = _LEAVES.get(known.kind, _opaque)
    if known.type_name == f"{PACKAGE}CustomResourceSubresourceStatus":
        write = _nothing
    return lambda found: field(start, write(found))


def _list_value(known: Field, number: int = 2) -> Write:
    """A list that is a message of its own, as the value of a map is."""
    assert known.element is not None
    items = _field_writer(1, Field("", Kind.LIST, "", element=known.element))
    start = tag(number, BYTES)
    return lambda found: field(start, items(found))


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _nothing(_: Any) -> bytes:
    return b""


def _quantity(value: Any) -> bytes:
    return field(_ONE, _text(str(value)))


def _opaque(value: Any) -> bytes:
    """JSON inside a message: field sets, raw extensions."""
    return field(_ONE, _text(json.dumps(value, ensure_ascii=False, separators=(",", ":"))))


def _either(value: int | str) -> bytes:
    """An integer or a text."""
    number, text = (0, value) if isinstance(value, str) else (value, "")
    mark = varint(int(isinstance(value, str)))
    return _NUMBER_ONE + mark + _NUMBER_TWO + varint(number) + field(tag(3, BYTES), _text(text))


def _time(value: str) -> bytes:
    return _NUMBER_ONE + varint(parse_time(value) // SECOND) + _NUMBER_TWO + b"\0"


def _micro_time(value: str) -> bytes:
    seconds, nanos = divmod(parse_time(value), SECOND)
    return _NUMBER_ONE + varint(seconds) + _NUMBER_TWO + varint(nanos // 1000 * 1000)


_LEAVES: Final[dict[int, Write]] = {
    Kind.STRING: _text,
    Kind.BYTES: base64.b64decode,
    Kind.QUANTITY: _quantity,
    Kind.INT_OR_STRING: _either,
    Kind.TIME: _time,
    Kind.MICRO_TIME: _micro_time,
}


# -- schemas of custom resources -----------------------------------------------------------------


def _schema(tree: Tree) -> bytes:
    out: list[bytes] = []
    known = 0
    for number, (form, name) in _SCHEMA_ORDER:
        if name not in tree:
            continue
        value: Any = tree[name]
        known += 1
        if form == "real":
            out.append(tag(number, FIXED64) + pack("<d", value))
        elif form in ("flag", "told", "whole"):
            out.append(tag(number, VARINT) + varint(int(value)))
        elif form in ("texts", "jsons", "schemas", "rules"):
            out += [field(tag(number, BYTES), _part(form, item)) for item in value]
        elif form in ("named", "strings"):
            inner = "schema" if form == "named" else form
            out += [
                field(
                    tag(number, BYTES),
                    field(_ONE, _text(key)) + field(_TWO, _part(inner, value[key])),
                )
                for key in sorted(value)
            ]
        else:
            out.append(field(tag(number, BYTES), _part(form, value)))
    if known < len(tree):
        raise Unwritable(f"{PACKAGE}JSONSchemaProps: {sorted(tree)}")
    return b"".join(out)


_SCHEMA_ORDER: Final = sorted(SCHEMA.items())


def _part(form: str, value: Any) -> bytes:
    """A part of a schema: text, JSON, a schema, or a schema or something else."""
    if form in ("text", "texts"):
        return _text(value)
    if form in ("schema", "schemas"):
        return _schema(value)
    if form in ("json", "jsons"):
        return _opaque(value)
    if form == "docs":
        return b"".join(
            field(tag(number, BYTES), _text(value[name]))
            for number, name in enumerate(("description", "url"), start=1)
            if name in value
        )
    if form == "rules":
        return b"".join(
            tag(number, VARINT) + varint(int(value[name]))
            if isinstance(value[name], bool)
            else field(tag(number, BYTES), _text(value[name]))
            for number, name in enumerate(RULE, start=1)
            if name in value
        )
    if form == "bool":
        if isinstance(value, bool):
            return _NUMBER_ONE + varint(int(value))
        return _NUMBER_ONE + varint(1) + field(_TWO, _schema(value))
    if isinstance(value, list):
        write = _schema if form == "array" else _text
        return b"".join(field(_TWO, write(item)) for item in value)
    return field(_ONE, _schema(value))
