"""Expressions as trees: tokens, operators, macros, each with its place in the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import inf
from typing import Any

from attrs import frozen

__all__ = ["CelError", "Expr", "MACROS", "Unsigned", "parsed", "unescaped", "walked"]

_TOKEN = re.compile(
    r"""(?:\s++|//[^\n]*+)*+(?:(?P<number>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|0x[0-9a-fA-F]+|[0-9]+(?:[eE][+-]?[0-9]+)?)(?P<u>[uU]?)
    |(?P<string>(?:[bB][rR]?|[rR][bB]?)?(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"
      |'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|\.\?|\[\?|[-+*/%<>!?:.,()\[\]{}]))""",
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"(?:\s++|//[^\n]*+)*+")
_EXPECTED = ("'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, "
             "NUM_UINT, STRING, BYTES, IDENTIFIER")  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_LOGICAL = 2
MACROS = {
    "all": (2, 3), "exists": (2, 3), "exists_one": (2, 3), "existsOne": (2, 3), "filter": (2,),
    "map": (2, 3), "optMap": (2,), "optFlatMap": (2,), "transformList": (3, 4),
    "transformMap": (3, 4), "sortBy": (2,),
}  # fmt: skip
"""The macros and with how many arguments each is one."""
_TWO = {"all": 3, "exists": 3, "exists_one": 3, "existsOne": 3, "transformList": 3,
        "transformMap": 3}  # fmt: skip
"""From how many arguments on a macro has two variables."""


class Unsigned(int):
    """An unsigned number."""


class CelError(Exception):
    """An expression that does not compile, or whose evaluation failed.

    `issues` are the places and texts of all mistakes, in the order of the source.
    """

    def __init__(
        self, text: str, at: int = -1, issues: tuple[tuple[int, str], ...] = ()
    ) -> None:  # fmt: skip
        super().__init__(text)
        self.at = at
        self.issues = issues or ((at, text),)


@frozen(eq=False)
class Expr:
    """A part of an expression: what it is, its parts, and its place.

    `op` is one of const, ident, select, optselect, has, call, method, list, map, struct, macro. A
    struct's `name` is its type, its `value` the names of the fields, `bound` those that
    may be left out. Operators
    are calls of functions with upstream's names, such as `_==_`. A method's or macro's first part
    is what it is called on.
    """

    op: str
    at: int
    args: tuple[Expr, ...] = ()
    name: str = ""
    value: Any = None
    bound: tuple[str, ...] = ()


def walked(expr: Expr) -> Iterator[Expr]:
    """An expression and all its parts."""
    left = [expr]
    while left:
        part = left.pop()
        yield part
        left += reversed(part.args)


def unescaped(name: str) -> str:
    """The property that an identifier stands for: `__dot__` and the like are undone."""
    if "__" not in name:
        return name
    for coded, plain in (("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"),
                         ("__slash__", "/")):  # fmt: skip
        name = name.replace(coded, plain)
    if len(name) > 4 and name.startswith("__") and name.endswith("__"):
        return name[2:-2]
    return name


def _literal(text: str) -> str | bytes:
    prefix = text[: min(text.find(quote) for quote in "'\"" if quote in text)].lower()
    text = text[len(prefix) :]
    quotes = 3 if text[:3] in ("'''", '"""') else 1
    text = text[quotes:-quotes]

    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xXuU" and len(code) > 1:
            return _character(int(code[1:], 16))
        if code[0].isdigit():
            return chr(int(code, 8))
        return _ESCAPES.get(code, code)

    if "r" not in prefix:
        text = re.sub(r"\\([xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)",
                      replaced, text, flags=re.DOTALL)  # fmt: skip
    return text.encode() if "b" in prefix else text


def _character(code: int) -> str:
    """The character of a code point; half of a pair is none, and Go writes another one for it."""
    if code > 0x10FFFF:
        raise CelError("unable to unescape string")
    return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)


def _number(text: str, unsigned: str, at: int) -> int:
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
            number: Any = _number(text, match["u"], match.start("number")) if whole else float(text)
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


def _type_name(expr: Expr) -> str:
    """The dotted name that an expression is; "" if it is none."""
    if expr.op == "ident":
        return expr.name
    if expr.op == "select":
        before = _type_name(expr.args[0])
        return f"{before}.{expr.name}" if before else ""
    return ""


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = _tokens(source)
        self.at = 0

    def peek(self) -> Any:
        kind, value, _ = self.tokens[self.at]
        return None if kind == "value" else value

    def take(self, wanted: str | None = None) -> tuple[str, Any, int]:
        token = self.tokens[self.at]
        if wanted is not None and (token[0] == "value" or token[1] != wanted):
            raise self.unexpected()
        self.at += 1
        return token

    def unexpected(self) -> CelError:
        _, value, at = self.tokens[self.at]
        return CelError(f"Syntax error: mismatched input '{value}' expecting {{{_EXPECTED}}}", at)

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
            number = isinstance(inner.value, (int, float)) and not isinstance(inner.value, bool)
            if sign == "-" and inner.op == "const" and number:
                return Expr("const", at, value=-inner.value)
            return Expr("call", at, (inner,), f"{sign}_")
        return self.member()

    def member(self) -> Expr:
        node = self.primary()
        while True:
            sign = self.peek()
            if sign in (".", ".?"):
                at = self.take()[2]
                kind, name, _ = self.tokens[self.at]
                if kind != "name":
                    raise self.unexpected()
                self.take()
                if self.peek() == "(":
                    node = self.call(node, name)
                else:
                    node = Expr("select" if sign == "." else "optselect", at, (node,), name)
            elif sign in ("[", "[?"):
                at = self.take()[2]
                index = self.ternary()
                self.take("]")
                node = Expr("call", at, (node, index), "_[_]" if sign == "[" else "_[?_]")
            elif sign == "{" and _type_name(node):
                node = self.struct(_type_name(node))
            else:
                return node

    def struct(self, name: str) -> Expr:
        """An object of a type, written as `Type{field: value}`."""
        at = self.take("{")[2]
        fields: list[str] = []
        values: list[Expr] = []
        maybe: list[str] = []
        while self.peek() != "}":
            optional = self.peek() == "?"
            if optional:
                self.take()
            kind, field, _ = self.take()
            if kind != "name":
                self.at -= 1
                raise self.unexpected()
            fields.append(unescaped(field))
            if optional:
                maybe.append(fields[-1])
            self.take(":")
            values.append(self.ternary())
            if self.peek() != ",":
                break
            self.take()
        self.take("}")
        return Expr("struct", at, tuple(values), name, tuple(fields), tuple(maybe))

    def arguments(self, close: str) -> tuple[Expr, ...]:
        found: list[Expr] = []
        while self.peek() != close:
            if close == "]" and self.peek() == "?":
                self.take()
            found.append(self.ternary())
            if self.peek() != ",":
                break
            self.take()
        self.take(close)
        return tuple(found)

    def call(self, target: Expr, name: str) -> Expr:
        at = self.take("(")[2]
        arguments = self.arguments(")")
        if len(arguments) not in MACROS.get(name, ()):
            return Expr("method", at, (target, *arguments), name)
        many = 2 if len(arguments) >= _TWO.get(name, 9) else 1
        for variable in arguments[:many]:
            if variable.op != "ident":
                raise CelError("argument must be a simple name", variable.at)
        bound = tuple(variable.name for variable in arguments[:many])
        return Expr("macro", at, (target, *arguments[many:]), name, bound=bound)

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
            return Expr("list", at, self.arguments("]"))
        if value == "{":
            self.take()
            return self.map_literal(at)
        raise self.unexpected()

    def map_literal(self, at: int) -> Expr:
        parts: list[Expr] = []
        while self.peek() != "}":
            parts.append(self.ternary())
            self.take(":")
            parts.append(self.ternary())
            if self.peek() != ",":
                break
            self.take()
        self.take("}")
        return Expr("map", at, tuple(parts))

    def named(self, name: str, at: int) -> Expr:
        self.take()
        if name in ("true", "false", "null"):
            return Expr("const", at, value={"true": True, "false": False, "null": None}[name])
        if self.peek() != "(":
            return Expr("ident", at, name=name)
        opened = self.take()[2]
        arguments = self.arguments(")")
        if name == "has":
            if len(arguments) != 1 or arguments[0].op != "select":
                raise CelError("invalid argument to has() macro", opened)
            selected = arguments[0]
            return Expr("has", opened, selected.args, selected.name)
        return Expr("call", opened, arguments, name)


def parsed(source: str) -> Expr:
    """The tree of an expression. CelError."""
    if len(source) > SIZE_LIMIT:
        raise CelError(
            f"expression code point size exceeds limit: size: {len(source)}, limit {SIZE_LIMIT}"
        )
    try:
        found = _Parser(source).whole()
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
            while each.name in _BALANCED and parts:
                part = parts.pop()
                if part.name == each.name:
                    parts += part.args
                else:
                    following.append(part)
            following += parts
        level = following
    return bool(level)
