"""The grammar of expressions: from a text to a tree.

Upstream: cel-go parser/parser.go and its grammar.
"""

from __future__ import annotations

import re
from math import inf
from typing import Any

from controlplane.apiserver.kinds.custom.cel.macros import expanded
from controlplane.apiserver.kinds.custom.cel.tree import (
    CelError,
    Expr,
    Unsigned,
    qualified,
    unescaped,
)

__all__ = ["parsed"]

_TOKEN = re.compile(
    r"""(?:\s++|//[^\n]*+)*+(?:(?P<number>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|(?:0x[0-9a-fA-F]+|[0-9]+)(?P<u>[uU])?)
    |(?P<string>[bB]?[rR]?(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"
      |'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}]))""",
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"(?:\s++|//[^\n]*+)*+")
_EXPECTED = (
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, "
    "NUM_UINT, STRING, BYTES, IDENTIFIER"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_LOGICAL = 2


def _literal(text: str) -> str | bytes:
    prefix = text[: min(text.find(quote) for quote in "'\"" if quote in text)].lower()
    text = text[len(prefix) :]
    quotes = 3 if text[:3] in ("'''", '"""') else 1
    text = text[quotes:-quotes]
    if "r" in prefix:
        return text.encode() if "b" in prefix else text
    if "b" in prefix:
        return b"".join(_bytes(match) for match in _PARTS.finditer(text))
    return _ESCAPED.sub(lambda match: _unescaped(match[1]), text)


_ESCAPED = re.compile(
    r"\\([xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL
)
_PARTS = re.compile(rf"{_ESCAPED.pattern}|[^\\]", re.DOTALL)


def _unescaped(code: str) -> str:
    """The character of an escape."""
    if code[0] in "xXuU" and len(code) > 1:
        return _character(int(code[1:], 16))
    if code[0].isdigit():
        return chr(int(code, 8))
    return _ESCAPES.get(code, code)


def _bytes(match: re.Match[str]) -> bytes:
    """The bytes of a character or an escape; numbers are bytes, not characters."""
    code = match[1]
    if code is None:
        return match[0].encode()
    if code[0] in "xX" and len(code) > 1:
        return bytes((int(code[1:], 16),))
    if code[0].isdigit() and len(code) > 1:
        return bytes((int(code, 8),))
    return _unescaped(code).encode()


def _character(code: int) -> str:
    """The character of a code point; half of a pair is none, and Go writes another one for it."""
    if code > 0x10FFFF:
        raise CelError("unable to unescape string")
    return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)


def _number(text: str, unsigned: bool, at: int) -> int:
    """A whole number of 64 bits. One more than the largest is one: a sign may stand before it."""
    digits = text[2:].lstrip("0") if text.startswith("0x") else text.lstrip("0")
    number = (
        int(digits or "0", 16 if text.startswith("0x") else 10) if len(digits) <= 20 else 1 << 64
    )
    if unsigned:
        if number >> 64:
            raise CelError("invalid uint literal", at)
        return Unsigned(number)
    if number > 1 << 63:
        raise CelError("invalid int literal", at)
    return number


def _signed(before: list[tuple[str, Any, int]]) -> bool:
    """Return whether these tokens end with the sign of a number, which is no subtraction."""
    if not before or before[-1][1] != "-" or before[-1][0] != "sign":
        return False
    if len(before) == 1:
        return True
    kind, value, _ = before[-2]
    return kind == "sign" and value not in (")", "]", "}")


def _tokens(source: str) -> list[tuple[str, Any, int]]:
    out: list[tuple[str, Any, int]] = []
    at = 0
    while True:
        blank = _SPACE.match(source, at)
        if blank is not None and blank.end() == len(source):
            break
        match = _TOKEN.match(source, at)
        if match is None:
            where = blank.end() if blank is not None else at
            raise CelError(
                f"Syntax error: token recognition error at: '{source[where:][0]}'", where
            )
        kind = match.lastgroup or ""
        if match["number"] is not None:
            text = match["number"]
            whole = "." not in text and ("e" not in text.lower() or text.startswith("0x"))
            unsigned = match["u"] is not None
            digits = text[:-1] if unsigned else text
            number: Any = _number(digits, unsigned, match.start("number")) if whole else float(text)
            if whole and number == 1 << 63 and not unsigned and not _signed(out):
                raise CelError("invalid int literal", match.start("number"))
            if not whole and number == inf:
                raise CelError("invalid double literal", match.start("number"))
            out.append(("value", number, match.start("number")))
        elif match["string"] is not None:
            out.append(("value", _literal(match["string"]), match.start("string")))
        else:
            out.append((kind, match[kind], match.start(kind)))
        at = match.end()
    out.append(("end", "<EOF>", len(source)))
    return out


_NO_NAMES = frozenset(
    (
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    )
)
"""Words that may name fields, but no variables. Upstream: cel-go parser/parser.go."""


