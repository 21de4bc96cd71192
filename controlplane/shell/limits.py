"""The limits of what a shell is asked to run."""

from __future__ import annotations

from typing import Final

from controlplane.shell.streams import Exhausted

__all__ = ["SCRIPT_LIMIT", "WORDS", "check_script", "check_words"]

SCRIPT_LIMIT: Final = 256 << 10
"""Bytes of a script, and of what variables in a line stand for."""
WORDS: Final = 4096
"""The number of words of one command."""


def check_script(size: int) -> None:
    """Raise Exhausted for a script that is too long."""
    if size > SCRIPT_LIMIT:
        raise Exhausted(f"a script of more than {SCRIPT_LIMIT} bytes")


def check_words(size: int) -> None:
    """Raise Exhausted for words that are too long together."""
    if size > SCRIPT_LIMIT:
        raise Exhausted("Argument list too long")
