"""Programs of jq as trees.

The grammar is that of jq 1.7 as gojq reads it, which takes `.a.[]` for `.a[]`. Modules are refused: a program reads
nothing but its input.
"""

from __future__ import annotations

import re
from typing import Any, Final

from attrs import frozen

__all__ = ["Function", "JqSyntaxError", "Node", "parsed"]

DEPTH: Final = 200
"""The most levels of a program's parts."""
_TOKEN: Final = re.compile(
    r"""(?P<space>\s++|\#[^\n]*+)
      | (?P<field>\.[A-Za-z_]\w*)
      | (?P<variable>\$__loc__|\$[A-Za-z_]\w*(?:::\w+)*)
      | (?P<format>@\w+)
      | (?P<name>[A-Za-z_]\w*(?:::\w+)*)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<op>\?//=|//=|\|=|\+=|-=|\*=|/=|%=|==|!=|<=|>=|\?//|//|\.\.|[.\[\]{}()|,:;=<>+\-*/%?])
      | (?P<quote>")""",
    re.VERBOSE,
)
_ESCAPES: Final = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_KEYWORDS: Final = frozenset(
    "def if then elif else end as reduce foreach try catch label import include and or __loc__".split()
)
_UPDATES: Final = frozenset(("=", "|=", "+=", "-=", "*=", "/=", "%=", "//="))
_COMPARISONS: Final = frozenset(("==", "!=", "<", "<=", ">", ">="))

Node = tuple[Any, ...]
"""The operation, then its parts."""


class JqSyntaxError(ValueError):
    """A program that cannot be read."""


@frozen
class Function:
    """A definition: parameters that begin with `$` are also bound as variables."""

    name: str
    params: tuple[str, ...]
    body: Node


