"""The check of a request's origin, against requests from foreign web pages.

A browser sends any page's requests to any address. It names the page's site as `Origin`, and the
server by the name that the page used for it as `Host`; a site can let its own name resolve to this machine
(DNS rebinding), but not an address, nor a name that cannot be registered. Where a token is required, the
name does not matter: no page has the token.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

__all__ = ["is_local", "refusal"]

_OURS: Final = ("localhost", "svc", "svc.cluster.local")
"""Suffixes of names that belong to this machine or to the cluster: they cannot be registered."""


def refusal(host: str, origin: str, listening: str, *, anybody: bool) -> str:
    """Return why a request's headers forbid it; "" if they do not. `anybody`: no token is required."""
    if origin and urlsplit(origin).netloc.lower() != host.lower():
        return f"a request of a page from {_shown(origin)} is not answered"
    if anybody and host and not _is_ours(_name(host), listening):
        return (
            f"this server does not go by the name {_shown(_name(host))}: without a token it is asked for by"
            " address or as localhost"
        )
    return ""


def is_local(host: str) -> bool:
    """Return whether a listener at this host is reachable from this machine only."""
    name = _name(host) if not host.count(":") > 1 else host
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".").lower()


def _is_ours(name: str, listening: str) -> bool:
    if "." not in name and ":" not in name:
        return True  # a name of one word is this network's
    if name == listening.lower() or name.endswith(tuple(f".{each}" for each in _OURS)):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _shown(text: str) -> str:
    plain = "".join(char if char.isprintable() and char.isascii() else "?" for char in text)
    return plain if len(plain) <= 100 else plain[:100] + "..."
