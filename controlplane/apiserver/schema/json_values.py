"""JSON values as Go's decoder meets them: numbers, doubled keys, and the errors of a wrong type."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final

from controlplane.api.go_values import HTML_ESCAPES
from controlplane.apiserver.schema.go_types import embedding
from controlplane.apiserver.schema.work import spend


class DecodeError(ValueError):
    """The value is not of the type. str() is the text Go's decoder would give."""

    def __init__(self, text: str = "", found: str = "", wanted: str = "") -> None:
        super().__init__(text)
        self._text = text
        self._found = found
        self._wanted = wanted
        self._struct = ""
        self._path: list[str] = []

    def within(self, struct: str, name: str) -> None:
        """Note that the error arose inside field `name` of `struct` (innermost first)."""
        if not self._struct:
            self._struct = struct
        self._path.append(name)
        self._path.extend(embedding(struct, name))

    def __str__(self) -> str:
        if self._text:
            return self._text
        if not self._path:
            return f"json: cannot unmarshal {self._found} into Go value of type {self._wanted}"
        path = ".".join(reversed(self._path))
        return (
            f"json: cannot unmarshal {self._found} into Go struct field {self._struct}.{path} "
            f"of type {self._wanted}"
        )


class WrittenFloat(float):
    """A number that stood in JSON with a fraction or an exponent: no integer, even if it is whole."""

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        """From the text that stood there."""
        made = super().__new__(cls, text)
        made.text = text
        return made


class WrittenText(str):
    """A text as it stood in JSON: `text` is what was between the quotes, with its escapes."""

    text: str

    def __new__(cls, value: str, text: str) -> WrittenText:
        """From the value, and from the text that stood there."""
        made = super().__new__(cls, value)
        made.text = text
        return made


def plain_texts(value: Any) -> Any:
    """The value with each `WrittenText` as the text that it means."""
    if isinstance(value, WrittenText):
        return str(value)
    if isinstance(value, dict):
        return {key: plain_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_texts(item) for item in value]
    return value


_scalar: Final = json.JSONEncoder(ensure_ascii=False).encode


def json_text(value: Any) -> str:
    """Compact JSON as Go writes it; a text or number that is kept as it was written stands so."""
    return _compact(value).translate(HTML_ESCAPES)


def _compact(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{_scalar(key)}:{_compact(item)}" for key, item in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_compact, value))}]"
    if isinstance(value, WrittenText):
        return f'"{value.text}"'
    return value.text if isinstance(value, WrittenFloat) else _scalar(value)


class PairsDict(dict[str, Any]):
    """A JSON object in which some key came twice; `pairs` has every pair in order."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.pairs = pairs
        for key, value in pairs:
            earlier = self.get(key)
            if isinstance(earlier, dict) and isinstance(value, dict):
                value = {**earlier, **value}
            self[key] = value


def json_type(value: object) -> str:
    """The word Go's decoder uses for a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def mismatch(value: object, wanted: str) -> DecodeError:
    """The error of a JSON value that is not of the wanted Go type."""
    return DecodeError(found=json_type(value), wanted=wanted)


FEW = 8
"""Fields of a struct that are not counted one by one: structs count where there can be many of them."""
NO_NUMBERS = frozenset((str, bool, type(None)))
"""The types of values without parts that are no numbers."""
_TOO_LARGE = 1 << 1024
"""Integers of this size and more are infinite as float64."""


def check_numbers(value: Any) -> None:
    """Raise DecodeError for a number that float64 cannot hold, anywhere in a value that is read without a type.

    What YAML's aliases share is looked at once: written out it may be without end.
    """
    kind = type(value)
    if kind in NO_NUMBERS:
        return
    if isinstance(value, (dict, list)):
        _check_within(value, set())
    elif isinstance(value, float) and not isfinite(value):
        text = value.text if isinstance(value, WrittenFloat) else str(value)
        raise DecodeError(found=f"number {text}", wanted="float64")
    elif kind is int and not -_TOO_LARGE < value < _TOO_LARGE:
        raise DecodeError(found=f"number {value}", wanted="float64")


def _check_within(value: dict[Any, Any] | list[Any], seen: set[int]) -> None:
    if id(value) in seen:
        return
    seen.add(id(value))
    if len(value) > FEW:
        spend(len(value))
    for item in value.values() if isinstance(value, dict) else value:
        if type(item) in NO_NUMBERS:
            continue
        if isinstance(item, (dict, list)):
            _check_within(item, seen)
        else:
            check_numbers(item)


def go_number(value: float) -> str:
    """A number as Go prints it."""
    return f"{value:g}" if isinstance(value, float) else str(value)
