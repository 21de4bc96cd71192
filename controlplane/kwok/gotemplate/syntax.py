"""Templates of Go's text/template as trees.

Texts of errors are Go's, with the name of the template and the line: `template: _:1: function "nope" not defined`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from attrs import field, frozen

__all__ = ["Command", "Node", "Pipe", "Template", "TemplateError", "parsed"]

DEPTH: Final = 100
"""The most levels of blocks and parentheses."""
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<raw>`[^`]*`)
      | (?P<char>'(?:[^'\\\n]|\\.)+')
      | (?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))
      | (?P<field>\.[A-Za-z_]\w*)
      | (?P<variable>\$\w*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<op>:=|[|().,=])""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    r"\\([abfnrtv\\'\"]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3})"
)
_BLOCKS: Final = frozenset(("if", "range", "with", "define", "block"))


class TemplateError(ValueError):
    """A template that cannot be read, or whose execution failed; the text is Go's."""


@frozen
class Node:
    """A part: `text`, `action`, `if`, `range`, `with`, `template`, `break` or `continue`."""

    op: str
    line: int
    text: str = ""
    pipe: Pipe | None = None
    body: tuple[Node, ...] = ()
    otherwise: tuple[Node, ...] = ()


@frozen
class Command:
    """A call or a value: operands are (kind, value, fields)."""

    operands: tuple[tuple[str, Any, tuple[str, ...]], ...]


@frozen
class Pipe:
    """Commands, each of which gets the result of the one before; `variables` get the last result."""

    line: int
    variables: tuple[str, ...] = ()
    assigns: bool = False
    commands: tuple[Command, ...] = ()


@frozen
class Template:
    """A template and those that it defines by name."""

    body: tuple[Node, ...]
    defined: Mapping[str, tuple[Node, ...]] = field(factory=dict)


def parsed(text: str, functions: Collection[str]) -> Template:
    """Return the tree of a template that may call these functions. Raises TemplateError."""
    parser = _Parser(_pieces(text), functions)
    body, ended = parser.nodes(())
    if ended:
        raise parser.fail(f"unexpected {{{{{ended}}}}}")
    return Template(body, parser.defined)


def _fail(line: int, text: str) -> TemplateError:
    return TemplateError(f"template: _:{line}: {text}")


def _pieces(text: str) -> list[tuple[str, str, int]]:
    """Cut a template into texts and actions, with the line of each; markers have trimmed the texts."""
    found: list[tuple[str, str, int]] = []
    at, trim = 0, False
    while at <= len(text):
        opened = text.find("{{", at)
        plain = text[at:] if opened < 0 else text[at:opened]
        line = text.count("\n", 0, at) + 1
        if trim:
            plain = plain.lstrip(" \t\r\n")
        trim_left = (
            opened >= 0 and re.match(r"-[ \t\r\n]", text[opened + 2 : opened + 4]) is not None
        )
        if trim_left:
            plain = plain.rstrip(" \t\r\n")
        if plain:
            found.append(("text", plain, line))
        if opened < 0:
            break
        start = opened + 2 + 2 * trim_left
        line = text.count("\n", 0, opened) + 1
        if text.startswith("/*", start):
            close = text.find("*/", start)
            if close < 0:
                raise _fail(line, "unclosed comment")
            rest = re.compile(r"[ \t\r\n]+-\}\}|\}\}").match(text, close + 2)
            if rest is None:
                raise _fail(line, "comment ends before closing delimiter")
            trim = rest.group() != "}}"
            at = rest.end()
            continue
        end, trim = _action_end(text, start, line)
        inner = text[start : end - (2 if not trim else 3)]
        found.append(("action", inner, line))
        at = end
    return found


def _action_end(text: str, at: int, line: int) -> tuple[int, bool]:
    """Return where an action ends, after its braces, and whether it trims what follows."""
    while at < len(text):
        if text.startswith("}}", at):
            return at + 2, False
        if re.compile(r"[ \t\r\n]-\}\}").match(text, at):
            return at + 4, True
        token = _TOKEN.match(text, at)
        if token is None:
            char = text[at]
            if char == "}":
                raise _fail(line, f'unexpected "{char}" in operand')
            if char in "\"'":
                raise _fail(
                    line,
                    f"unterminated {'quoted string' if char == chr(34) else 'character constant'}",
                )
            raise _fail(line, f"unexpected {json.dumps(char, ensure_ascii=False)} in command")
        at = token.end()
    raise _fail(line, "unclosed action")


