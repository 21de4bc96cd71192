"""Values as Go prints them with %v; patch errors quote them."""

from __future__ import annotations

from typing import Any

__all__ = ["go_value"]


def go_value(value: Any) -> str:
    """`map[a:1 b:[x y]]`: maps with sorted keys, lists with blanks, strings bare."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_value(item) for item in value) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
