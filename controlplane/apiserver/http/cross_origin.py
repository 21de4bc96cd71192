"""Cross-origin requests: pages of other sites that may ask a server, and the headers that tell their browser so.

A server answers pages of its own address only, unless the origin of a page is on a list. Requests of such a page come
with the browser's credentials for this server.

Upstream: the CORS middleware of labstack/echo, as kube-scheduler-simulator sets it; apiserver
pkg/server/filters/cors.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["headers", "is_allowed", "preflight_headers"]

METHODS: Final = "GET,HEAD,PUT,PATCH,POST,DELETE"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ")


def is_allowed(origin: str, origins: Sequence[str]) -> bool:
    """Return whether pages of an origin may ask this server."""
    return bool(origin) and origin in origins


def headers(origin: str) -> list[tuple[str, str]]:
    """The headers of every answer to a page of an allowed origin."""
    return [
        ("Vary", "Origin"),
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Allow-Credentials", "true"),
    ]


def preflight_headers(asked: str) -> dict[str, str | list[str]]:
    """The further headers of the answer to a browser's question before a request.

    `asked` names the headers that the page wants to send.
    """
    found: dict[str, str | list[str]] = {
        "Vary": ["Access-Control-Request-Method", "Access-Control-Request-Headers"],
        "Access-Control-Allow-Methods": METHODS,
    }
    if asked and _PLAIN.issuperset(asked):
        found["Access-Control-Allow-Headers"] = asked
    return found
