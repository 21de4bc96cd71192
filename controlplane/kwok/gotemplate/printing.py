"""Values of templates: as Go prints them, formats them, and takes them for true."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from controlplane.api.go_numbers import shown_float

__all__ = ["Number", "formatted", "go_type", "numbers", "plain", "shown", "truth"]


class Number(str):
    """A number of the object, as its text."""

    __slots__ = ()


def numbers(value: Any) -> Any:
    """Return a JSON value with its numbers as texts."""
    if isinstance(value, Mapping):
        return {key: numbers(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [numbers(each) for each in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Number(json.dumps(value))
    return value


def plain(value: Any) -> Any:
    """Return a value with its numbers as numbers again."""
    if isinstance(value, Number):
        return json.loads(value)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


def truth(value: Any) -> bool:
    """Return False for nil, false, zero and what is empty."""
    return bool(value)


def go_type(value: Any) -> str:
    """Return the name of a value's type in Go."""
    if value is None:
        return "<nil>"
    for kind, name in (
        (Number, "json.Number"),
        (bool, "bool"),
        (int, "int"),
        (float, "float64"),
        (str, "string"),
        (list, "[]interface {}"),
    ):
        if isinstance(value, kind):
            return name
    return "map[string]interface {}"


def shown(value: Any, inside: bool = False) -> str:
    """Return a value as an action prints it."""
    if value is None:
        return "<nil>" if inside else "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return shown_float(value)
    if isinstance(value, Mapping):
        parts = (f"{key}:{shown(value[key], True)}" for key in sorted(value))
        return f"map[{' '.join(parts)}]"
    if isinstance(value, list):
        return f"[{' '.join(shown(each, True) for each in value)}]"
    return str(value)


_VERB: Final = re.compile(r"%([-+# 0]*+)(\d*+|\*)(?:\.(\d++))?+([a-zA-Z%])")


def formatted(form: str, args: list[Any]) -> str:
    """Return a text as Go's `fmt.Sprintf` makes it, for the common verbs."""
    left = list(args)

    def verb(found: re.Match[str]) -> str:
        flags, width, precision, letter = found.groups()
        if letter == "%":
            return "%"
        if not left:
            return f"%!{letter}(MISSING)"
        text = _verb(letter, flags, precision, left.pop(0))
        size = int(width or 0)
        if "-" in flags:
            return text.ljust(size)
        if "0" in flags and letter in "dfxXeEgbo":
            sign = text[:1] if text[:1] in ("-", "+") else ""
            return sign + text[len(sign) :].rjust(size - len(sign), "0")
        return text.rjust(size)

    text = _VERB.sub(verb, form)
    if left:
        extra = ", ".join(f"{go_type(each)}={shown(each, True)}" for each in left)
        text += f"%!(EXTRA {extra})"
    return text


def _verb(letter: str, flags: str, precision: str | None, value: Any) -> str:
    if letter in "vs":
        if letter == "s" and isinstance(value, (bool, int, float)):
            return f"%!s({go_type(value)}={shown(value)})"
        text = "%!s(<nil>)" if value is None and letter == "s" else shown(value, True)
        return text if precision is None else text[: int(precision)]
    if letter == "q" and isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if letter == "t" and isinstance(value, bool):
        return shown(value)
    if letter == "T":
        return go_type(value)
    if letter in "dxXob" and isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:{letter}}"
        return f"+{text}" if "+" in flags and value >= 0 else text
    if letter in "xX" and isinstance(value, str):
        text = value.encode().hex()
        return text.upper() if letter == "X" else text
    if letter in "feEgG" and isinstance(value, float):
        if letter in "gG" and precision is None:
            return shown_float(value)
        return f"{value:.{precision or 6}{letter}}"
    if letter == "c" and isinstance(value, int):
        return chr(value)
    return f"%!{letter}({go_type(value)}={shown(value, True)})"
