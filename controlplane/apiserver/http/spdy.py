"""SPDY/3.1 framing: streams of one connection, as kubectl speaks it for port forwarding, exec and attach.

Only what Kubernetes' clients use: streams that the client opens, data, ends, resets and pings; windows
are not kept, as upstream's library does not. Frames come out of bytes and bytes of frames; nothing here
reads or writes. The protocol: draft-mbelshe-httpbis-spdy-00. Upstream: github.com/moby/spdystream.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["Frames", "Opened", "Received", "Reset", "SpdyError"]

_PLAIN: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
).split(" ")
_WORDS: Final = (
    *_PLAIN,
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
)
_TAIL: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
    "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
_DICTIONARY: Final = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS) + _TAIL.encode()
)
"""The initial dictionary of header compression: the protocol's constant."""
_CONTROL: Final = 0x8003
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN: Final = 1
_LONGEST: Final = 1 << 20
"""A frame may be so long here; clients send at most 64 KiB."""
_LONGEST_HEADERS: Final = 1 << 16


class SpdyError(ValueError):
    """Bytes that are no frames."""


class Opened(NamedTuple):
    """The client has opened a stream."""

    stream: int
    headers: Mapping[str, str]
    ended: bool


class Received(NamedTuple):
    """The client has sent data on a stream, perhaps the last."""

    stream: int
    data: bytes
    ended: bool


class Reset(NamedTuple):
    """The client has given up a stream."""

    stream: int


Event = Opened | Received | Reset


class Frames:
    """One connection."""

    def __init__(self) -> None:
        self._given = bytearray()
        self._unpack = zlib.decompressobj(zdict=_DICTIONARY)
        self._pack = zlib.compressobj(zdict=_DICTIONARY)
        self.open = True
        """The client has not ended the session."""

    def receive(self, data: bytes) -> tuple[list[Event], bytes]:
        """Return the events in the bytes, and the bytes to send for them at once. SpdyError."""
        self._given += data
        events: list[Event] = []
        reply = b""
        while len(self._given) >= 8:
            first, second = struct.unpack_from(">II", self._given)
            flags, length = second >> 24, second & 0xFFFFFF
            if length > _LONGEST:
                raise SpdyError(f"a frame of {length} bytes")
            if len(self._given) < 8 + length:
                break
            content = bytes(self._given[8 : 8 + length])
            del self._given[: 8 + length]
            if first >> 31:
                if first >> 16 != _CONTROL:
                    raise SpdyError(f"version {first >> 16 & 0x7FFF}")
                reply += self._control(first & 0xFFFF, flags, content, events)
            else:
                events.append(Received(first, content, bool(flags & _FIN)))
        return events, reply

    def _control(self, kind: int, flags: int, content: bytes, events: list[Event]) -> bytes:
        try:
            if kind == _SYN_STREAM:
                (stream,) = struct.unpack_from(">I", content)
                headers = self._headers(content[10:])
                events.append(Opened(stream & 0x7FFFFFFF, headers, bool(flags & _FIN)))
            elif kind == _RST_STREAM:
                (stream,) = struct.unpack_from(">I", content)
                events.append(Reset(stream & 0x7FFFFFFF))
            elif kind == _PING:
                return _frame(_PING, content[:4])
            elif kind == _GOAWAY:
                self.open = False
        except struct.error:
            raise SpdyError("a frame that is too short") from None
        return b""

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            plain = self._unpack.decompress(packed, _LONGEST_HEADERS)
        except zlib.error as error:
            raise SpdyError(str(error)) from None
        if self._unpack.unconsumed_tail:
            raise SpdyError("headers that are too long")
        (count,) = struct.unpack_from(">I", plain)
        texts: list[str] = []
        at = 4
        for _ in range(2 * min(count, _LONGEST_HEADERS)):
            (size,) = struct.unpack_from(">I", plain, at)
            texts.append(plain[at + 4 : at + 4 + size].decode("latin-1"))
            at += 4 + size
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def accepted(self, stream: int) -> bytes:
        """The answer to a stream that was opened."""
        block = self._pack.compress(struct.pack(">I", 0)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        return _frame(_SYN_REPLY, struct.pack(">I", stream) + block)

    def sent(self, stream: int, data: bytes, *, ended: bool = False) -> bytes:
        """Data on a stream, in frames of 32 KiB; `ended` closes our side."""
        pieces = [data[at : at + 32_768] for at in range(0, len(data), 32_768)] or [b""]
        found = b""
        for at, piece in enumerate(pieces):
            flags = _FIN if ended and at == len(pieces) - 1 else 0
            found += struct.pack(">II", stream, flags << 24 | len(piece)) + piece
        return found if data or ended else b""


def _frame(kind: int, content: bytes) -> bytes:
    return struct.pack(">HHI", _CONTROL, kind, len(content)) + content
