"""Cells that the tables of several kinds share, and ages."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.kind import Row
from controlplane.apiserver.kinds.selectors import selector_of

__all__ = [
    "age",
    "age_of",
    "first_few",
    "human_duration",
    "labels_text",
    "name_of",
    "part_of",
    "plain_row",
    "selector_text",
    "template_cells",
]

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human_duration(seconds: int) -> str:
    """Two units at most, coarser the longer it is."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    minutes = seconds // _MINUTE
    if minutes < 10:
        rest = seconds % _MINUTE
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = seconds // _HOUR
    if hours < 8:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        rest = hours % 24
        return f"{days}d{rest}h" if rest else f"{days}d"
    if seconds < 2 * _YEAR:
        return f"{days}d"
    years = days // 365
    if seconds < 8 * _YEAR:
        rest = days % 365
        return f"{years}y{rest}d" if rest else f"{years}y"
    return f"{years}y"


@lru_cache(maxsize=256)
def age(text: str | None, now: int) -> str:
    """Return the time since a timestamp in short form.

    It is kept for the other rows of a table: what was created in one second has one text (0.1 us instead of 1 us).
    """
    if not text:
        return "<unknown>"
    return human_duration((now - parse_time(text)) // SECOND)


def name_of(tree: Tree) -> str:
    """The name of an object."""
    name: str = tree["metadata"].get("name", "")
    return name


def age_of(tree: Tree, now: int) -> str:
    """The age of an object."""
    return age(tree["metadata"].get("creationTimestamp"), now)


def part_of(tree: Tree, key: str) -> Tree:
    """A part of a tree; an empty one for a missing part."""
    found: Tree = tree.get(key) or {}
    return found


def template_cells(tree: Tree) -> tuple[str, str]:
    """Names and images of the containers of a template."""
    spec = part_of(part_of(part_of(tree, "spec"), "template"), "spec")
    containers = spec.get("containers") or []
    return (
        ",".join(c.get("name", "") for c in containers),
        ",".join(c.get("image", "") for c in containers),
    )


def selector_text(selector: Tree | None) -> str:
    """A label selector as text."""
    chosen = selector_of(selector)
    if chosen is None:
        return "<error>"
    return str(chosen) or "<none>"


def labels_text(labels: Tree | None) -> str:
    """A map of labels as text."""
    if not labels:
        return "<none>"
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def first_few(items: list[str]) -> str:
    """Three items, and the number of the others."""
    text = ",".join(items[:3])
    return f"{text} + {len(items) - 3} more..." if len(items) > 3 else text


def plain_row(*paths: str) -> Row:
    """Name, the values at the paths, age."""

    def row(tree: Tree, now: int) -> list[Any]:
        cells: list[Any] = [name_of(tree)]
        for path in paths:
            value: Any = tree
            for part in path.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            cells.append("" if value is None else value)
        return [*cells, age_of(tree, now)]

    return row
