"""Reading a checkpoint file the way Go reads JSON into a struct, with what it says when it cannot.

Upstream: encoding/json. A value of the wrong type is passed over and reported at the end; syntax is
checked before anything is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs


class GoJSONError(ValueError):
    """The text is no JSON, or holds values of other types; the message is encoding/json's."""


@attrs.frozen
class Scalar:
    """A string or an integer; `name` is Go's name of the type."""

    name: str
    text: bool = True
    unsigned: bool = False


@attrs.frozen
class Struct:
    """Named fields; others are passed over. Field names match in any case."""

    name: str
    fields: Mapping[str, GoType]
    pointer: bool = False


@attrs.frozen
class Map:
    """Values of one type by text; with `keys` "int" the keys must be numbers."""

    name: str
    values: GoType
    integers: bool = False


@attrs.frozen
class Slice:
    """A list."""

    name: str
    items: GoType


GoType = Scalar | Struct | Map | Slice

_DIGITS: Final = 4000
"""The longest number that Python reads with its default limit; a longer one exceeds 64 bits."""

STRING: Final = Scalar("string")
INT: Final = Scalar("int", text=False)
UINT64: Final = Scalar("uint64", text=False, unsigned=True)


def unmarshal(text: str, target: Struct) -> dict[str, Any]:
    """The known fields of a JSON object by their JSON names. Raises GoJSONError."""
    check(text)
    reader = _Reader()
    found = reader.read(json.loads(text, parse_float=_Number, parse_int=_Number), target, (), "")
    if reader.error:
        raise GoJSONError(reader.error)
    return found if isinstance(found, dict) else {}


class _Number(str):
    """A number as it was written."""


class _Reader:
    def __init__(self) -> None:
        self.error = ""

    def wrong(self, found: str, target: GoType, path: tuple[str, ...], owner: str) -> None:
        if not self.error:
            where = f"Go struct field {owner}.{'.'.join(path)}" if path else "Go value"
            self.error = f"json: cannot unmarshal {found} into {where} of type {target.name}"

    def read(self, value: Any, target: GoType, path: tuple[str, ...], owner: str) -> Any:
        if value is None:
            return None
        if isinstance(target, Struct):
            if not isinstance(value, dict):
                return self.wrong(_kind(value), target, path, owner)
            return self._struct(value, target, path)
        if isinstance(target, Map):
            if not isinstance(value, dict):
                return self.wrong(_kind(value), target, path, owner)
            return {
                self._key(key, target, path, owner): self.read(item, target.values, path, owner)
                for key, item in value.items()
            }
        if isinstance(target, Slice):
            if not isinstance(value, list):
                return self.wrong(_kind(value), target, path, owner)
            return [self.read(item, target.items, path, owner) for item in value]
        return self._scalar(value, target, path, owner)

    def _struct(self, value: dict[str, Any], target: Struct, path: tuple[str, ...]) -> Any:
        found = {}
        names = {name.lower(): name for name in target.fields}
        for key, item in value.items():
            name = key if key in target.fields else names.get(key.lower())
            if name is not None:
                field = target.fields[name]
                found[name] = self.read(item, field, (*path, name), target.name)
        return found

    def _key(self, key: str, target: Map, path: tuple[str, ...], owner: str) -> Any:
        if not target.integers:
            return key
        try:
            return int(key)
        except ValueError:
            self.wrong(f"number {key}", INT, path, owner)
            return 0

    def _scalar(self, value: Any, target: Scalar, path: tuple[str, ...], owner: str) -> Any:
        if target.text:
            if isinstance(value, str) and not isinstance(value, _Number):
                return value
            return self.wrong(_kind(value), target, path, owner)
        if not isinstance(value, _Number):
            return self.wrong(_kind(value), target, path, owner)
        low, high = (0, 1 << 64) if target.unsigned else (-(1 << 63), 1 << 63)
        whole = value.lstrip("-").isdigit() and len(value) <= _DIGITS
        if not whole or not low <= int(value) < high:
            return self.wrong(f"number {value}", target, path, owner)
        return int(value)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "number" if isinstance(value, _Number) else "string"


