"""Reading JSON and YAML texts, with the errors that Go's readers give."""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import re
from decimal import Decimal
from functools import cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from operator import itemgetter
from typing import Any, ClassVar, Final

import yaml

from controlplane.api.depth import DEPTH, EXCEEDED, too_deep
from controlplane.api.validation import quote
from controlplane.api.yaml_text import Excessive, TooMany, check_aliases, guard
from controlplane.apiserver.schema import work
from controlplane.apiserver.schema.codec import PairsDict, WrittenFloat
from controlplane.apiserver.schema.json_values import WrittenText

__all__ = [
    "TextError",
    "YamlDuplicates",
    "is_escaped",
    "parse_json",
    "parse_written",
    "parse_yaml",
    "syntax_error",
]


class TextError(ValueError):
    """The text cannot be read."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else PairsDict(pairs)


def _constant(name: str) -> Any:
    raise ValueError(name)


_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INVALID: Final = "\ufffd"
_BYTEWISE: Final = "controlplane.bytewise"


def _bytewise(error: UnicodeError) -> tuple[str, int]:
    """Each byte that is no UTF-8 becomes U+FFFD, as Go ranges over a text."""
    assert isinstance(error, UnicodeDecodeError)
    return _INVALID * (error.end - error.start), error.end


codecs.register_error(_BYTEWISE, _bytewise)


def parse_json(raw: bytes) -> Any:
    """The value of a JSON text; objects with repeated keys are `PairsDict`. TextError.

    What is not UTF-8, and half of a surrogate pair, is read as U+FFFD.
    """
    if raw.startswith(codecs.BOM_UTF8):
        raise TextError("invalid character 'ï' looking for beginning of value")
    text = raw.decode("utf-8", _BYTEWISE)
    try:
        value = (_loads_long if _MANY in raw.translate(_AS_ZEROS) else _loads)(text)
    except (ValueError, RecursionError):
        raise TextError(syntax_error(text)) from None
    if raw.count(b"{") + raw.count(b"[") > DEPTH and too_deep(value):
        raise TextError(syntax_error(text))
    if _SURROGATE_ESCAPE.search(raw):
        value = _paired(value)
    return value


def parse_written(raw: bytes) -> Any:
    """The same as `parse_json`, with texts that have escapes, or that Go would escape, as `WrittenText`."""
    value = parse_json(raw)
    if not is_escaped(raw):
        return value
    try:
        return _written_decoder().decode(raw.decode("utf-8", _BYTEWISE))
    except RecursionError:
        return value  # so deep a patch is quoted with escapes of our own


def is_escaped(raw: bytes) -> bool:
    """Return whether a text of this JSON may be written otherwise than Go writes it."""
    return _MAY_DIFFER.search(raw) is not None


_MAY_DIFFER: Final = re.compile(rb"[\\<>&]|\xe2\x80[\xa8\xa9]")


def _written_string(text: str, begin: int, strict: bool = True) -> tuple[str, int]:
    value, end = scanstring(text, begin, strict)
    written = text[begin : end - 1]
    if _MAY_DIFFER.search(written.encode("utf-8", "surrogatepass")):
        return WrittenText(_SURROGATE.sub(_INVALID, value), written), end
    return value, end


@cache
def _written_decoder() -> Any:
    decoder: Any = json.JSONDecoder(
        object_pairs_hook=_pairs,
        parse_constant=_constant,
        parse_float=WrittenFloat,
        parse_int=_long_int,
    )
    decoder.parse_string = _written_string
    decoder.scan_once = py_make_scanner(decoder)  # the one in C has a reader of texts of its own
    return decoder


def _decoder(**forms: Any) -> Any:
    return json.JSONDecoder(
        object_pairs_hook=_pairs, parse_constant=_constant, parse_float=WrittenFloat, **forms
    ).decode


_LONG: Final = 400
"""A number of digits before the point that no float64 has."""
_MANY: Final = b"0" * _LONG
_AS_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")


def _long_int(digits: str) -> int | WrittenFloat:
    return int(digits) if len(digits) < _LONG else WrittenFloat(digits)


_loads: Final = _decoder()
_loads_long: Final = _decoder(parse_int=_long_int)


def _paired(value: Any) -> Any:
    """The value without halves of surrogate pairs."""
    if isinstance(value, str):
        return _SURROGATE.sub(_INVALID, value)
    if isinstance(value, list):
        return [_paired(each) for each in value]
    if isinstance(value, PairsDict):
        return PairsDict([(_paired(key), _paired(each)) for key, each in value.pairs])
    if isinstance(value, dict):
        return _pairs([(_paired(key), _paired(each)) for key, each in value.items()])
    return value


_END = "unexpected end of JSON input"
_ESCAPES = '"\\/bfnrt'
_DIGITS = "0123456789"
_CLOSES = {"{": "}", "[": "]"}
_AFTER = {"{": "after object key:value pair", "[": "after array element"}
_SPACES = re.compile(r"[ \t\r\n]*+")
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f]*+')
_MANY_DIGITS = re.compile(r"[0-9]*+")


def _quoted(char: str) -> str:
    """A character as the scanner names it, which sees bytes: of one that is not ASCII, the first.

    A byte that is no UTF-8 stands as `surrogateescape` keeps it.
    """
    if char == "'":
        return r"'\''"
    if char == '"':
        return "'\"'"
    escaped = 0x80 <= ord(char) - _ESCAPED <= 0xFF
    first = ord(char) - _ESCAPED if escaped else char.encode(errors="surrogatepass")[0]
    return f"'{quote(chr(first))[1:-1]}'"


_ESCAPED: Final = 0xDC00
_WITHIN: Final = (
    "in literal",
    "in numeric literal",
    "after decimal point",
    "in exponent",
    "in string escape",
    "in \\u hexadecimal",
)
"""Places in which no blank may stand."""


class _Scanner:
    """Walks a text as encoding/json's scanner does, to find what it would complain about."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, where: str) -> TextError:
        if self.at < len(self.text):
            return TextError(f"invalid character {_quoted(self.text[self.at])} {where}")
        if where.startswith(_WITHIN):  # the scanner ends with a blank, which is out of place there
            return TextError(f"invalid character ' ' {where}")
        return TextError(_END)

    def skip(self) -> str:
        found = _SPACES.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.text[self.at] if self.at < len(self.text) else ""

    def whole(self) -> None:
        """Read the text as one value; what is open is kept in a list, not on Python's stack."""
        opened: list[str] = []
        wanted = "value"
        while True:
            char = self.skip()
            if wanted == "value":
                wanted = "after"
                if char and char in "{[":
                    opened.append(char)
                    if len(opened) > DEPTH:
                        raise self.fail(EXCEEDED)
                    self.at += 1
                    if self.skip() == _CLOSES[char]:
                        self.at += 1
                        opened.pop()
                    else:
                        wanted = "key" if char == "{" else "value"
                else:
                    self._scalar(char)
            elif wanted == "key":
                if char != '"':
                    raise self.fail("looking for beginning of object key string")
                self._string()
                if self.skip() != ":":
                    raise self.fail("after object key")
                self.at += 1
                wanted = "value"
            elif not opened:
                if char:
                    raise self.fail("after top-level value")
                return
            elif char == ",":
                self.at += 1
                wanted = "key" if opened[-1] == "{" else "value"
            elif char and char == _CLOSES[opened[-1]]:
                self.at += 1
                opened.pop()
            else:
                raise self.fail(_AFTER[opened[-1]])

    def _scalar(self, char: str) -> None:
        if char == '"':
            self._string()
        elif char and char in "tfn":
            self._literal({"t": "true", "f": "false", "n": "null"}[char])
        elif char and (char == "-" or char in _DIGITS):
            self._number()
        else:
            raise self.fail("looking for beginning of value")

    def _string(self) -> None:
        self.at += 1
        while True:
            plain = _PLAIN_TEXT.match(self.text, self.at)
            self.at = plain.end() if plain else self.at
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
        if self.at >= len(self.text) or self.text[self.at] not in _DIGITS:
            raise self.fail(where)
        digits = _MANY_DIGITS.match(self.text, self.at)
        self.at = digits.end() if digits else self.at

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
    """Return the error of Go's JSON reader for a text; "" if it is JSON."""
    scanner = _Scanner(text)
    try:
        scanner.whole()
    except TextError as error:
        return str(error)
    return ""


