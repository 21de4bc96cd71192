"""Go's decoder of base64, which passes over line ends. Upstream: encoding/base64."""

from __future__ import annotations

import base64
import binascii
from typing import Final

__all__ = ["canonical"]

_LINE_ENDS: Final = "\r\n"
_DIGITS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_PADDING: Final = "="
_QUANTUM: Final = 4


def canonical(text: str) -> str:
    """Return base64 as Go writes what it read. Raises ValueError with Go's text."""
    compact = text.replace("\n", "").replace("\r", "") if "\n" in text or "\r" in text else text
    try:
        raw = base64.b64decode(compact, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"illegal base64 data at input byte {_bad_byte(text)}") from None
    written = base64.b64encode(raw).decode()
    return text if written == text else written


def _bad_byte(text: str) -> int:
    """Return where Go's decoder stops: at the first invalid byte, or the start of the unfinished quantum."""
    at = filled = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char in _DIGITS:
            filled = (filled + 1) % _QUANTUM
        elif char == _PADDING:
            return _bad_padding(text, at, filled)
        elif char not in _LINE_ENDS:
            return at - 1
    return at - filled


def _bad_padding(text: str, at: int, filled: int) -> int:
    """Return where the decoder stops after padding, which ends before `at`, in a quantum with that many digits."""
    if filled < _QUANTUM - 2:
        return at - 1
    if filled == _QUANTUM - 2:
        at = _after_line_ends(text, at)
        if at == len(text):
            return at
        if text[at] != _PADDING:
            return at - 1
        at += 1
    return _after_line_ends(text, at)


def _after_line_ends(text: str, at: int) -> int:
    while at < len(text) and text[at] in _LINE_ENDS:
        at += 1
    return at