def check(text: str) -> None:
    """Raise GoJSONError with Go's words unless the text is one JSON value."""
    end = _Scanner(text).value(0)
    end = _space(text, end)
    if end < len(text):
        raise _invalid(text[end], "after top-level value")


def _space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _invalid(char: str, where: str) -> GoJSONError:
    shown = {"'": r"'\''", '"': "'\"'", "\n": r"'\n'", "\t": r"'\t'", "\r": r"'\r'"}.get(char)
    if shown is None:
        shown = f"'{char}'" if char.isprintable() else f"'\\x{ord(char):02x}'"
    return GoJSONError(f"invalid character {shown} {where}")


_ENDED: Final = GoJSONError("unexpected end of JSON input")
_NUMBER: Final = "in numeric literal"


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text

    def char(self, at: int) -> str:
        if at >= len(self.text):
            raise _ENDED
        return self.text[at]

    def value(self, at: int) -> int:
        at = _space(self.text, at)
        char = self.char(at)
        if char == "{":
            return self.object(at + 1)
        if char == "[":
            return self.array(at + 1)
        if char == '"':
            return self.string(at + 1)
        if char in "tfn":
            return self.literal(at, {"t": "true", "f": "false", "n": "null"}[char])
        if char == "-" or (char.isascii() and char.isdigit()):
            return self.number(at)
        raise _invalid(char, "looking for beginning of value")

    def object(self, at: int) -> int:
        at = _space(self.text, at)
        if self.char(at) == "}":
            return at + 1
        while True:
            at = _space(self.text, at)
            if self.char(at) != '"':
                raise _invalid(self.text[at], "looking for beginning of object key string")
            at = _space(self.text, self.string(at + 1))
            if self.char(at) != ":":
                raise _invalid(self.text[at], "after object key")
            at = _space(self.text, self.value(at + 1))
            if self.char(at) == "}":
                return at + 1
            if self.text[at] != ",":
                raise _invalid(self.text[at], "after object key:value pair")
            at += 1

    def array(self, at: int) -> int:
        at = _space(self.text, at)
        if self.char(at) == "]":
            return at + 1
        while True:
            at = _space(self.text, self.value(at))
            if self.char(at) == "]":
                return at + 1
            if self.text[at] != ",":
                raise _invalid(self.text[at], "after array element")
            at += 1

    def string(self, at: int) -> int:
        while True:
            char = self.char(at)
            if char == '"':
                return at + 1
            if ord(char) < 0x20:
                raise _invalid(char, "in string literal")
            if char == "\\":
                at = self.escape(at + 1)
            else:
                at += 1

    def escape(self, at: int) -> int:
        char = self.char(at)
        if char == "u":
            for i in range(at + 1, at + 5):
                if self.char(i) not in "0123456789abcdefABCDEF":
                    raise _invalid(self.text[i], r"in \u hexadecimal character escape")
            return at + 5
        if char not in '"\\/bfnrt':
            raise _invalid(char, "in string escape code")
        return at + 1

    def literal(self, at: int, word: str) -> int:
        for i, wanted in enumerate(word):
            if self.char(at + i) != wanted:
                where = f"in literal {word} (expecting '{wanted}')"
                raise _invalid(self.text[at + i], where)
        return at + len(word)

    def digits(self, at: int, where: str) -> int:
        if not self.char(at).isdigit():
            raise _invalid(self.text[at], where)
        while at < len(self.text) and self.text[at].isdigit():
            at += 1
        return at

    def number(self, at: int) -> int:
        if self.text[at] == "-":
            at += 1
            if not self.char(at).isdigit():
                raise _invalid(self.text[at], _NUMBER)
        at = at + 1 if self.text[at] == "0" else self.digits(at, _NUMBER)
        if self.text[at : at + 1] == ".":
            at = self.digits(at + 1, "after decimal point in numeric literal")
        if self.text[at : at + 1] in ("e", "E"):
            at += 1
            if self.char(at) in "+-":
                at += 1
            at = self.digits(at, "in exponent of numeric literal")
        return at
