"""The base of all errors that mean wrong input rather than a fault of ours."""

from __future__ import annotations

from typing import Final

_SHOWN: Final = 100


def shown(value: object) -> str:
    """A value as an error quotes it: one line, and of a long one the beginning."""
    if isinstance(value, str):
        value = value[: _SHOWN + 1]
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class UsageError(Exception):
    """Bad input. Its text is one line that names the place and what was expected."""
