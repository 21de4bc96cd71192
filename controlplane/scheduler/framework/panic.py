"""Panics of upstream's code."""

from __future__ import annotations

__all__ = ["NIL_POINTER", "PanicError"]

NIL_POINTER = "runtime error: invalid memory address or nil pointer dereference"


class PanicError(Exception):
    """Upstream's process ends here with a Go panic; the text is its message."""