_NODES: Final = 150_000
"""Nodes of YAML that are composed within about a second."""
_OTHERWISE: Final = re.compile(rb"\\u[dD][89a-fA-F]|\x7f|\"<<\"|\"[^\"]{1000}")
"""The texts that YAML and JSON read differently: halves of pairs, control characters, merge keys, long keys."""


class _NotPlainError(ValueError):
    """JSON that YAML reads in another way."""


def _written_as_json(raw: bytes) -> Any:
    """The value of YAML that is plain JSON, as most of what clients apply is; None for anything else."""
    if raw[:1] != b"{" or not raw.isascii() or _OTHERWISE.search(raw):
        return None
    try:
        value = _plain(raw.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    if raw.count(b"{") + raw.count(b"[") > DEPTH and too_deep(value):
        return None
    return value


def _sorted_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(sorted(pairs, key=itemgetter(0)))
    if len(found) != len(pairs):
        raise _NotPlainError
    return found


def _plain_float(text: str) -> int | WrittenFloat:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _NotPlainError
    return _as_json(value)


def _plain_int(text: str) -> int:
    value = int(text) if len(text) < 20 else None
    if value is None or not -(2**63) <= value < 2**64:
        raise _NotPlainError
    return value


_plain: Final = json.JSONDecoder(
    object_pairs_hook=_sorted_pairs,
    parse_constant=_constant,
    parse_float=_plain_float,
    parse_int=_plain_int,
).decode


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
        if not isinstance(key_node, yaml.ScalarNode):
            raise TextError(f"yaml: invalid map key: {_shown(key_node)}")
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, bool):
            key = "true" if key else "false"
        elif key is None:
            raise TextError(f"unsupported map key of type: %!s(<nil>), key: {_shown(key_node)}")
        key = str(key)
        if key in out:
            line = value_node.start_mark.line + 1  # Go's decoder names the value's line
            loader.repeated.append(f'line {line}: key "{key}" already set in map')
        out[key] = loader.construct_object(value_node, deep=True)
    return dict(sorted(out.items()))


