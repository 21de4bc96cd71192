"""The expression language of validation rules (CEL), compiled to closures.

Values are plain JSON values; times and durations are only known inside expressions. Covered: all
operators, `has`, the macros (all, exists, exists_one, filter, map), conversions, the string, list
and regular expression functions that Kubernetes offers, quantities, and optional `oldSelf`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

from attrs import field, frozen

from controlplane.api import quantity

__all__ = ["CelError", "Program", "Selection", "compile_rule"]

Scope = dict[str, Any]
Eval = Callable[[Scope], Any]

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|0x[0-9a-fA-F]+|\d+(?:[eE][+-]?\d+)?)(?P<u>u?)
    |(?P<string>[rR]?(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\])*'
      |"(?:\\.|[^"\\])*"))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|\?\.|\[\?|[-+*/%<>!?:.,()\[\]{}]))""",
    re.VERBOSE | re.DOTALL,
)
_EXPECTED = ("'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, "
             "NUM_UINT, STRING, BYTES, IDENTIFIER")  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_MACROS = {"all", "exists", "exists_one", "filter", "map"}


class CelError(Exception):
    """An expression that does not compile, or whose evaluation failed."""

    def __init__(self, text: str, at: int = -1) -> None:
        super().__init__(text)
        self.at = at


@frozen
class Selection:
    """A field selected from a variable, with the place of its dot: for checking against a schema."""

    root: str
    path: tuple[str, ...]
    at: int


@frozen(eq=False)
class Optional:
    """A value that may be missing."""

    value: Any = None
    present: bool = False


@frozen(eq=False)
class Program:
    """A compiled expression. `variables` are the free names it uses."""

    source: str
    run: Eval
    variables: frozenset[str]
    selections: tuple[Selection, ...] = field(default=())


def _tokens(source: str) -> list[tuple[str, Any, int]]:
    out: list[tuple[str, Any, int]] = []
    at = 0
    while source[at:].strip():
        match = _TOKEN.match(source, at)
        if match is None:
            raise CelError(f"Syntax error: token recognition error at: '{source[at:].strip()[0]}'",
                           at)  # fmt: skip
        kind = match.lastgroup or ""
        if match["number"] is not None:
            text = match["number"]
            start = match.start("number")
            whole = "." not in text and ("e" not in text.lower() or text.startswith("0x"))
            out.append(("value", int(text, 0) if whole else float(text), start))
        elif match["string"] is not None:
            out.append(("value", _unquoted(match["string"]), match.start("string")))
        else:
            out.append((kind, match[kind], match.start(kind)))
        at = match.end()
    out.append(("end", "<EOF>", len(source)))
    return out


def _unquoted(text: str) -> str:
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if text[:3] in ("'''", '"""') else 1
    text = text[quotes:-quotes]
    if raw:
        return text

    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xXuU":
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", replaced, text,
                  flags=re.DOTALL)  # fmt: skip


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


def _failed(text: str) -> CelError:
    return CelError(text)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(value, b[key]) for key, value in a.items())
    return bool(a == b)


def _compare(sign: str, a: Any, b: Any) -> bool:
    if sign == "==":
        return _equal(a, b)
    if sign == "!=":
        return not _equal(a, b)
    if sign == "in":
        if isinstance(b, dict):
            return a in b
        return any(_equal(a, item) for item in b)
    if not ((_number(a) and _number(b)) or type(a) is type(b)):
        raise _failed("no such overload")
    if sign == "<":
        return bool(a < b)
    if sign == "<=":
        return bool(a <= b)
    if sign == ">":
        return bool(a > b)
    return bool(a >= b)


def _arithmetic(sign: str, a: Any, b: Any) -> Any:
    same = type(a) is type(b) or (_number(a) and _number(b))
    if not same or isinstance(a, bool):
        raise _failed("no such overload")
    if sign == "+":
        result = a + b
    elif not _number(a):
        raise _failed("no such overload")
    elif sign == "-":
        result = a - b
    elif sign == "*":
        result = a * b
    elif isinstance(a, float) and sign == "/":
        result = a / b if b else float("inf")
    elif not b:
        raise _failed("division by zero" if sign == "/" else "modulus by zero")
    else:
        whole = abs(a) // abs(b) * (1 if (a < 0) is (b < 0) else -1)
        result = whole if sign == "/" else a - whole * b
    if isinstance(result, int) and not -(2**63) <= result < 2**63:
        raise _failed("integer overflow")
    return result


