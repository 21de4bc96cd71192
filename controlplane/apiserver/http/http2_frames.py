"""Frames of HTTP/2 made without the library: many of one body at once, and a GOAWAY that others follow."""

from __future__ import annotations

from typing import Final

__all__ = ["data_frames", "goaway"]

_DATA: Final = b"\0\0"
_GOAWAY: Final = b"\0\0\x08\x07\0\0\0\0\0"


def data_frames(number: int, data: memoryview, size: int) -> bytearray:
    """Data as DATA frames of `size` bytes, which do not end the stream."""
    stream = number.to_bytes(4, "big")
    found = bytearray()
    for at in range(0, len(data), size):
        piece = data[at : at + size]
        found += len(piece).to_bytes(3, "big") + _DATA + stream
        found += piece
    return found


def goaway(last: int, code: int) -> bytes:
    """GOAWAY: streams up to `last` are served."""
    return _GOAWAY + last.to_bytes(4, "big") + code.to_bytes(4, "big")