def _shown(node: yaml.Node) -> str:
    """Return an invalid key in the form of Go's error, as far as it is worth showing."""
    if isinstance(node, yaml.MappingNode):
        return "map[interface {}]interface {}{...}"
    return "interface {}(nil)" if isinstance(node, yaml.ScalarNode) else "[]interface {}{...}"


_TAG = "tag:yaml.org,2002:"
_INT, _FLOAT, _BOOL, _NULL = f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null"
_OWN = (f"{_TAG}timestamp", f"{_TAG}value", _INT, _FLOAT)
_BASES = {"0x": 16, "0X": 16, "0b": 2, "0B": 2, "0o": 8, "0O": 8}
_INT_FORM = re.compile(
    r"[-+]?(0[bB][01_]+|0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|[1-9][0-9_]*|0)", re.ASCII
)
_FLOAT_FORM = re.compile(
    r"([-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)"
    r"|\.(nan|NaN|NAN))",
    re.ASCII,
)
_NULL_FORM = re.compile("~|null|Null|NULL|")


def _scalar(loader: Any, node: yaml.ScalarNode, tag: str, form: re.Pattern[str]) -> str:
    """The text of a scalar that has the form of its tag, which may have been claimed only."""
    text: str = loader.construct_scalar(node)
    if not form.fullmatch(text):
        raise TextError(f"yaml: cannot decode !!str `{text}` as a !!{tag.removeprefix(_TAG)}")
    return text


def _construct_int(loader: Any, node: yaml.ScalarNode) -> int | str | WrittenFloat:
    written = _scalar(loader, node, _INT, _INT_FORM)
    text = written.replace("_", "")
    digits = text.lstrip("+-")
    based = digits[:2] in _BASES
    if based and len(digits) == 2:
        return written
    if len(digits) >= _LONG:  # in range of no number
        return written
    base = _BASES.get(digits[:2], 8 if digits[0] == "0" else 10)
    value = int(digits[2:] if based else digits, base)
    value = -value if text[0] == "-" else value
    if -(2**63) <= value < 2**64:
        return value
    return written if based or len(digits) > 308 else _as_json(float(text))


def _construct_float(loader: Any, node: yaml.ScalarNode) -> int | str | WrittenFloat:
    written = _scalar(loader, node, _FLOAT, _FLOAT_FORM)
    text = written.replace("_", "")
    if text[-1].isalpha():
        sign = "-" if text[0] == "-" else "+"
        word = "NaN" if text[-3:].lower() == "nan" else f"{sign}Inf"
        raise TextError(f"json: unsupported value: {word}")
    value = float(text)
    return written if value in (float("inf"), float("-inf")) else _as_json(value)


def _construct_bool(loader: Any, node: yaml.ScalarNode) -> bool:
    text = loader.construct_scalar(node)
    found: bool | None = loader.bool_values.get(text.lower())
    if found is None:
        raise TextError(f"yaml: cannot decode !!str `{text}` as a !!bool")
    return found


def _construct_null(loader: Any, node: yaml.ScalarNode) -> None:
    _scalar(loader, node, _NULL, _NULL_FORM)