def parsed(text: str) -> Node:
    """Return the tree of a program. Raises JqSyntaxError."""
    parser = _Parser(text)
    node = parser.pipe() if parser.kind != "end" else ("identity",)
    if parser.kind != "end":
        raise parser.unexpected()
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._levels = 0
        self.kind = ""
        self.word = ""
        self._advance()

    # -- tokens ----------------------------------------------------------------------------------

    def _advance(self) -> None:
        while True:
            if self._at >= len(self._text):
                self.kind, self.word = "end", "<EOF>"
                return
            found = _TOKEN.match(self._text, self._at)
            if found is None:
                raise JqSyntaxError(f"unexpected token {self._text[self._at]!r}")
            self._at = found.end()
            if found.lastgroup != "space":
                self.kind, self.word = str(found.lastgroup), found.group()
                return

    def unexpected(self) -> JqSyntaxError:
        return JqSyntaxError(
            "unexpected EOF" if self.kind == "end" else f'unexpected token "{self.word}"'
        )

    def _is(self, word: str) -> bool:
        return self.word == word and self.kind in ("op", "name")

    def _took(self, word: str) -> bool:
        if not self._is(word):
            return False
        self._advance()
        return True

    def _expect(self, word: str) -> None:
        if not self._took(word):
            raise self.unexpected()

    def _take(self, kind: str) -> str:
        if self.kind != kind:
            raise self.unexpected()
        word = self.word
        self._advance()
        return word

    def _enter(self) -> None:
        self._levels += 1
        if self._levels > DEPTH:
            raise JqSyntaxError(f"more than {DEPTH} levels")

    # -- precedence, lowest first ----------------------------------------------------------------

    def pipe(self) -> Node:
        self._enter()
        try:
            return self._pipe()
        finally:
            self._levels -= 1

    def _pipe(self) -> Node:
        if self._is("def"):
            function = self._function()
            return ("with", function, self.pipe())
        if self._is("import") or self._is("include"):
            raise JqSyntaxError("modules are not read")
        if self._took("label"):
            name = self._take("variable")
            self._expect("|")
            return ("label", name, self.pipe())
        left = self._comma()
        if self._took("|"):
            return ("pipe", left, self.pipe())
        return left

    def _comma(self) -> Node:
        left = self._alternative()
        while self._took(","):
            left = ("comma", left, self._alternative())
        return left

    def _alternative(self) -> Node:
        left = self._update()
        if self._took("//"):
            return ("alternative", left, self._alternative())
        return left

    def _update(self) -> Node:
        left = self._or()
        if self.kind == "op" and self.word in _UPDATES:
            op = self.word
            self._advance()
            return ("update", op, left, self._alternative())
        return left

    def _or(self) -> Node:
        left = self._and()
        while self._took("or"):
            left = ("or", left, self._and())
        return left

    def _and(self) -> Node:
        left = self._comparison()
        while self._took("and"):
            left = ("and", left, self._comparison())
        return left

    def _comparison(self) -> Node:
        left = self._sum()
        if self.kind == "op" and self.word in _COMPARISONS:
            op = self.word
            self._advance()
            return ("binary", op, left, self._sum())
        return left

    def _sum(self) -> Node:
        left = self._product()
        while self.kind == "op" and self.word in ("+", "-"):
            op = self.word
            self._advance()
            left = ("binary", op, left, self._product())
        return left

    def _product(self) -> Node:
        left = self._postfix()
        while self.kind == "op" and self.word in ("*", "/", "%"):
            op = self.word
            self._advance()
            left = ("binary", op, left, self._postfix())
        return left

    # -- terms -----------------------------------------------------------------------------------

    def _postfix(self) -> Node:
        self._enter()
        try:
            if self._took("-"):
                return ("negate", self._postfix())
            node = self._suffixes(self._term())
            if not self._is("as"):
                return node
            patterns = self._patterns()
            self._expect("|")
            return ("bind", node, patterns, self.pipe())
        finally:
            self._levels -= 1

    def _suffixes(self, node: Node) -> Node:
        while True:
            if self.kind == "field":
                node = ("index", node, ("const", self.word[1:]))
                self._advance()
            elif self._took("."):
                if self.kind == "quote":
                    node = ("index", node, self._string(None))
                else:
                    self._expect("[")
                    node = self._bracket(node)
            elif self._took("["):
                node = self._bracket(node)
            elif self._took("?"):
                node = ("try", node, None)
            else:
                return node

    def _bracket(self, node: Node) -> Node:
        if self._took("]"):
            return ("iterate", node)
        if self._took(":"):
            end = self.pipe()
            self._expect("]")
            return ("slice", node, None, end)
        start = self.pipe()
        if self._took(":"):
            last = None if self._is("]") else self.pipe()
            self._expect("]")
            return ("slice", node, start, last)
        self._expect("]")
        return ("index", node, start)

    def _term(self) -> Node:
        kind, word = self.kind, self.word
        if kind == "field":
            self._advance()
            return ("index", ("identity",), ("const", word[1:]))
        if kind == "number":
            self._advance()
            return ("const", int(word) if word.isdigit() else float(word))
        if kind == "quote":
            return self._string(None)
        if kind == "format":
            self._advance()
            return self._string(word) if self.kind == "quote" else ("format", word)
        if kind == "variable":
            self._advance()
            return (
                ("const", {"file": "<top-level>", "line": 1})
                if word == "$__loc__"
                else ("variable", word)
            )
        if kind == "op":
            return self._punctuation(word)
        if kind == "name":
            return self._word(word)
        raise self.unexpected()

    def _punctuation(self, word: str) -> Node:
        self._advance()
        if word == "..":
            return ("call", "recurse", ())
        if word == ".":
            if self.kind == "quote":
                return ("index", ("identity",), self._string(None))
            return ("identity",)
        if word == "(":
            node = self.pipe()
            self._expect(")")
            return node
        if word == "[":
            if self._took("]"):
                return ("const", [])
            node = self.pipe()
            self._expect("]")
            return ("array", node)
        if word == "{":
            return self._object()
        raise JqSyntaxError(f'unexpected token "{word}"')

    def _word(self, word: str) -> Node:
        if word == "if":
            return self._if()
        if word == "try":
            self._advance()
            body = self._no_as()
            return ("try", body, self._no_as() if self._took("catch") else ("call", "empty", ()))
        if word in ("reduce", "foreach"):
            self._advance()
            source = self._no_as()
            patterns = self._patterns()
            parts = self._arguments()
            if len(parts) not in ((2,) if word == "reduce" else (2, 3)):
                raise self.unexpected()
            return (word, source, patterns, *parts)
        if word in ("def", "label"):
            return self.pipe()
        if word in _KEYWORDS:
            raise self.unexpected()
        self._advance()
        if word == "break" and self.kind == "variable":
            return ("break", self._take("variable"))
        args = self._arguments() if self._is("(") else ()
        if not args and word in ("null", "true", "false"):
            return ("const", {"null": None, "true": True, "false": False}[word])
        return ("call", word, args)

    def _no_as(self) -> Node:
        """A term with its suffixes, whose `as` belongs to what stands before it."""
        return ("negate", self._no_as()) if self._took("-") else self._suffixes(self._term())

    def _arguments(self) -> tuple[Node, ...]:
        self._expect("(")
        args = [self.pipe()]
        while self._took(";"):
            args.append(self.pipe())
        self._expect(")")
        return tuple(args)

    def _if(self) -> Node:
        self._advance()
        condition = self.pipe()
        self._expect("then")
        then = self.pipe()
        if self._is("elif"):
            return ("if", condition, then, self._if())
        otherwise: Node = ("identity",)
        if self._took("else"):
            otherwise = self.pipe()
        self._expect("end")
        return ("if", condition, then, otherwise)

    def _function(self) -> Function:
        self._expect("def")
        name = self._take("name")
        params: list[str] = []
        if self._took("("):
            while True:
                params.append(self._take("variable" if self.kind == "variable" else "name"))
                if not self._took(";"):
                    break
            self._expect(")")
        self._expect(":")
        body = self.pipe()
        self._expect(";")
        return Function(name, tuple(params), body)

    def _object(self) -> Node:
        entries: list[tuple[Node, Node]] = []
        while not self._took("}"):
            entries.append(self._entry())
            if not self._is("}"):
                self._expect(",")
        return ("object", tuple(entries))

    def _entry(self) -> tuple[Node, Node]:
        kind, word = self.kind, self.word
        if kind == "variable":
            self._advance()
            return ("const", word[1:]), ("variable", word)
        if kind == "op":
            self._expect("(")
            key = self.pipe()
            self._expect(")")
        elif kind in ("quote", "format"):
            name = None
            if kind == "format":
                name = self._take("format")
            key = self._string(name)
        elif kind in ("name", "number"):
            self._advance()
            key = ("const", word)
        else:
            raise self.unexpected()
        if self._took(":"):
            return key, self._value()
        return key, ("index", ("identity",), key)

    def _value(self) -> Node:
        """The value of an entry: alternatives of terms joined by `|` alone, without commas."""
        node = self._alternative()
        return ("pipe", node, self._value()) if self._took("|") else node

    # -- patterns and strings --------------------------------------------------------------------

    def _patterns(self) -> tuple[Node, ...]:
        self._expect("as")
        found = [self._pattern()]
        while self._took("?//"):
            found.append(self._pattern())
        return tuple(found)

    def _pattern(self) -> Node:
        if self.kind == "variable":
            return ("name", self._take("variable"))
        if self._took("["):
            parts = [self._pattern()]
            while self._took(","):
                parts.append(self._pattern())
            self._expect("]")
            return ("list", tuple(parts))
        self._expect("{")
        entries: list[tuple[Node, str, Node | None]] = []
        while not self._took("}"):
            entries.append(self._pattern_entry())
            if not self._is("}"):
                self._expect(",")
        return ("map", tuple(entries))

    def _pattern_entry(self) -> tuple[Node, str, Node | None]:
        variable = ""
        if self.kind == "variable":
            variable = self._take("variable")
            key: Node = ("const", variable[1:])
        elif self.kind == "quote":
            key = self._string(None)
        elif self._took("("):
            key = self.pipe()
            self._expect(")")
        else:
            key = ("const", self._take("name"))
        if self._took(":"):
            return key, variable, self._pattern()
        if not variable:
            raise self.unexpected()
        return key, variable, None

    def _string(self, name: str | None) -> Node:
        """A string, whose interpolated parts go through the format of this name."""
        parts: list[Node] = []
        plain: list[str] = []
        text = self._text
        while True:
            if self._at >= len(text):
                raise JqSyntaxError("unterminated string literal")
            char = text[self._at]
            self._at += 1
            if char == '"':
                break
            if char != "\\":
                plain.append(char)
                continue
            if text[self._at : self._at + 1] == "(":
                self._at += 1
                parts.append(("const", "".join(plain)))
                plain = []
                self._advance()
                parts.append(("pipe", self.pipe(), ("format", name or "@text")))
                if not self._is(")"):
                    raise self.unexpected()
            else:
                plain.append(self._escape())
        self._advance()
        parts.append(("const", "".join(plain)))
        return parts[0] if len(parts) == 1 else ("string", tuple(parts))

    def _escape(self) -> str:
        text = self._text
        char = text[self._at : self._at + 1]
        self._at += 1
        if char in _ESCAPES and char:
            return _ESCAPES[char]
        if char == "u" and re.match(r"[0-9a-fA-F]{4}", text[self._at : self._at + 4]):
            code = int(text[self._at : self._at + 4], 16)
            self._at += 4
            low = re.match(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})", text[self._at : self._at + 6])
            if 0xD800 <= code < 0xDC00 and low:
                self._at += 6
                code = 0x10000 + ((code - 0xD800) << 10) + int(low.group(1), 16) - 0xDC00
            return chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd"
        raise JqSyntaxError("invalid escape sequence in string literal")
