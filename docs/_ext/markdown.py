"""Text as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\*_<>\[\]{}|$#~])")
_CODE = re.compile(r"(`[^`]*`)")


def escape(text: str) -> str:
    """Return plain text as Markdown that shows it; what stands between backticks stays code."""
    parts = _CODE.split(text)
    return "".join(
        part.replace("|", r"\|") if at % 2 else _SPECIAL.sub(r"\\\1", part)
        for at, part in enumerate(parts)
    )


def line(text: str) -> str:
    """Return a text of several lines as one line of Markdown."""
    return escape(" ".join(text.split()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown already, of one line each."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def definitions(entries: Iterable[tuple[str, str]]) -> str:
    """Return a definition list of terms and texts; both are Markdown already."""
    return "\n\n".join(f"{term}\n: {text}" for term, text in entries)
