"""Documents in CBOR as trees, with the limits of upstream's decoder.

A map has each key once, texts are UTF-8, there is no NaN and no infinity, and nesting is bounded. Byte strings are
texts, but in byte fields, and under tag 22, where they become base64. Upstream: serializer/cbor/internal/modes.
"""

from __future__ import annotations

import base64
import math
import struct
from typing import Any, Final

from controlplane.apiserver.schema.cbor.writing import inner, type_of
from controlplane.apiserver.schema.types import Field, Kind

__all__ = ["Unreadable", "decoded"]

DEEPEST: Final = 64
_BREAK: Final = object()
_LARGEST: Final = 1 << 63
_ENDLESS: Final = 31


class Unreadable(ValueError):
    """Bytes that are no document."""


class _Raw(str):
    """The text of a byte string, which knows the bytes."""

    __slots__ = ("raw",)
    raw: bytes


def decoded(data: bytes) -> Any:
    """Return the tree of a document. Raises Unreadable."""
    reader = _Reader(data)
    found = reader.item(0)
    if found is _BREAK:
        raise Unreadable('cbor: unexpected "break" code')
    if reader.at < len(data):
        left = len(data) - reader.at
        raise Unreadable(f"cbor: {left} bytes of extraneous data starting at index {reader.at}")
    return _fitted(found, type_of(found))


def _fitted(value: Any, known: Field | None) -> Any:
    """The tree with the content of byte fields in base64."""
    if isinstance(value, _Raw):
        if known is not None and known.kind == Kind.BYTES:
            return base64.b64encode(value.raw).decode()
        return str(value)
    if isinstance(value, dict):
        return {key: _fitted(each, inner(known, key)) for key, each in value.items()}
    if isinstance(value, list):
        element = known.element if known is not None and known.kind == Kind.LIST else None
        return [_fitted(each, element) for each in value]
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self.at:
            raise Unreadable("unexpected EOF" if self._data else "EOF")
        self.at += size
        return self._data[self.at - size : self.at]

    def _head(self) -> tuple[int, int, int]:
        """The major type, its additional information, and the number."""
        first = self._take(1)[0]
        major, more = first >> 5, first & 31
        if more < 24:
            return major, more, more
        if more < 28:
            return major, more, int.from_bytes(self._take(1 << (more - 24)), "big")
        if more == _ENDLESS and major in (2, 3, 4, 5, 7):
            return major, more, 0
        raise Unreadable(f"cbor: invalid additional information {more} for type {major}")

    def item(self, depth: int) -> Any:
        """The next item; `_BREAK` where a sequence of unknown length ends."""
        if depth > DEEPEST:
            raise Unreadable(f"cbor: exceeded max nested level {DEEPEST}")
        major, more, number = self._head()
        if major < 2:
            if number >= _LARGEST:
                raise Unreadable(f"cbor: cannot unmarshal {number} into Go value of type int64")
            return number if major == 0 else -1 - number
        if major == 2 or major == 3:
            return self._string(major, more, number)
        if major == 4:
            return self._array(more, number, depth)
        if major == 5:
            return self._map(more, number, depth)
        if major == 6:
            return self._tagged(number, depth)
        return self._simple(more, number)

    def _string(self, major: int, more: int, size: int) -> str:
        raw = self._take(size) if more != _ENDLESS else b"".join(self._parts(major))
        if major == 3:
            try:
                return raw.decode()
            except UnicodeDecodeError:
                raise Unreadable("cbor: invalid UTF-8 string") from None
        found = _Raw(raw.decode("utf-8", "replace"))
        found.raw = raw
        return found

    def _parts(self, major: int) -> list[bytes]:
        parts: list[bytes] = []
        while True:
            kind, more, size = self._head()
            if kind == 7 and more == _ENDLESS:
                return parts
            if kind != major or more == _ENDLESS:
                raise Unreadable("cbor: wrong element type for indefinite-length string")
            parts.append(self._take(size))

    def _array(self, more: int, count: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while more == _ENDLESS or len(found) < count:
            value = self.item(depth + 1)
            if value is _BREAK:
                if more == _ENDLESS:
                    break
                raise Unreadable('cbor: unexpected "break" code')
            found.append(value)
        return found

    def _map(self, more: int, count: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while more == _ENDLESS or len(found) < count:
            key = self.item(depth + 1)
            if key is _BREAK and more == _ENDLESS:
                break
            if not isinstance(key, str):
                raise Unreadable("cbor: cannot unmarshal a map key that is no string")
            name = str(key)
            if name in found:
                raise Unreadable(
                    f'cbor: found duplicate map key "{name}" at map element index {len(found)}'
                )
            value = self.item(depth + 1)
            if value is _BREAK:
                raise Unreadable('cbor: unexpected "break" code')
            found[name] = value
        return found

    def _tagged(self, number: int, depth: int) -> Any:
        content = self.item(depth + 1)
        if content is _BREAK:
            raise Unreadable('cbor: unexpected "break" code')
        if not isinstance(content, _Raw):
            return content
        if number == 21:
            return base64.urlsafe_b64encode(content.raw).decode().rstrip("=")
        if number == 22:
            return base64.b64encode(content.raw).decode()
        return content.raw.hex() if number == 23 else content

    def _simple(self, more: int, number: int) -> Any:
        if more == _ENDLESS:
            return _BREAK
        if more in (20, 21):
            return more == 21
        if more in (22, 23):
            return None
        if more in (25, 26, 27):
            form = {25: ">e", 26: ">f", 27: ">d"}[more]
            value: float = struct.unpack(form, number.to_bytes(1 << (more - 24), "big"))[0]
            if not math.isfinite(value):
                what = "NaN" if math.isnan(value) else "infinity"
                raise Unreadable(f"cbor: {what} is not allowed")
            return value
        raise Unreadable(f"cbor: cannot unmarshal simple value {number}")
