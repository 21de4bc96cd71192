"""Numbers and booleans read from text as Go reads them, with its messages.

Upstream: the standard library's strconv, whose messages end up in the kubelet's.
"""

from __future__ import annotations

import re
from typing import Final

from controlplane.api.validation import quote

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")


class GoTextError(ValueError):
    """Text that Go does not take; the message is strconv's."""


_DIGITS: Final = 4000
"""The longest text of a number that Python reads with its default limit; a longer one exceeds 64 bits, but for zeros.
"""


def atoi(text: str) -> int:
    """A decimal integer of 64 bits. Raises GoTextError."""
    if not _INTEGER.fullmatch(text):
        raise GoTextError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    value = int(text) if len(text) <= _DIGITS else 1 << 63
    if not -(1 << 63) <= value < 1 << 63:
        raise GoTextError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return value


def parse_bool(text: str) -> bool:
    """A truth value. Raises GoTextError."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise GoTextError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")
