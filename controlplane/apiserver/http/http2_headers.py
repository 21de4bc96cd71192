"""The headers of HTTP/2: which of a request are well formed, and those of an answer as bytes.

Upstream: golang.org/x/net http2/server.go (newWriterAndRequest, checkValidHTTP2RequestHeaders) and http/httpguts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen
from hpack import Decoder, Encoder, HeaderTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "Head",
    "LengthHidingDecoder",
    "LiteralEncoder",
    "Malformed",
    "declared_length",
    "head_of",
]

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*").fullmatch
_OF_REQUESTS: Final = (b":method", b":scheme", b":path", b":authority")
_OF_CONNECTIONS: Final = frozenset(
    (b"connection", b"proxy-connection", b"transfer-encoding", b"upgrade", b"keep-alive")
)
_LENGTH: Final = b"content-length"
_HIDDEN: Final = b"Content-Length"
"""The name that no client may send (it is not in lower case), under which h2 does not see a length."""
_LARGEST: Final = 1 << 63


class Malformed(Exception):
    """The headers are no request: the stream ends with PROTOCOL_ERROR, and the connection goes on."""


@frozen
class Head:
    """A request's headers. `refusal` is the text of an answer 400, "" for none."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    refusal: str = ""


def head_of(fields: Iterable[tuple[bytes, bytes]]) -> Head:
    """The request of a header block, `:authority` as the header Host. Raises Malformed."""
    pseudo: dict[bytes, bytes] = {}
    headers: list[tuple[str, str]] = []
    refusal = ""
    for name, value in fields:
        if _VALUE(value) is None:
            raise Malformed(f"invalid value of header {name!r}")
        if name[:1] == b":":
            if headers or name in pseudo or name not in _OF_REQUESTS:
                raise Malformed(f"unexpected pseudo-header {name!r}")
            pseudo[name] = value
            continue
        if name == _HIDDEN:
            headers.append(("content-length", value.decode("latin-1")))
            continue
        if _NAME(name) is None:
            raise Malformed(f"invalid name of a header: {name!r}")
        text = name.decode("ascii")
        if name in _OF_CONNECTIONS:
            refusal = f'request header "{text.title()}" is not valid in HTTP/2'
        elif name == b"te" and value not in (b"", b"trailers"):
            refusal = 'request header "TE" may only be "trailers" in HTTP/2'
        if name != b"host" or b":authority" not in pseudo:
            headers.append((text, value.decode("latin-1")))
    method, path = pseudo.get(b":method", b""), pseudo.get(b":path", b"")
    if not method or not path or pseudo.get(b":scheme") not in (b"https", b"http"):
        raise Malformed("without :method, :path or :scheme")
    if b":authority" in pseudo:
        headers.insert(0, ("host", pseudo[b":authority"].decode("latin-1")))
    return Head(method.decode("latin-1"), path.decode("latin-1"), headers, refusal)


def declared_length(text: str) -> int:
    """Return the bytes that a Content-Length announces; none for what is no number, as Go reads it."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    return number if number < _LARGEST else 0


class LengthHidingDecoder(Decoder):
    """Decodes headers so that h2 does not see the length of a body: it would end the connection for a wrong one."""

    def decode(self, data: bytes, raw: bool = False) -> Any:
        """The headers of a block, Content-Length under a name that `head_of` knows."""
        return [
            HeaderTuple(_HIDDEN if each[0] == _LENGTH else b"", each[1])
            if each[0] in (_LENGTH, _HIDDEN)
            else each
            for each in super().decode(data, raw)
        ]


class LiteralEncoder(Encoder):
    """Encodes headers as literals that are not indexed (RFC 7541, 6.2.2), names in lower case.

    An answer's headers differ with each answer (Audit-Id, Date, Content-Length): indexed, they would push one another
    out of the table, which hpack searches from end to end for each. Literals need no state, and an eighth of the time.
    """

    def encode(self, headers: Any, huffman: bool = True) -> bytes:
        """The block of some headers."""
        return b"".join([_literal(name.lower(), value) for name, value in headers])


def _literal(name: bytes, value: bytes) -> bytes:
    if len(value) < 127 > len(name):
        return b"\0%c%b%c%b" % (len(name), name, len(value), value)
    return b"\0%b%b%b%b" % (_length(len(name)), name, _length(len(value)), value)


def _length(size: int) -> bytes:
    """A length with a prefix of seven bits (RFC 7541, 5.1)."""
    if size < 127:
        return bytes((size,))
    rest, out = size - 127, bytearray((127,))
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    out.append(rest)
    return bytes(out)
