"""The wire format: a prefix of four bytes, a varint, or a length and that number of bytes."""

from __future__ import annotations

from typing import Final

__all__ = ["BYTES", "FIXED32", "FIXED64", "PREFIX", "VARINT", "field", "tag", "varint"]

PREFIX: Final = b"k8s\x00"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_ONE_BYTE: Final = [bytes([value]) for value in range(128)]
_WORD: Final = (1 << 64) - 1


def varint(value: int) -> bytes:
    """An integer; a negative one takes ten bytes."""
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    value &= _WORD
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, form: int) -> bytes:
    """Return the tag before a value: the number of its field, and its wire type."""
    return varint(number << 3 | form)


def field(head: bytes, value: bytes) -> bytes:
    """Bytes with their length, behind `head`."""
    return head + varint(len(value)) + value