class _Parser:
    def __init__(self, pieces: list[tuple[str, str, int]], functions: Collection[str]) -> None:
        self._pieces = pieces
        self._at = 0
        self._functions = functions
        self._levels = 0
        self._loops = 0
        self._variables = ["$"]
        self._line = 1
        self._tokens: list[tuple[str, str]] = []
        self.defined: dict[str, tuple[Node, ...]] = {}

    def fail(self, text: str) -> TemplateError:
        return _fail(self._line, text)

    # -- blocks ----------------------------------------------------------------------------------

    def nodes(self, ends: tuple[str, ...]) -> tuple[tuple[Node, ...], str]:
        """Return the nodes up to a word of `ends`, which is returned too; its tokens wait to be read."""
        found: list[Node] = []
        while self._at < len(self._pieces):
            kind, text, self._line = self._pieces[self._at]
            self._at += 1
            if kind == "text":
                found.append(Node("text", self._line, text))
                continue
            self._tokens = self._tokenized(text)
            word = self._tokens[0][1] if self._tokens and self._tokens[0][0] == "name" else ""
            if word in ("end", "else"):
                del self._tokens[0]
                if word in ends:
                    return tuple(found), word
                raise self.fail(f"unexpected {{{{{word}}}}}")
            node = self._node(word)
            if node is not None:
                found.append(node)
        if ends:
            raise self.fail("unexpected EOF")
        return tuple(found), ""

    def _node(self, word: str) -> Node | None:
        if word in _BLOCKS or word in ("template", "break", "continue"):
            del self._tokens[0]
            self._levels += 1
            if self._levels > DEPTH:
                raise self.fail("too many levels")
            node = self._reader(word)(word)
            self._levels -= 1
            return node
        return Node("action", self._line, pipe=self._pipe("command"))

    def _reader(self, word: str) -> Callable[[str], Node | None]:
        readers: dict[str, Callable[[str], Node | None]] = {
            "define": self._define_node,
            "block": self._named_node,
            "template": self._template_node,
            "break": self._break_node,
            "continue": self._break_node,
        }
        return readers.get(word, self._block_node)

    def _block_node(self, word: str) -> Node:
        line, scope = self._line, len(self._variables)
        pipe = self._pipe(word)
        self._loops += word == "range"
        body, ended = self.nodes(("end", "else"))
        self._loops -= word == "range"
        otherwise: tuple[Node, ...] = ()
        if ended == "else":
            self._skip()
            chained = self._tokens[0][1] if self._tokens else ""
            if chained in ("if", "with") and chained == word:
                del self._tokens[0]
                otherwise = (self._block_node(word),)
            elif self._tokens:
                raise self.fail(f"unexpected <{chained}> in else")
            else:
                otherwise, _ = self.nodes(("end",))
        del self._variables[scope:]
        return Node(word, line, pipe=pipe, body=body, otherwise=otherwise)

    def _define_node(self, _word: str) -> None:
        name = self._name()
        self.defined[name], _ = self.nodes(("end",))

    def _named_node(self, _word: str) -> Node:
        line, name = self._line, self._name()
        pipe = self._pipe("block clause")
        self.defined[name], _ = self.nodes(("end",))
        return Node("template", line, name, pipe)

    def _template_node(self, _word: str) -> Node:
        line, name = self._line, self._name()
        pipe = self._pipe("template") if self._tokens else None
        return Node("template", line, name, pipe)

    def _name(self) -> str:
        self._skip()
        if not self._tokens or self._tokens[0][0] not in ("string", "raw"):
            raise self.fail("missing name of a template")
        kind, text = self._tokens.pop(0)
        return str(_constant(kind, text))

    def _break_node(self, word: str) -> Node:
        if not self._loops:
            raise self.fail(f"{{{{{word}}}}} outside {{{{range}}}}")
        return Node(word, self._line)

    # -- actions ---------------------------------------------------------------------------------

    def _tokenized(self, text: str) -> list[tuple[str, str]]:
        found, at = [], 0
        text = text.strip(" \t\r\n")
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise self.fail(f"unexpected {json.dumps(text[at])} in operand")
            found.append((str(token.lastgroup), token.group()))
            at = token.end()
        return found

    def _skip(self) -> None:
        while self._tokens and self._tokens[0][0] == "space":
            del self._tokens[0]

    def _took(self, op: str) -> bool:
        self._skip()
        if self._tokens and self._tokens[0] == ("op", op):
            del self._tokens[0]
            return True
        return False

    def _pipe(self, context: str, close: bool = False) -> Pipe:
        line = self._line
        variables, assigns = self._declared(context)
        commands: list[Command] = []
        while True:
            self._skip()
            if not self._tokens or (close and self._tokens[0] == ("op", ")")):
                if not commands or self._expects_more:
                    raise self.fail(f"missing value for {context}")
                break
            commands.append(self._command(close))
            self._expects_more = self._took("|")
        return Pipe(line, variables, assigns, tuple(commands))

    _expects_more = False

    def _declared(self, context: str) -> tuple[tuple[str, ...], bool]:
        """Read `$x :=`, `$x =` or `$i, $x :=`, if the pipeline begins so."""
        self._expects_more = False
        self._skip()
        words = [token for token in self._tokens if token[0] != "space"]
        kinds = [kind if kind == "variable" else text for kind, text in words[:4]]
        count = (
            1
            if kinds[:2] in (["variable", ":="], ["variable", "="])
            else 2
            if context == "range" and kinds in (["variable", ",", "variable", ":="], ["variable", ",", "variable", "="])
            else 0
        )  # fmt: skip
        if not count:
            return (), False
        names = tuple(text for kind, text in words[: 2 * count] if kind == "variable")
        assigns = words[2 * count - 1][1] == "="
        left = 2 * count
        while left:
            left -= self._tokens.pop(0)[0] != "space"
        if assigns:
            for name in names:
                self._known(name)
        else:
            self._variables += names
        return names, assigns

    def _known(self, name: str) -> None:
        if name not in self._variables:
            raise self.fail(f'undefined variable "{name}"')

    def _command(self, close: bool) -> Command:
        operands = []
        while True:
            self._skip()
            if not self._tokens or self._tokens[0] == ("op", "|"):
                break
            if self._tokens[0] == ("op", ")"):
                if close:
                    break
                raise self.fail('unexpected ")" in command')
            operands.append(self._operand())
        if not operands:
            raise self.fail("empty command")
        return Command(tuple(operands))

    def _operand(self) -> tuple[str, Any, tuple[str, ...]]:
        kind, text = self._tokens.pop(0)
        if kind == "field":
            return ("dot", None, (text[1:], *self._fields()))
        if kind == "variable":
            self._known(text)
            return ("variable", text, self._fields())
        if kind in ("string", "raw", "char", "number"):
            return ("const", _constant(kind, text), ())
        if kind == "name":
            if text in ("true", "false"):
                return ("const", text == "true", ())
            if text == "nil":
                return ("nil", None, ())
            if text not in self._functions:
                raise self.fail(f'function "{text}" not defined')
            return ("function", text, ())
        if text == ".":
            return ("dot", None, self._fields())
        if text == "(":
            self._levels += 1
            if self._levels > DEPTH:
                raise self.fail("too many levels")
            pipe = self._pipe("parenthesized pipeline", close=True)
            if not self._took(")"):
                raise self.fail("unclosed left paren")
            self._levels -= 1
            return ("pipe", pipe, self._fields())
        raise self.fail(f"unexpected {json.dumps(text)} in operand")

    def _fields(self) -> tuple[str, ...]:
        found = []
        while self._tokens and self._tokens[0][0] == "field":
            found.append(self._tokens.pop(0)[1][1:])
        return tuple(found)


def _constant(kind: str, text: str) -> Any:
    if kind == "raw":
        return text[1:-1]
    if kind == "number":
        plain = text.replace("_", "")
        try:
            return int(plain, 0)
        except ValueError:
            return int(plain, 8) if plain.lstrip("+-").isdigit() else float(plain)
    inner = _ESCAPE.sub(_unescaped, text[1:-1])
    return ord(inner[0]) if kind == "char" and inner else inner


def _unescaped(found: re.Match[str]) -> str:
    code = found.group(1)
    if code[0] in "xuU":
        return chr(int(code[1:], 16))
    if code.isdigit():
        return chr(int(code, 8))
    return {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}.get(
        code, code
    )
