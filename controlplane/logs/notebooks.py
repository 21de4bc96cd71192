"""Answers as notebooks show them: plain dicts and lists that Jupyter draws as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

ROWS: Final = 200
"""The most rows that are drawn of one table."""


class Fields(dict[str, Any]):
    """A dict that a notebook draws as a table of names and values."""

    def _repr_html_(self) -> str:
        return html(self)


class Records(list[Any]):
    """A list of dicts that a notebook draws as a table, a column for each key."""

    def _repr_html_(self) -> str:
        return html(self)


def table(heads: Iterable[str], rows: Sequence[Iterable[object]]) -> str:
    """Return an HTML table of texts, of the first `ROWS` rows."""
    names = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{html(cell)}</td>" for cell in row) + "</tr>" for row in rows[:ROWS]
    )
    rest = f"<p>and {len(rows) - ROWS:,} more</p>" if len(rows) > ROWS else ""
    head = f"<thead><tr>{names}</tr></thead>" if names else ""
    return f"<table>{head}<tbody>{body}</tbody></table>{rest}"


def html(value: object) -> str:
    """Return a JSON value as HTML: maps and lists of maps as tables, the rest as text."""
    if isinstance(value, Mapping):
        return table((), list(value.items())) if value else ""
    if isinstance(value, list | tuple):
        if value and all(isinstance(each, Mapping) for each in value):
            heads = list(dict.fromkeys(key for each in value for key in each))
            return table(heads, [[each.get(head, "") for head in heads] for each in value])
        return ", ".join(html(each) for each in value)
    return "" if value is None else escape(str(value))
