"""Reading JSON and YAML texts, with the errors that Go's readers give."""

from __future__ import annotations

import codecs
import json
import re
from decimal import Decimal
from typing import Any, ClassVar

import yaml

from controlplane.apiserver.schema.codec import PairsDict, WrittenFloat

__all__ = ["TextError", "YamlDuplicates", "parse_json", "parse_yaml", "syntax_error"]


class TextError(ValueError):
    """The text cannot be read."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else PairsDict(pairs)


def _constant(name: str) -> Any:
    raise ValueError(name)


def parse_json(raw: bytes) -> Any:
    """The value of a JSON text; objects with repeated keys are `PairsDict`. TextError."""
    if raw.startswith(codecs.BOM_UTF8):
        raise TextError("invalid character 'ï' looking for beginning of value")
    try:
        return json.loads(
            raw, object_pairs_hook=_pairs, parse_constant=_constant, parse_float=WrittenFloat
        )
    except (ValueError, RecursionError):
        raise TextError(syntax_error(raw.decode("utf-8", "replace"))) from None


_SPACE = " \t\r\n"
_END = "unexpected end of JSON input"
_ESCAPES = '"\\/bfnrt'


def _quoted(char: str) -> str:
    if char == "'":
        return r"'\''"
    if char == '"':
        return "'\"'"
    escapes = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\"}
    if 0x7F <= ord(char) < 0xA0:
        return f"'\\u{ord(char):04x}'"
    return f"'{escapes.get(char, char)}'"


class _Scanner:
    """Walks a text as encoding/json's scanner does, to find what it would complain about."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, where: str) -> TextError:
        if self.at >= len(self.text):
            return TextError(_END)
        return TextError(f"invalid character {_quoted(self.text[self.at])} {where}")

    def skip(self) -> str:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1
        return self.text[self.at] if self.at < len(self.text) else ""

    def value(self, *, closing: str = "") -> None:
        char = self.skip()
        if char == "{":
            self._object()
        elif char == "[":
            self._array()
        elif char == '"':
            self._string()
        elif char in "tfn" and char:
            self._literal({"t": "true", "f": "false", "n": "null"}[char])
        elif char and (char == "-" or char.isdigit()):
            self._number()
        else:
            raise self.fail("looking for beginning of value")

    def _object(self) -> None:
        self.at += 1
        if self.skip() == "}":
            self.at += 1
            return
        while True:
            if self.skip() != '"':
                raise self.fail("looking for beginning of object key string")
            self._string()
            if self.skip() != ":":
                raise self.fail("after object key")
            self.at += 1
            self.value()
            char = self.skip()
            if char == "}":
                self.at += 1
                return
            if char != ",":
                raise self.fail("after object key:value pair")
            self.at += 1

    def _array(self) -> None:
        self.at += 1
        if self.skip() == "]":
            self.at += 1
            return
        while True:
            self.value()
            char = self.skip()
            if char == "]":
                self.at += 1
                return
            if char != ",":
                raise self.fail("after array element")
            self.at += 1

    def _string(self) -> None:
        self.at += 1
        while True:
            if self.at >= len(self.text):
                raise TextError(_END)
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\":
                self.at += 1
                if self.at < len(self.text) and self.text[self.at] == "u":
                    for _ in range(4):
                        self.at += 1
                        if self.at >= len(self.text) or self.text[self.at] not in (
                            "0123456789abcdefABCDEF"
                        ):
                            raise self.fail("in \\u hexadecimal character escape")
                elif self.at >= len(self.text) or self.text[self.at] not in _ESCAPES:
                    raise self.fail("in string escape code")
            elif char < " ":
                raise self.fail("in string literal")
            self.at += 1

    def _literal(self, word: str) -> None:
        for expected in word:
            if self.at >= len(self.text) or self.text[self.at] != expected:
                raise self.fail(f"in literal {word} (expecting {_quoted(expected)})")
            self.at += 1

    def _digits(self, where: str) -> None:
        if self.at >= len(self.text) or not self.text[self.at].isdigit():
            raise self.fail(where)
        while self.at < len(self.text) and self.text[self.at].isdigit():
            self.at += 1

    def _number(self) -> None:
        if self.text[self.at] == "-":
            self.at += 1
        if self.at < len(self.text) and self.text[self.at] == "0":
            self.at += 1
        else:
            self._digits("in numeric literal")
        if self.at < len(self.text) and self.text[self.at] == ".":
            self.at += 1
            self._digits("after decimal point in numeric literal")
        if self.at < len(self.text) and self.text[self.at] in "eE":
            self.at += 1
            if self.at < len(self.text) and self.text[self.at] in "+-":
                self.at += 1
            self._digits("in exponent of numeric literal")


