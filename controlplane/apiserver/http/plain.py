"""The plainest requests, read at once instead of by the parser.

Nearly all requests come as one piece: a method that everybody knows, a path, lines of printable ASCII, a
body whose length is said, and nothing behind it. Those, and only those, are read here; anything else
(chunks, an upgrade, an expectation, a second length, an odd character, a line that is folded or ends
oddly, a piece of a request or more than one) is for the parser, which also says what is wrong with it.
So this must never take what the parser would refuse or read in another way.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Plain", "PlainReader"]

HEAD_BYTES: Final = 8192
LINES: Final = 64
"""So many lines of a client are remembered: it repeats most of them."""
_REQUEST: Final = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[\x21-\x7e]*) HTTP/1\.1")
_HEADER: Final = re.compile(
    rb"([-!#$%&'*+.^_`|~0-9a-zA-Z]+):[ \t]*((?:[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*)?)[ \t]*"
)
_LENGTH: Final = re.compile("[0-9]{1,15}")
_FOR_THE_PARSER: Final = frozenset(
    ("expect", "http2-settings", "te", "trailer", "transfer-encoding", "upgrade")
)


class Plain(NamedTuple):
    """A request: names of headers are in lower case, as the parser gives them."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes


class PlainReader:
    """Reads the requests of one client."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, str]] = {}

    def read(self, data: bytes) -> Plain | None:
        """The request that the bytes are, all of them; None if they are not a plain one."""
        end = data.find(b"\r\n\r\n", 0, HEAD_BYTES)
        if end < 0:
            return None
        first, *lines = data[:end].split(b"\r\n")
        request = _REQUEST.fullmatch(first)
        if request is None:
            return None
        headers = []
        hosts, length = 0, ""
        for line in lines:
            header = self._known.get(line) or self._header(line)
            if header is None:
                return None
            name, value = header
            if name == "host":
                hosts += 1
            elif name == "content-length":
                if length or not _LENGTH.fullmatch(value):
                    return None
                length = value
            headers.append(header)
        if hosts != 1 or len(data) != end + 4 + int(length or "0"):
            return None
        method, target = request.groups()
        return Plain(method.decode("ascii"), target.decode("ascii"), headers, data[end + 4 :])

    def _header(self, line: bytes) -> tuple[str, str] | None:
        found = _HEADER.fullmatch(line)
        if found is None:
            return None
        name, value = found[1].decode("ascii").lower(), found[2].decode("ascii")
        if name in _FOR_THE_PARSER or (name == "connection" and value.lower() != "keep-alive"):
            return None
        if name != "content-length":
            if len(self._known) >= LINES:
                self._known.clear()
            self._known[line] = name, value
        return name, value
