"""URIs as Go's net/url takes them with ParseRequestURI: absolute, or a path."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_request_uri"]

_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HOST: Final = re.compile(
    r"(?:[A-Za-z0-9!$&'()*+,;=:\[\]<>\"\-_.~\x80-\U0010ffff]|%25|%[89A-Fa-f][0-9A-Fa-f])*"
)
_PORT: Final = re.compile("(?::[0-9]*)?")
_ESCAPES: Final = re.compile("(?:[^%]|%[0-9A-Fa-f]{2})*")


def is_request_uri(text: str) -> bool:
    """Return whether a request could name `text`: `https://host/path`, `mailto:name`, `/path` or `*`."""
    if not text or _CONTROL.search(text):
        return False
    if text == "*":
        return True
    found = _SCHEME.match(text)
    rest = text[found.end() :] if found else text
    if text.startswith(":"):
        return False
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        return found is not None  # opaque, as mailto:name is
    if found is not None and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, _, host = authority.rpartition("@")
        if not (_USER.fullmatch(user) and _ESCAPES.fullmatch(user) and _is_host(host)):
            return False
    return _ESCAPES.fullmatch(rest) is not None


def _is_host(host: str) -> bool:
    if host.startswith("["):
        address, bracket, port = host.rpartition("]")
        if not bracket:
            return False
        zoned = address.partition("%25")
        return bool(_PORT.fullmatch(port) and _HOST.fullmatch(zoned[0]))
    _, colon, port = host.rpartition(":")
    return bool(_PORT.fullmatch(colon + port if colon else "") and _HOST.fullmatch(host))
