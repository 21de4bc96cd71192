"""The parameters of a request's target, as Go reads them.

Upstream: net/url ParseQuery; the API server reads what it gives and ignores its error.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

__all__ = ["parse_query"]

_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def parse_query(raw: str) -> dict[str, list[str]]:
    """Return the values of each parameter in their order; a malformed parameter is left out, the rest stays.

    Malformed are a percent sign without two hex digits, and a semicolon.
    """
    found: dict[str, list[str]] = {}
    for part in raw.split("&"):
        if not part or ";" in part or _BAD_ESCAPE.search(part):
            continue
        name, _, value = part.partition("=")
        found.setdefault(_unescaped(name), []).append(_unescaped(value))
    return found


def _unescaped(text: str) -> str:
    raw = text.replace("+", " ").encode("latin-1", "replace")
    return unquote_to_bytes(raw).decode("utf-8", "replace")