def syntax_error(text: str) -> str:
    """What Go's JSON reader says about a text that is not JSON; "" if it is."""
    scanner = _Scanner(text)
    try:
        scanner.value()
        if scanner.skip():
            raise scanner.fail("after top-level value")
    except TextError as error:
        return str(error)
    except RecursionError:
        return "exceeded max depth"
    return ""


class YamlDuplicates(TextError):
    """A YAML mapping has a key twice; `value` is the document all the same."""

    def __init__(self, lines: list[str], value: Any) -> None:
        super().__init__("yaml: unmarshal errors:\n" + "\n".join(f"  {line}" for line in lines))
        self.value = value


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """YAML as Kubernetes reads it, by way of JSON.

    There are no timestamps, `y` and `n` are booleans, keys are texts and sorted, repetitions are noted.
    """

    bool_values: ClassVar = {**_Base.bool_values, "y": True, "n": False}

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self.repeated: list[str] = []


def _construct_map(loader: Any, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    out: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, bool):
            key = "true" if key else "false"
        key = str(key)
        if key in out:
            line = key_node.start_mark.line + 1
            loader.repeated.append(f'line {line}: key "{key}" already set in map')
        out[key] = loader.construct_object(value_node, deep=True)
    return dict(sorted(out.items()))


_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_OWN = ("tag:yaml.org,2002:timestamp", _INT, _FLOAT)
_BASES = {"0x": 16, "0X": 16, "0b": 2, "0B": 2, "0o": 8, "0O": 8}


def _construct_int(loader: Any, node: yaml.ScalarNode) -> int | WrittenFloat:
    text = loader.construct_scalar(node).replace("_", "")
    digits = text.lstrip("+-")
    base = _BASES.get(digits[:2], 8 if digits[0] == "0" else 10)
    value = int(digits[2:] if digits[:2] in _BASES else digits, base)
    value = -value if text[0] == "-" else value
    return value if -(2**63) <= value < 2**64 else _as_json(float(value))


def _construct_float(loader: Any, node: yaml.ScalarNode) -> int | WrittenFloat:
    text = loader.construct_scalar(node).replace("_", "")
    if text[-1].isalpha():
        sign = "-" if text[0] == "-" else "+"
        word = "NaN" if text[-3:].lower() == "nan" else f"{sign}Inf"
        raise TextError(f"json: unsupported value: {word}")
    return _as_json(float(text))


def _as_json(value: float) -> int | WrittenFloat:
    """A float as it comes back from JSON, where a whole one below 1e21 looks like an integer."""
    if value.is_integer() and abs(value) < 1e21:
        return int(value)
    digits = Decimal(repr(value))
    if 1e-6 <= abs(value) < 1e21:
        return WrittenFloat(f"{digits:f}")
    mantissa, _, exponent = f"{digits.normalize():e}".partition("e")
    return WrittenFloat(f"{mantissa}e{exponent}")


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_map)
_Loader.add_constructor(_INT, _construct_int)
_Loader.add_constructor(_FLOAT, _construct_float)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag not in _OWN]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
for _tag, _form, _first in (
    ("tag:yaml.org,2002:bool", r"^[yYnN]$", "yYnN"),
    (_INT, r"^[-+]?(0[bB][01_]+|0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|[1-9][0-9_]*|0)$", "-+0123456789"),
    (
        _FLOAT,
        r"^([-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$",
        "-+0123456789.",
    ),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_form), list(_first))


def _yaml_line(error: yaml.YAMLError) -> int:
    """The line that go-yaml names: from 1 for scanner errors, from 0 for all others; 0 is not named."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None and mark.line:
        line: int = mark.line
        return line + 1 if isinstance(error, yaml.scanner.ScannerError) else line
    context = getattr(error, "context_mark", None)
    return context.line if context is not None else 0


def _yaml_error(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or str(error)
    texts = {
        "mapping values are not allowed here": "mapping values are not allowed in this context",
    }
    if "expected the node content" in problem:
        problem = "did not find expected node content"
    problem = texts.get(problem, problem)
    line = _yaml_line(error)
    at = f"line {line}: " if line else ""
    return f"yaml: {at}{problem}"


def parse_yaml(raw: bytes) -> Any:
    """The value of a YAML text's first document. TextError; YamlDuplicates when a key stands twice."""
    loader = _Loader(raw)
    try:
        value = loader.get_data() if loader.check_data() else None
    except yaml.YAMLError as error:
        raise TextError(_yaml_error(error)) from None
    finally:
        loader.dispose()
    if loader.repeated:
        raise YamlDuplicates(loader.repeated, value)
    return value
