"""Arithmetic of the shell: `$(( ))` over signed numbers of 64 bits, with variables and assignments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from controlplane.api.go_integers import divide, int64

__all__ = ["ArithmeticFailure", "evaluated"]

_TOKEN: Final = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|\d+)|([A-Za-z_]\w*)|(<<=|>>=|\*\*|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%]=|[-+*/%<>=!~&|^?:(),]))"
)
_BINARY: Final[Mapping[str, int]] = {
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    "==": 6,
    "!=": 6,
    "<": 7,
    "<=": 7,
    ">": 7,
    ">=": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "%": 10,
    "**": 11,
}
"""Operators with their precedence."""
DEEPEST: Final = 40
_DIGITS: Final = 40


class ArithmeticFailure(ValueError):
    """An expression that has no value."""


def evaluated(text: str, read: Callable[[str], str], write: Callable[[str, str], None]) -> int:
    """Return the value of an expression; `read` and `write` give and set variables. Raises ArithmeticFailure."""
    return _Expression(_split(text), read, write).value()


def _split(text: str) -> list[str]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ArithmeticFailure("arithmetic syntax error")
        found.append(match[0].strip())
        at = match.end()
    return found


def _number(text: str) -> int:
    if len(text) > _DIGITS:
        raise ArithmeticFailure("arithmetic syntax error")
    try:
        if text[:2] in ("0x", "0X"):
            return int64(int(text, 16))
        return int64(int(text, 8 if len(text) > 1 and text.startswith("0") else 10))
    except ValueError:
        raise ArithmeticFailure("arithmetic syntax error") from None


class _Expression:
    def __init__(
        self, tokens: list[str], read: Callable[[str], str], write: Callable[[str, str], None]
    ) -> None:
        self._tokens = tokens
        self._at = 0
        self._read = read
        self._write = write
        self._depth = 0

    def value(self) -> int:
        if not self._tokens:
            return 0
        found = self._comma()
        if self._at < len(self._tokens):
            raise ArithmeticFailure("arithmetic syntax error")
        return found

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, text: str) -> bool:
        if self._peek() == text:
            self._at += 1
            return True
        return False

    def _comma(self) -> int:
        found = self._assignment()
        while self._take(","):
            found = self._assignment()
        return found

    def _assignment(self) -> int:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ArithmeticFailure("expression nested too deeply")
        try:
            name = self._peek()
            operator = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ""
            if _is_name(name) and operator in ("=", "+=", "-=", "*=", "/=", "%="):
                self._at += 2
                value = self._assignment()
                if operator != "=":
                    value = _applied(operator[0], self._variable(name), value)
                self._write(name, str(value))
                return value
            return self._choice()
        finally:
            self._depth -= 1

    def _choice(self) -> int:
        condition = self._binary(1)
        if not self._take("?"):
            return condition
        first = self._assignment()
        if not self._take(":"):
            raise ArithmeticFailure("malformed ?: operator")
        second = self._assignment()
        return first if condition else second

    def _binary(self, least: int) -> int:
        left = self._unary()
        while (level := _BINARY.get(self._peek(), 0)) >= least:
            operator = self._peek()
            self._at += 1
            right = self._binary(level if operator == "**" else level + 1)
            left = _applied(operator, left, right)
        return left

    def _unary(self) -> int:
        symbol = self._peek()
        self._at += 1
        if not symbol:
            raise ArithmeticFailure("arithmetic syntax error")
        if symbol in ("++", "--"):
            name = self._peek()
            if not _is_name(name):
                raise ArithmeticFailure("arithmetic syntax error")
            self._at += 1
            value = int64(self._variable(name) + (1 if symbol == "++" else -1))
            self._write(name, str(value))
            return value
        if symbol in ("-", "+", "!", "~"):
            self._depth += 1
            if self._depth > DEEPEST:
                raise ArithmeticFailure("expression nested too deeply")
            value = self._unary()
            self._depth -= 1
            return int64({"-": -value, "+": value, "!": int(not value), "~": ~value}[symbol])
        if symbol == "(":
            value = self._comma()
            if not self._take(")"):
                raise ArithmeticFailure("arithmetic syntax error")
            return value
        if _is_name(symbol):
            value = self._variable(symbol)
            for operator, step in (("++", 1), ("--", -1)):
                if self._take(operator):
                    self._write(symbol, str(int64(value + step)))
            return value
        return _number(symbol)

    def _variable(self, name: str) -> int:
        text = self._read(name).strip()
        sign = -1 if text.startswith("-") else 1
        return int64(sign * _number(text.lstrip("+-"))) if text else 0


def _is_name(text: str) -> bool:
    return bool(text) and (text[0].isalpha() or text[0] == "_")


def _applied(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if not right:
            raise ArithmeticFailure("divide by zero")
        quotient = divide(left, right)
        return int64(quotient if operator == "/" else left - right * quotient)
    if operator == "**":
        if right < 0:
            raise ArithmeticFailure("exponent less than 0")
        return int64(pow(left, right, 1 << 64))
    return int64(_PLAIN[operator](left, right))


_PLAIN: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&&": lambda a, b: int(bool(a and b)),
    "||": lambda a, b: int(bool(a or b)),
}