# -- functions -----------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _size(value: Any) -> int:
    if isinstance(value, (str, list, dict)):
        return len(value)
    raise _failed("no such overload")


def _to_int(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise _failed(f"type conversion error from '{value}' to 'int'") from None


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _failed(f"type conversion error from '{value}' to 'double'") from None


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (str, int, float)):
        return str(value)
    raise _failed("no such overload")


def _type_name(value: Any) -> str:
    if value is None:
        return "null_type"
    names = {bool: "bool", int: "int", float: "double", str: "string", list: "list", dict: "map"}
    return names.get(type(value), "dyn")


def _quantity(text: str) -> quantity.Quantity:
    try:
        return quantity.parse(text)
    except quantity.QuantityError as error:
        raise _failed(str(error)) from None


def _is_quantity(text: Any) -> bool:
    try:
        quantity.parse(text)
    except (quantity.QuantityError, TypeError):
        return False
    return True


_GLOBAL: dict[str, Callable[..., Any]] = {
    "size": _size, "int": _to_int, "uint": _to_int, "double": _to_double, "string": _to_string,
    "dyn": lambda value: value, "type": _type_name, "quantity": _quantity,
    "isQuantity": _is_quantity,
    "bool": lambda value: value in (True, "true", "True", "1", "t", "TRUE"),
    "matches": lambda text, pattern: _pattern(pattern).search(text) is not None,
}  # fmt: skip


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        return list(text)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise _failed("index out of range")
    return text[start:end]


def _index_of(where: Any, what: Any, start: int = 0) -> int:
    if isinstance(where, str):
        return where.find(what, start)
    return next((i for i, item in enumerate(where) if _equal(item, what)), -1)


def _last_index_of(where: Any, what: Any) -> int:
    if isinstance(where, str):
        return where.rfind(what)
    return next((i for i in reversed(range(len(where))) if _equal(where[i], what)), -1)


def _sign(value: quantity.Quantity) -> int:
    return value.sign()


_METHODS: dict[str, Callable[..., Any]] = {
    "size": _size,
    "contains": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "endsWith": lambda text, part: text.endswith(part),
    "matches": lambda text, pattern: _pattern(pattern).search(text) is not None,
    "lowerAscii": lambda text: text.lower(),
    "upperAscii": lambda text: text.upper(),
    "trim": lambda text: text.strip(),
    "split": _split,
    "join": lambda items, separator="": separator.join(items),
    "replace": lambda text, old, new, limit=-1: text.replace(old, new, limit),
    "substring": _substring,
    "charAt": lambda text, at: text[at] if at < len(text) else "",
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "find": lambda text, pattern: ((m := _pattern(pattern).search(text)) and m[0]) or "",
    "findAll": lambda text, pattern, limit=-1: [
        m[0] for m in _pattern(pattern).finditer(text)
    ][: limit if limit >= 0 else None],
    "isSorted": lambda items: all(a <= b for a, b in pairwise(items)),
    "sum": sum,
    "min": min,
    "max": max,
    "hasValue": lambda optional: optional.present,
    "value": lambda optional: optional.value,
    "orValue": lambda optional, other: optional.value if optional.present else other,
    "sign": _sign,
    "isGreaterThan": lambda a, b: a.cmp(b) > 0,
    "isLessThan": lambda a, b: a.cmp(b) < 0,
    "compareTo": lambda a, b: a.cmp(b),
    "asInteger": lambda value: value.value(),
    "add": lambda a, b: a.add(b if isinstance(b, quantity.Quantity) else quantity.Quantity.new(b)),
    "sub": lambda a, b: a.sub(b if isinstance(b, quantity.Quantity) else quantity.Quantity.new(b)),
}  # fmt: skip


def _called(function: Callable[..., Any], arguments: list[Any]) -> Any:
    try:
        return function(*arguments)
    except (TypeError, AttributeError, ValueError):
        raise _failed("no such overload") from None


# -- parsing -------------------------------------------------------------------------------------


