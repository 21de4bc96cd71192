"""Reads a JSONPath template. Upstream: client-go util/jsonpath/parser.go.

The quirks are upstream's: a bracket ends at the first `]` and a field at the first dot, quoted or not; a
quoted key is read as the field after a dot, so `['a.b']` are two fields; what follows a brace inside of a
bracket or a filter is dropped.
"""

from __future__ import annotations

import re
from typing import Final

from controlplane.api.jsonpath.nodes import (
    Array,
    Field,
    Filter,
    Group,
    Identifier,
    JSONPathError,
    Literal,
    Recursive,
    Text,
    Union,
    Whole,
    Wildcard,
)
from controlplane.api.validation import parse_int64

__all__ = ["parse_template"]

_EOF: Final = ""
_TERMINATORS: Final = frozenset((_EOF, " ", "\t", "\r", "\n", *".,[]$@{}"))
_QUOTED_KEY: Final = re.compile(r"'([^']*)'")
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_OPERATOR: Final = re.compile("[!<>=]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_SIMPLE_ESCAPES: Final = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92}
_HEX_ESCAPES: Final = {"x": 2, "u": 4, "U": 8}
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_OCTAL: Final = re.compile(r"[0-7]{3}")


def parse_template(text: str) -> Group:
    """The parsed template. JSONPathError with upstream's text."""
    return _Parser(text).whole()


def _action(text: str) -> Group:
    """The content of a pair of braces around this text."""
    group = parse_template("{" + text + "}").nodes[0]
    assert isinstance(group, Group)
    return group


def _comparison(text: str) -> tuple[str, str, str] | None:
    """Return both sides and the operator of a filter that compares, as upstream's expression parts it."""
    found = _OPERATOR.search(text)
    if found is None or not found.start():
        return None
    left, operator, right = text[: found.start()], found[0], text[found.end() :]
    if not right and len(operator) > 1:
        operator, right = operator[:-1], operator[-1]
    return (left, operator, right) if right and "\n" not in right else None


class _Parser:
    """A position in a template. `start`: where the text begins that is not taken yet."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.start = 0

    def peek(self) -> str:
        """The next character; "" at the end."""
        return self.text[self.at : self.at + 1]

    def next(self) -> str:
        """The next character, which is passed; "" at the end."""
        char = self.text[self.at : self.at + 1]
        self.at += len(char)
        return char

    def take(self) -> str:
        """The text since the last take."""
        taken = self.text[self.start : self.at]
        self.start = self.at
        return taken

    def whole(self) -> Group:
        """Text and actions by turns to the end."""
        root = Group()
        while True:
            opening = self.text.find("{", self.at)
            self.at = len(self.text) if opening < 0 else opening
            if self.at > self.start:
                root.nodes.append(Text(self.take()))
            if opening < 0:
                return root
            self.at += 1
            self.take()
            inside = Group()
            root.nodes.append(inside)
            while self.step(inside):
                pass

    def step(self, group: Group) -> bool:
        """Read one part of an action; False when the action ends."""
        text, at = self.text, self.at
        if text.startswith("}", at):
            self.at += 1
            self.take()
            return False
        if text.startswith("[?(", at):
            self.filter(group)
            return True
        if text.startswith("..", at):
            self.recursive(group)
            return True
        char = self.next()
        if char in (_EOF, "\r", "\n"):
            raise JSONPathError("unclosed action")
        if char in " @$":
            self.take()
        elif char == "[":
            self.array(group)
        elif char in "\"'":
            self.quote(group, char)
        elif char == ".":
            self.field(group)
        elif char in "+-" or char.isdecimal():
            self.at -= 1
            self.number(group)
        elif _alphanumeric(char):
            self.at -= 1
            self.identifier(group)
        else:
            shown = f" '{char}'" if char.isprintable() else ""
            raise JSONPathError(f"unrecognized character in action: U+{ord(char):04X}{shown}")
        return True

    def identifier(self, group: Group) -> None:
        """A keyword or a boolean."""
        while self.peek() not in _TERMINATORS:
            self.at += 1
        value = self.take()
        known = {"true": True, "false": False}.get(value)
        group.nodes.append(Identifier(value) if known is None else Literal(known))

    def recursive(self, group: Group) -> None:
        """`..`, and the field that may follow at once."""
        if group.nodes and isinstance(group.nodes[-1], Recursive):
            raise JSONPathError("invalid multiple recursive descent")
        self.at += 2
        self.take()
        group.nodes.append(Recursive())
        if _alphanumeric(self.peek()):
            self.field(group)

    def number(self, group: Group) -> None:
        """An integer of 64 bits, or a float."""
        if self.peek() in ("+", "-"):
            self.at += 1
        while self.peek() == "." or self.peek().isdecimal():
            self.at += 1
        value = self.take()
        whole = parse_int64(value)
        if whole is not None:
            group.nodes.append(Literal(Whole(whole)))
            return
        number = float(value) if _DECIMAL.fullmatch(value) else float("inf")
        if abs(number) == float("inf"):
            raise JSONPathError(f"cannot parse number {value}")
        group.nodes.append(Literal(number))

    def array(self, group: Group) -> None:
        """A bracket: an index, a slice, a quoted key, or several of them."""
        while (char := self.next()) != "]":
            if char in (_EOF, "\n"):
                raise JSONPathError("unterminated array")
        text = self.take()[1:-1]
        text = ":" if text == "*" else text
        parts = text.split(",")
        if len(parts) > 1:
            group.nodes.append(Union([_action(f"[{part.strip(' ')}]") for part in parts]))
            return
        key = _QUOTED_KEY.fullmatch(text)
        if key is not None:
            group.nodes.extend(_action("." + key[1]).nodes)
            return
        found = _SLICE.fullmatch(text)
        if found is None:
            raise JSONPathError(f"invalid array index {text}")
        start = _bound(found[1]) if found[1] else None
        end = _bound(found[2][1:]) if found[2] else None
        step = _bound(found[3][1:]) if found[3] else None
        single = not found[2]
        if single:
            end = _int64((start or 0) + 1)
        group.nodes.append(Array(start, end, step, single))

    def filter(self, group: Group) -> None:
        """`[?(left operator right)]`, or `[?(path)]` for existence."""
        self.at += len("[?(")
        self.take()
        opened = closed = False
        pair = ""
        while True:
            char = self.next()
            if char in (_EOF, "\n"):
                raise JSONPathError("unterminated filter")
            if char in "\"'":
                if not opened:
                    opened, pair = True, char
                elif char == pair and self.text[self.at - 2] != "\\":
                    closed = True
            elif char == ")" and opened == closed:
                break
        if self.next() != "]":
            raise JSONPathError("unclosed array expect ]")
        text = self.take()[:-2]
        parts = _comparison(text)
        if parts is None:
            group.nodes.append(Filter(_action(text), Group(), "exists"))
        else:
            left, operator, right = parts
            group.nodes.append(Filter(_action(left), _action(right), operator))

    def quote(self, group: Group, end: str) -> None:
        """Text in single or double quotes."""
        while True:
            char = self.next()
            if char in (_EOF, "\n"):
                raise JSONPathError("unterminated quoted string")
            if char == end and self.text[self.at - 2] != "\\":
                break
        group.nodes.append(Text(_unquoted(self.take())))

    def field(self, group: Group) -> None:
        """A name up to the next terminator that no backslash stands before."""
        self.take()
        while True:
            char = self.peek()
            if char == "\\":
                self.at = min(self.at + 2, len(self.text))
            elif char in _TERMINATORS:
                break
            else:
                self.at += 1
        value = self.take()
        group.nodes.append(Wildcard() if value == "*" else Field(value.replace("\\", "")))


def _alphanumeric(char: str) -> bool:
    return char == "_" or char.isalpha() or char.isdecimal()


def _int64(value: int) -> int:
    """A sum as 64 bits hold it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _bound(text: str) -> int | None:
    """One part of a slice; None for an empty one."""
    if not text:
        return None
    value = parse_int64(text)
    if value is None:
        raise JSONPathError(f"array index {text} is not a number")
    return value


def _unquoted(quoted: str) -> str:
    """Quoted text without its quotes and escapes. Upstream: UnquoteExtend, strconv.UnquoteChar."""
    quote, rest = quoted[0], quoted[1:-1]
    if "\\" not in rest and quote not in rest:
        return rest
    made = bytearray()
    at = 0
    while at < len(rest):
        char = rest[at]
        if char == quote:
            raise _bad_quote(quoted)
        if char != "\\":
            made += char.encode("utf-8", "replace")
            at += 1
            continue
        kind = rest[at + 1 : at + 2]
        at += 2
        if kind in _SIMPLE_ESCAPES:
            made.append(_SIMPLE_ESCAPES[kind])
        elif kind in _HEX_ESCAPES:
            digits = rest[at : at + _HEX_ESCAPES[kind]]
            if len(digits) < _HEX_ESCAPES[kind] or not _HEX.fullmatch(digits):
                raise _bad_quote(quoted)
            at += len(digits)
            code = int(digits, 16)
            if kind == "x":
                made.append(code)
            elif code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise _bad_quote(quoted)
            else:
                made += chr(code).encode()
        elif (octal := _OCTAL.match(rest, at - 1)) and int(octal[0], 8) < 256:
            made.append(int(octal[0], 8))
            at += 2
        elif kind == quote:
            made += quote.encode()
        else:
            raise _bad_quote(quoted)
    return made.decode("utf-8", "replace")


def _bad_quote(quoted: str) -> JSONPathError:
    return JSONPathError(f"unquote string {quoted} error invalid syntax")
