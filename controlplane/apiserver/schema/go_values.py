"""Values as Go prints them with %v and %#v, and the names of their types: errors quote them."""

from __future__ import annotations

import json
from typing import Any

from controlplane.apiserver.schema.field_errors import Raw
from controlplane.apiserver.schema.go_numbers import json_float, shown_float

__all__ = ["as_json", "go_json", "go_syntax", "go_type", "go_value"]


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


def go_json(value: Any) -> str:
    """Return a value as json.Marshal writes it: keys sorted, nothing between tokens, `<`, `>` and `&` escaped."""
    if isinstance(value, dict):
        return (
            "{" + ",".join(f"{go_json(key)}:{go_json(value[key])}" for key in sorted(value)) + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(go_json(item) for item in value) + "]"
    if isinstance(value, float):
        return json_float(value)
    text = json.dumps(value, ensure_ascii=False)
    return text.translate(_ESCAPED) if isinstance(value, str) else text


_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_TYPES = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool",
          float: "float64", type(None): "%!s(<nil>)"}  # fmt: skip


def go_type(value: Any) -> str:
    """The Go type that a JSON value is read as."""
    for kind, name in _TYPES.items():
        if isinstance(value, kind):
            return name
    return "int64"


def as_json(value: Any) -> Any:
    """Return a value for a field error, which prints maps and lists of custom resources with sorted keys."""
    return Raw(go_json(value)) if isinstance(value, dict | list) else value


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
