"""A request as far as the HTTP rim looks at it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from attrs import define

from controlplane.api.flags import flag
from controlplane.apiserver.http.query import parse_query
from controlplane.apiserver.requests.routing import request_line
from controlplane.apiserver.schema.status import ApiError

if TYPE_CHECKING:
    from controlplane.apiserver.requests.routing import RequestLine


@define
class Asked:
    """A request as far as the rim looks at it."""

    line: RequestLine
    query: dict[str, list[str]]
    headers: list[tuple[str, str]]
    streamed: bool
    """The client accepts answers without a length that do not end its connection: any version after HTTP/1.0."""
    _first: dict[str, str]
    has_body: bool = False

    @property
    def method(self) -> str:
        """The method, as it was written."""
        return self.line.method

    @property
    def path(self) -> str:
        """The path without percent signs, and without the query."""
        return self.line.path

    def header(self, name: str) -> str:
        """The first value of a header, by its lower-case name."""
        return self._first.get(name, "")


class Refused(Exception):
    """The request cannot be answered as HTTP; the connection ends with this code and text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def asked_of(
    method: str,
    target: str,
    headers: list[tuple[str, str]],
    header_limit: int,
    *,
    streamed: bool = True,
) -> Asked:
    """The request of a head, names of headers in lower case. Raises Refused."""
    size = sum([len(name) + len(value) for name, value in headers])
    if size + len(target) > header_limit:
        raise Refused(431, "Request Header Fields Too Large")
    if target.startswith(("http://", "https://")):
        target = "/" + target.split("/", 3)[3] if target.count("/") > 2 else "/"
    raw_path, _, raw_query = target.partition("?")
    path = unquoted(raw_path)
    if not path.startswith("/"):
        raise Refused(400, "Bad Request")
    query = parse_query(raw_query) if raw_query else {}
    return Asked(request_line(method, path), query, headers, streamed, dict(reversed(headers)))


def unquoted(raw: str) -> str:
    """A path without percent signs; a malformed escape is refused, as Go's URL parser does."""
    if "%" not in raw and raw.isascii():
        return raw
    for at, char in enumerate(raw):
        if char == "%":
            digits = raw[at + 1 : at + 3]
            if len(digits) != 2 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise Refused(400, "Bad Request")
    return unquote_to_bytes(raw.encode("latin-1")).decode("utf-8", "replace")


def is_set(asked: Asked, name: str) -> bool:
    """Return whether a query parameter is set, as upstream reads flags."""
    return flag(next(iter(asked.query.get(name) or ()), None))


BEARER: Final = "base64url.bearer.authorization.k8s.io."
"""Prefix of the WebSocket protocol that carries a token: pages cannot set headers for WebSockets."""


def is_websocket(asked: Asked) -> bool:
    """Return whether the client asks to go on in WebSocket."""
    tokens = [each.strip().lower() for each in asked.header("connection").split(",")]
    return "upgrade" in tokens and asked.header("upgrade").lower() == "websocket"


def offered_protocols(asked: Asked) -> list[str]:
    """The WebSocket protocols that the client offers, without the one that carries its token."""
    given = [each.strip() for each in asked.header("sec-websocket-protocol").split(",")]
    return [each for each in given if each and not each.startswith(BEARER)]


def bearer_of(asked: Asked) -> str:
    """Return the token among the client's WebSocket protocols as an Authorization header; "" for none.

    Upstream: apiserver pkg/authentication/request/websocket.

    Raises:
        ApiError: 401 for two tokens, one that is malformed, or one without another protocol beside it.
    """
    if not is_websocket(asked):
        return ""
    given = [each.strip() for each in asked.header("sec-websocket-protocol").split(",")]
    encoded = [each.removeprefix(BEARER) for each in given if each.startswith(BEARER)]
    if not encoded:
        return ""
    try:
        padding = "=" * (-len(encoded[0]) % 4)
        token = base64.b64decode(encoded[0] + padding, b"-_", validate=True).decode()
    except ValueError:
        token = ""
    if len(encoded) > 1 or not token or not offered_protocols(asked):
        raise ApiError(401, "Unauthorized", "Unauthorized")
    return f"Bearer {token}"