_BEGINNINGS = ("[", "{", "(", ".", "-", "!")
"""The signs with which an operand begins."""


class _Parser:
    def __init__(self, source: str, *, bindings: bool, standard: bool) -> None:
        self.source = source
        self.bindings = bindings
        self.standard = standard
        self.tokens = _tokens(source)
        self.at = 0

    def peek(self) -> Any:
        kind, value, _ = self.tokens[self.at]
        return None if kind == "value" else value

    def take(self, wanted: str | None = None) -> tuple[str, Any, int]:
        token = self.tokens[self.at]
        if wanted is not None and (token[0] == "value" or token[1] != wanted):
            if wanted == ")" and token[0] == "end" and self.open_brackets() == 1:
                # The parser passes over one missing sign where all is complete with it.
                raise CelError("Syntax error: missing ')' at '<EOF>'", token[2])
            raise self.unexpected()
        self.at += 1
        return token

    def open_brackets(self) -> int:
        """Return how many brackets are open at this place."""
        signs = [value for kind, value, _ in self.tokens[: self.at] if kind == "sign"]
        return sum((sign in ("(", "[", "{")) - (sign in (")", "]", "}")) for sign in signs)

    def unexpected(self, word: str = "mismatched") -> CelError:
        _, value, at = self.tokens[self.at]
        return CelError(f"Syntax error: {word} input '{value}' expecting {{{_EXPECTED}}}", at)

    def no_operand(self) -> CelError:
        """The error where an operand is missing: the parser passes over one token if an operand is behind it."""
        kind, value, _ = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        begins = kind in ("value", "name") or (kind == "sign" and value in _BEGINNINGS)
        return self.unexpected("extraneous" if begins else "mismatched")

    def whole(self) -> Expr:
        node = self.ternary()
        if self.tokens[self.at][0] != "end":
            kind, value, at = self.tokens[self.at]
            following, _, end = self.tokens[self.at + 1]
            if kind == "value":  # a number or text shows as it stands
                value = self.source[at:end].rstrip()
            # One token too many is passed over; before more of them the parser gives up.
            word = "extraneous" if following == "end" else "mismatched"
            raise CelError(f"Syntax error: {word} input '{value}' expecting <EOF>", at)
        return node

    def ternary(self) -> Expr:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        at = self.take()[2]
        yes = self.binary(0)
        self.take(":")
        return Expr("call", at, (condition, yes, self.ternary()), "_?_:_")

    def binary(self, level: int) -> Expr:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        if level < _LOGICAL and self.peek() in _LEVELS[level]:
            return self.logical(left, level)
        while self.peek() in _LEVELS[level]:
            _, sign, at = self.take()
            name = "@in" if sign == "in" else f"_{sign}_"
            left = Expr("call", at, (left, self.binary(level + 1)), name)
        return left

    def logical(self, first: Expr, level: int) -> Expr:
        """A chain of `&&` or `||` as a balanced tree. Upstream: cel-go parser/helper.go, logicManager."""
        terms, places = [first], []
        while self.peek() in _LEVELS[level]:
            places.append(self.take()[2])
            terms.append(self.binary(level + 1))
        name = f"_{_LEVELS[level][0]}_"

        def balanced(low: int, high: int) -> Expr:
            middle = (low + high + 1) // 2
            left = terms[middle] if middle == low else balanced(low, middle - 1)
            right = terms[middle + 1] if middle == high else balanced(middle + 1, high)
            return Expr("call", places[middle], (left, right), name)

        return balanced(0, len(places) - 1)

    def unary(self) -> Expr:
        sign = self.peek()
        if sign in ("!", "-"):
            at = self.take()[2]
            inner = self.unary()
            value = inner.value
            number = isinstance(value, int | float) and not isinstance(value, bool | Unsigned)
            if sign == "-" and inner.op == "const" and number:
                return Expr("const", at, value=-inner.value)
            return Expr("call", at, (inner,), f"{sign}_")
        return self.member()

    def member(self) -> Expr:
        node = self.primary()
        while True:
            sign = self.peek()
            if sign == ".":
                at = self.take()[2]
                optional = self.optional()
                kind, name, _ = self.tokens[self.at]
                if kind != "name":
                    raise self.unexpected()
                self.take()
                if self.peek() == "(" and not optional:
                    node = self.call(node, name)
                else:
                    node = Expr("optselect" if optional else "select", at, (node,), name)
            elif sign == "[":
                at = self.take()[2]
                optional = self.optional()
                index = self.ternary()
                self.take("]")
                node = Expr("call", at, (node, index), "_[?_]" if optional else "_[_]")
            elif sign == "{" and qualified(node):
                node = self.struct(qualified(node))
            else:
                return node

    def optional(self) -> bool:
        """Take the sign of an optional part, if it stands here."""
        if self.peek() != "?":
            return False
        at = self.take()[2]
        if self.standard:
            before = self.source[at - 1 : at]
            sign = before + "?" if before in (".", "[") else "?"
            raise CelError(f"unsupported syntax '{sign}'", at - len(sign) + 1)
        return True

    def struct(self, name: str) -> Expr:
        """An object of a type, written as `Type{field: value}`."""
        at = self.take("{")[2]
        fields: list[str] = []
        values: list[Expr] = []
        maybe: set[int] = set()
        while self.peek() != "}":
            optional = self.optional()
            kind, field, _ = self.take()
            if kind != "name":
                self.at -= 1
                raise self.unexpected()
            fields.append(unescaped(field))
            if optional:
                maybe.add(len(fields) - 1)
            self.take(":")
            values.append(self.ternary())
            if self.peek() != ",":
                break
            self.take()
        self.take("}")
        return Expr("struct", at, tuple(values), name, tuple(fields), maybe=frozenset(maybe))

    def arguments(self, close: str, maybe: set[int] | None = None) -> tuple[Expr, ...]:
        """Parts up to a closing sign; `maybe` takes the places of those marked as optional."""
        found: list[Expr] = []
        while self.peek() != close:
            if maybe is not None and self.optional():
                maybe.add(len(found))
            found.append(self.ternary())
            if self.peek() != ",":
                break
            self.take()
        self.take(close)
        return tuple(found)

    def call(self, target: Expr, name: str) -> Expr:
        at = self.take("(")[2]
        arguments = self.arguments(")")
        made = expanded(name, target, arguments, at, bindings=self.bindings, standard=self.standard)
        return made or Expr("method", at, (target, *arguments), name)

    def primary(self) -> Expr:
        kind, value, at = self.tokens[self.at]
        if kind == "value":
            self.take()
            return Expr("const", at, value=value)
        if value == ".":
            self.take()
            kind, value, at = self.tokens[self.at]
        if kind == "name":
            return self.named(value, at)
        if value == "(":
            self.take()
            node = self.ternary()
            self.take(")")
            return node
        if value == "[":
            self.take()
            maybe: set[int] = set()
            return Expr("list", at, self.arguments("]", maybe), maybe=frozenset(maybe))
        if value == "{":
            self.take()
            return self.map_literal(at)
        raise self.no_operand()

    def map_literal(self, at: int) -> Expr:
        parts: list[Expr] = []
        maybe: set[int] = set()
        while self.peek() != "}":
            if self.optional():
                maybe.add(len(parts) // 2)
            parts.append(self.ternary())
            self.take(":")
            parts.append(self.ternary())
            if self.peek() != ",":
                break
            self.take()
        self.take("}")
        return Expr("map", at, tuple(parts), maybe=frozenset(maybe))

    def named(self, name: str, at: int) -> Expr:
        self.take()
        if name in ("true", "false", "null"):
            return Expr("const", at, value={"true": True, "false": False, "null": None}[name])
        if name in _NO_NAMES:
            raise CelError(f"reserved identifier: {name}", at)
        if self.peek() != "(":
            return Expr("ident", at, name=name)
        opened = self.take()[2]
        arguments = self.arguments(")")
        if name == "has":
            if len(arguments) != 1:
                return Expr("call", opened, arguments, name)
            selected = arguments[0]
            if selected.op != "select":
                raise CelError("invalid argument to has() macro", selected.at)
            return Expr("has", opened, selected.args, selected.name)
        return Expr("call", opened, arguments, name)


def parsed(source: str, *, bindings: bool = False, standard: bool = False) -> Expr:
    """Return the tree of an expression. CelError.

    Args:
        source: the text.
        bindings: it may call `cel.bind`.
        standard: it has only the macros and the syntax of cel-go's standard environment.
    """
    if len(source) > SIZE_LIMIT:
        raise CelError(
            f"expression code point size exceeds limit: size: {len(source)}, limit {SIZE_LIMIT}"
        )
    try:
        found = _Parser(source, bindings=bindings, standard=standard).whole()
    except RecursionError:
        raise CelError(_TOO_DEEP) from None
    if _too_deep(found):
        raise CelError(_TOO_DEEP)
    return found


SIZE_LIMIT = 100_000
"""Characters of an expression. Upstream: cel-go parser/options.go."""
DEPTH_LIMIT = 250
"""Levels of an expression; `&&` and `||` are balanced, and count once. Upstream: the same file."""
_TOO_DEEP = f"expression recursion limit exceeded: {DEPTH_LIMIT}"
_BALANCED = ("_&&_", "_||_")


def _too_deep(expr: Expr) -> bool:
    level = [expr]
    for _ in range(DEPTH_LIMIT):
        if not level:
            return False
        following: list[Expr] = []
        for each in level:
            parts = list(each.args)
            balanced = each.name if each.name in _BALANCED else ""
            while parts:
                part = parts.pop()
                if part.made or (balanced and part.name == balanced):
                    parts += part.args
                else:
                    following.append(part)
        level = following
    return bool(level)
