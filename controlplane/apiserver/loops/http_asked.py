"""A request as far as the HTTP rim looks at it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from attrs import frozen

from controlplane.api.flags import flag
from controlplane.apiserver.schema.status import ApiError

if TYPE_CHECKING:
    from controlplane.apiserver.requests.routing import RequestLine


@frozen
class Asked:
    """A request as far as the rim looks at it."""

    line: RequestLine
    query: dict[str, list[str]]
    headers: list[tuple[str, str]]
    streamed: bool
    """The client accepts chunked bodies: HTTP/1.1."""
    has_body: bool
    _first: dict[str, str]

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
