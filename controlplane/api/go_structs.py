"""Strict decoding of JSON trees by tables of Go structs, with the errors of Go's decoder.

Configuration files of upstream's components are Go structs, and what is wrong in one is told in the words of
`sigs.k8s.io/json`. A table maps the name of a struct to its fields and their types:

- a scalar (`string`, `bool`, `int`, `int32`, `int64`, `uint`, `float32`, `float64`, `duration`),
- the name of a struct, or of a named scalar (see `named`),
- `("list", type)`, `("map", type)`, or `raw` for what is decoded later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.api import durations

__all__ = ["DecodeError", "Decoder", "Structs", "parse_duration"]

Json = Any
Type = Any
Structs = Mapping[str, Mapping[str, Type]]

_RANGES: Final = {
    "int": (-(1 << 63), 1 << 63),
    "int32": (-(1 << 31), 1 << 31),
    "int64": (-(1 << 63), 1 << 63),
    "uint": (0, 1 << 64),
}
_FLOATS: Final = ("float32", "float64")
_TYPE_META: Final = ("kind", "apiVersion")


class DecodeError(ValueError):
    """A document that is no configuration; the text is upstream's. `place` is set by callers that know it."""

    place: str = ""


class Decoder:
    """Decodes one document; unknown fields are collected and reported by the caller.

    Args:
        structs: the structs.
        packages: the Go package of a struct or of a named type, where it is not `package`.
        package: the package of all others.
        named: the scalar that a named type is.
    """

    def __init__(
        self,
        structs: Structs,
        packages: Mapping[str, str] | None = None,
        package: str = "v1",
        named: Mapping[str, Type] | None = None,
    ) -> None:
        self.unknown: list[str] = []
        self._structs = structs
        self._packages = packages or {}
        self._package = package
        self._named = named or {}

    def struct(
        self, name: str, tree: Json, path: str = "", owner: str = "", fields_path: str = ""
    ) -> dict[str, Json]:
        """The known fields of a tree, nulls dropped. Raises DecodeError for a wrong type.

        `path` (with indices) names unknown fields; Go names mismatched ones by the innermost
        struct and the path of fields, without indices.
        """
        if not isinstance(tree, dict):
            raise DecodeError(_mismatch(tree, owner or name, self._go_type(name)))
        fields = self._structs[name]
        # Go matches field names without regard to case, but strict decoding is exact.
        out: dict[str, Json] = {}
        for key, value in tree.items():
            where = f"{path}.{key}" if path else key
            kind = fields.get(key)
            if kind is None:
                if not (name.endswith("Args") and key in _TYPE_META):
                    self.unknown.append(f'unknown field "{where}"')
                continue
            if value is not None:
                inner = f"{fields_path}.{key}" if fields_path else key
                out[key] = self._value(kind, value, where, f"{name}.{inner}", inner)
        return out

    def _value(self, kind: Type, value: Json, path: str, owner: str, fields: str) -> Json:
        shown = self._go_type(kind)
        if isinstance(kind, str):
            kind = self._named.get(kind, kind)
        if isinstance(kind, tuple):
            container, inner = kind
            if container == "list":
                if not isinstance(value, list):
                    raise DecodeError(_mismatch(value, owner, shown))
                return [
                    self._value(inner, each, f"{path}[{i}]", owner, fields)
                    for i, each in enumerate(value)
                ]
            if not isinstance(value, dict):
                raise DecodeError(_mismatch(value, owner, shown))
            return {
                key: self._value(inner, each, path, owner, fields) for key, each in value.items()
            }
        if kind == "raw":
            return value
        if kind in self._structs:
            return self.struct(kind, value, path, owner, fields)
        return _scalar(kind, value, owner, shown)

    def _go_type(self, kind: Type) -> str:
        if isinstance(kind, tuple):
            container, inner = kind
            return f"{'[]' if container == 'list' else 'map[string]'}{self._go_type(inner)}"
        if kind in self._structs or kind in self._named:
            return f"{self._packages.get(kind, self._package)}.{kind}"
        return "string" if kind == "duration" else str(kind)


def _scalar(kind: str, value: Json, owner: str, shown: str) -> Json:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in _RANGES:
        low, limit = _RANGES[kind]
        if not is_number:
            raise DecodeError(_mismatch(value, owner, shown))
        if not isinstance(value, int) or not low <= value < limit:
            text = f"json: cannot unmarshal number {_number(value)} into Go struct field "
            raise DecodeError(f"{text}{owner} of type {shown}")
        return value
    if kind in _FLOATS or kind == "bool":
        if not (isinstance(value, bool) if kind == "bool" else is_number):
            raise DecodeError(_mismatch(value, owner, shown))
        return value
    if not isinstance(value, str):
        raise DecodeError(_mismatch(value, owner, shown))
    if kind == "duration":
        parse_duration(value)
    return value


def _number(value: Json) -> str:
    return repr(value) if isinstance(value, int) else f"{value:g}"


def _mismatch(value: Json, owner: str, kind: str) -> str:
    what = {bool: "bool", str: "string", list: "array", dict: "object"}.get(type(value), "number")
    return f"json: cannot unmarshal {what} into Go struct field {owner} of type {kind}"


def parse_duration(text: str) -> int:
    """Nanoseconds of a Go duration such as 1m30s. Raises DecodeError."""
    try:
        return durations.parse_duration(text)
    except durations.DurationError as error:
        raise DecodeError(str(error)) from None