@frozen(eq=False)
class _Node:
    """An expression; `chain` is set for plain selections from a variable."""

    run: Eval
    chain: tuple[str, tuple[str, ...]] | None = None
    select: tuple[Eval, str] | None = None


class _Parser:
    def __init__(self, source: str, names: frozenset[str]) -> None:
        self.source = source
        self.names = names
        self.tokens = _tokens(source)
        self.at = 0
        self.variables: set[str] = set()
        self.bound: list[str] = []
        self.selections: list[Selection] = []

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

    def whole(self) -> _Node:
        node = self.ternary()
        if self.tokens[self.at][0] != "end":
            _, value, at = self.tokens[self.at]
            raise CelError(f"Syntax error: extraneous input '{value}' expecting <EOF>", at)
        return node

    def ternary(self) -> _Node:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        yes = self.binary(0)
        self.take(":")
        no = self.ternary()

        def run(scope: Scope) -> Any:
            return (yes if condition.run(scope) else no).run(scope)

        return _Node(run)

    def binary(self, level: int) -> _Node:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            sign = self.take()[1]
            right = self.binary(level + 1)
            left = _Node(self._operation(sign, left.run, right.run))
        return left

    @staticmethod
    def _operation(sign: str, left: Eval, right: Eval) -> Eval:
        if sign in ("&&", "||"):
            decisive = sign == "||"

            def logical(scope: Scope) -> bool:
                try:
                    if bool(left(scope)) is decisive:
                        return decisive
                except CelError as first:
                    try:
                        decided = bool(right(scope)) is decisive
                    except CelError:
                        decided = False
                    if decided:
                        return decisive
                    raise first from None
                return bool(right(scope))

            return logical
        if sign in _LEVELS[2]:
            return lambda scope: _compare(sign, left(scope), right(scope))
        return lambda scope: _arithmetic(sign, left(scope), right(scope))

    def unary(self) -> _Node:
        sign = self.peek()
        if sign == "!":
            self.take()
            inner = self.unary().run
            return _Node(lambda scope: not inner(scope))
        if sign == "-":
            self.take()
            inner = self.unary().run
            return _Node(lambda scope: -inner(scope))
        return self.member()

    def member(self) -> _Node:
        node = self.primary()
        while True:
            sign = self.peek()
            if sign in (".", "?."):
                _, _, at = self.take()
                kind, name, _ = self.take()
                if kind != "name":
                    self.at -= 1
                    raise self.unexpected()
                if self.peek() == "(":
                    node = self.call(node, name)
                else:
                    node = self.selected(node, name, at, optional=sign == "?.")
            elif sign in ("[", "[?"):
                self.take()
                index = self.ternary().run
                self.take("]")
                node = _Node(self._indexed(node.run, index))
            else:
                return node

    @staticmethod
    def _indexed(container: Eval, index: Eval) -> Eval:
        def run(scope: Scope) -> Any:
            where, key = container(scope), index(scope)
            try:
                if isinstance(where, list) and key < 0:
                    raise IndexError
                return where[key]
            except (KeyError, IndexError, TypeError):
                text = f"no such key: {key}" if isinstance(where, dict) else (
                    f"index out of bounds: {key}"
                )  # fmt: skip
                raise _failed(text) from None

        return run

    def selected(self, node: _Node, name: str, at: int, *, optional: bool) -> _Node:
        key = unescaped(name)
        container = node.run
        chain = None
        if node.chain is not None:
            chain = (node.chain[0], (*node.chain[1], key))
            self.selections.append(Selection(chain[0], chain[1], at))

        def run(scope: Scope) -> Any:
            where = container(scope)
            if isinstance(where, Optional):
                if not where.present:
                    return where
                inner = where.value
                return Optional(inner[key], True) if key in inner else Optional()
            if isinstance(where, dict) and key in where:
                return Optional(where[key], True) if optional else where[key]
            if optional:
                return Optional()
            raise _failed(f"no such key: {name}")

        return _Node(run, chain, (container, key))

    def arguments(self, close: str) -> list[_Node]:
        found: list[_Node] = []
        while self.peek() != close:
            found.append(self.ternary())
            if self.peek() != ",":
                break
            self.take()
        self.take(close)
        return found

    def call(self, target: _Node, name: str) -> _Node:
        self.take("(")
        if name in _MACROS:
            return self.macro(target.run, name)
        arguments = [node.run for node in self.arguments(")")]
        function = _METHODS.get(name)
        if function is None:
            raise CelError(f"undeclared reference to '{name}' (in container '')",
                           self.tokens[self.at - 1][2])  # fmt: skip
        receiver = target.run
        return _Node(lambda scope: _called(
            function, [receiver(scope), *(argument(scope) for argument in arguments)]
        ))  # fmt: skip

    def macro(self, container: Eval, name: str) -> _Node:
        variable = self.take()[1]
        self.take(",")
        self.bound.append(variable)
        bodies = [node.run for node in self.arguments(")")]
        self.bound.pop()

        def each(scope: Scope, body: Eval) -> list[tuple[Any, Any]]:
            return [(item, body({**scope, variable: item})) for item in container(scope)]

        body = bodies[0]
        if name == "all":
            return _Node(lambda scope: all(ok for _, ok in each(scope, body)))
        if name == "exists":
            return _Node(lambda scope: any(ok for _, ok in each(scope, body)))
        if name == "exists_one":
            return _Node(lambda scope: sum(1 for _, ok in each(scope, body) if ok) == 1)
        if name == "filter":
            return _Node(lambda scope: [item for item, ok in each(scope, body) if ok])
        if len(bodies) == 2:
            result = bodies[1]
            return _Node(lambda scope: [
                result({**scope, variable: item}) for item, ok in each(scope, body) if ok
            ])  # fmt: skip
        return _Node(lambda scope: [result for _, result in each(scope, body)])

    def primary(self) -> _Node:
        kind, value, at = self.tokens[self.at]
        if kind == "value":
            self.take()
            return _Node(lambda _: value)
        if kind == "name":
            return self.named(value, at)
        if value == "(":
            self.take()
            node = self.ternary()
            self.take(")")
            return node
        if value == "[":
            self.take()
            items = [node.run for node in self.arguments("]")]
            return _Node(lambda scope: [item(scope) for item in items])
        if value == "{":
            self.take()
            return self.map_literal()
        raise self.unexpected()

    def map_literal(self) -> _Node:
        pairs: list[tuple[Eval, Eval]] = []
        while self.peek() != "}":
            key = self.ternary().run
            self.take(":")
            pairs.append((key, self.ternary().run))
            if self.peek() != ",":
                break
            self.take()
        self.take("}")
        return _Node(lambda scope: {key(scope): value(scope) for key, value in pairs})

    def named(self, name: str, at: int) -> _Node:
        self.take()
        if name in ("true", "false", "null"):
            constant = {"true": True, "false": False, "null": None}[name]
            return _Node(lambda _: constant)
        if self.peek() == "(":
            self.take()
            arguments = self.arguments(")")
            if name == "has":
                return self.has(arguments, at)
            function = _GLOBAL.get(name)
            if function is None:
                raise CelError(f"undeclared reference to '{name}' (in container '')", at)
            runs = [node.run for node in arguments]
            return _Node(lambda scope: _called(function, [run(scope) for run in runs]))
        if name in self.bound:
            return _Node(lambda scope: scope[name])
        if name not in self.names:
            raise CelError(f"undeclared reference to '{name}' (in container '')", at)
        self.variables.add(name)
        return _Node(lambda scope: scope[name], (name, ()))

    @staticmethod
    def has(arguments: list[_Node], at: int) -> _Node:
        if len(arguments) != 1 or arguments[0].select is None:
            raise CelError("invalid argument to has() macro", at)
        container, key = arguments[0].select

        def run(scope: Scope) -> bool:
            where = container(scope)
            if isinstance(where, Optional):
                return where.present and key in where.value
            if not isinstance(where, dict):
                raise _failed(f"no such key: {key}")
            return key in where

        return _Node(run)


RULE_NAMES = frozenset(("self", "oldSelf"))


@lru_cache(maxsize=4096)
def compile_rule(source: str, names: frozenset[str] = RULE_NAMES) -> Program:
    """The compiled expression over these variables; CelError with the place of the mistake."""
    parser = _Parser(source, names)
    node = parser.whole()
    return Program(source, node.run, frozenset(parser.variables), tuple(parser.selections))
