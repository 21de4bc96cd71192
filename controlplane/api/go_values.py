"""Values as Go prints them with %v, %#v and as JSON, and the names of their types."""

from __future__ import annotations

import json
from typing import Any, Final

from controlplane.api.go_numbers import json_float, shown_float

__all__ = ["HTML_ESCAPES", "go_json", "go_syntax", "go_type", "go_value"]

HTML_ESCAPES: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""Characters that Go's JSON escapes inside texts, as a table of `str.translate`."""


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
        return shown_float(value)
    return str(value)


def go_json(value: Any, *, indent: int = 0, depth: int = 0) -> str:
    """Return a value as json.Marshal writes it: keys sorted, `<`, `>` and `&` escaped.

    Args:
        value: A JSON tree.
        indent: Blanks for each level, as json.MarshalIndent puts them; 0 puts nothing between tokens.
        depth: Levels around the value.
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).translate(HTML_ESCAPES)
    if isinstance(value, float):
        return json_float(value)
    if not isinstance(value, (dict, list)):
        return json.dumps(value)
    if isinstance(value, dict):
        colon = ": " if indent else ":"
        parts = [
            go_json(key) + colon + go_json(value[key], indent=indent, depth=depth + 1)
            for key in sorted(value)
        ]
    else:
        parts = [go_json(item, indent=indent, depth=depth + 1) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if not parts or not indent:
        return opening + ",".join(parts) + closing
    line = "\n" + " " * (indent * depth)
    inner = line + " " * indent
    return opening + inner + ("," + inner).join(parts) + line + closing


_TYPES = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool",
          float: "float64", type(None): "%!s(<nil>)"}  # fmt: skip


def go_type(value: Any) -> str:
    """The Go type that a JSON value is read as."""
    for kind, name in _TYPES.items():
        if isinstance(value, kind):
            return name
    return "int64"


def go_syntax(value: Any) -> str:
    """`map[string]interface {}{"a":1}`: a value as Go source."""
    if isinstance(value, dict):
        members = ", ".join(f"{json.dumps(key)}:{go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{members}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(go_syntax(item) for item in value) + "}"
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return go_value(value)