def _construct_binary(loader: Any, node: yaml.ScalarNode) -> str:
    try:
        raw = base64.b64decode("".join(loader.construct_scalar(node).split()), validate=True)
    except (binascii.Error, ValueError):
        raise TextError("yaml: !!binary value contains invalid base64 data") from None
    return raw.decode("utf-8", _BYTEWISE)


def _construct_any(loader: Any, node: yaml.Node) -> Any:
    """Construct a value with a tag of its own by its form: unknown tags are ignored."""
    if isinstance(node, yaml.MappingNode):
        return _construct_map(loader, node)
    if isinstance(node, yaml.SequenceNode):
        return [loader.construct_object(each, deep=True) for each in node.value]
    return loader.construct_scalar(node)


def _as_json(value: float) -> int | WrittenFloat:
    """A float as it comes back from JSON, where a whole one below 1e21 looks like an integer."""
    if value.is_integer() and abs(value) < 1e21:
        return int(value)
    digits = Decimal(repr(value))
    if 1e-6 <= abs(value) < 1e21:
        return WrittenFloat(f"{digits:f}")
    mantissa, _, exponent = f"{digits.normalize():e}".partition("e")
    return WrittenFloat(f"{mantissa}e{exponent}")


for _tag, _constructor in (
    (f"{_TAG}map", _construct_map),
    (_INT, _construct_int),
    (_FLOAT, _construct_float),
    (_BOOL, _construct_bool),
    (_NULL, _construct_null),
    (f"{_TAG}binary", _construct_binary),
    *((f"{_TAG}{name}", _construct_any) for name in ("seq", "set", "omap", "pairs", "timestamp")),
    (f"{_TAG}value", _construct_any),
    (None, _construct_any),
):
    _Loader.add_constructor(_tag, _constructor)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag not in _OWN]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
for _tag, _form, _first in (
    (_BOOL, "[yYnN]", "yYnN"),
    (_INT, _INT_FORM.pattern, "-+0123456789"),
    (_FLOAT, _FLOAT_FORM.pattern, "-+0123456789."),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"(?:{_form})\\Z", re.ASCII), list(_first))


def _yaml_line(error: yaml.YAMLError) -> int:
    """The line that go-yaml names: from 1 for scanner errors, from 0 for all others; 0 is not named."""
    if isinstance(error, Excessive):
        return error.line
    mark = getattr(error, "problem_mark", None)
    if mark is not None and mark.line:
        line: int = mark.line
        return line + 1 if isinstance(error, yaml.scanner.ScannerError) else line
    context = getattr(error, "context_mark", None)
    return context.line if context is not None else 0


def _alias_at(mark: Any, raw: bytes) -> str:
    """The name of the alias at a place, which the parser in C does not tell."""
    lines = raw.decode("utf-8", "replace").splitlines() or [""]
    found = re.match(r"\*([\w-]*)", lines[min(mark.line, len(lines) - 1)][mark.column :])
    return found[1] if found else ""


def _yaml_error(error: Any, raw: bytes) -> str:
    problem = getattr(error, "problem", None) or str(error)
    texts = {
        "mapping values are not allowed here": "mapping values are not allowed in this context",
    }
    if isinstance(error, yaml.reader.ReaderError) and "control characters" in problem:
        return "yaml: control characters are not allowed"
    if problem.startswith("found undefined alias"):
        return f"yaml: unknown anchor '{_alias_at(error.problem_mark, raw)}' referenced"
    if "expected the node content" in problem:
        problem = "did not find expected node content"
    problem = texts.get(problem, problem)
    line = _yaml_line(error)
    at = f"line {line}: " if line else ""
    return f"yaml: {at}{problem}"


def parse_yaml(raw: bytes) -> Any:
    """Return the value of a YAML text's first document. TextError; YamlDuplicates for a duplicate key.

    ApiError 504 for a text with too many values to compose in time.
    """
    written = _written_as_json(raw)
    if written is not None:
        return written
    try:
        guard(raw, nodes=_NODES)
    except TooMany:
        raise work.interrupted() from None
    except Excessive as error:
        raise TextError(_yaml_error(error, raw)) from None
    loader = _Loader(raw)
    try:
        value = None
        if loader.check_node():
            node = loader.get_node()
            check_aliases(node, raw)
            value = loader.construct_document(node)
    except yaml.YAMLError as error:
        raise TextError(_yaml_error(error, raw)) from None
    finally:
        loader.dispose()
    if loader.repeated:
        raise YamlDuplicates(loader.repeated, value)
    return value
