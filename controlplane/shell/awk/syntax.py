"""Parser of awk: a program as rules, functions, statements and expressions, each a tuple with a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

__all__ = ["Node", "Program", "Rule", "SyntaxFailure", "parsed", "unescaped"]

DEEPEST: Final = 60
"""The maximum depth of nested expressions and statements."""
BUILTINS: Final = frozenset(
    (
        *(
            "atan2",
            "close",
            "cos",
            "exp",
            "fflush",
            "gsub",
            "index",
            "int",
            "length",
            "log",
            "match",
            "rand",
        ),
        *(
            "sin",
            "split",
            "sprintf",
            "sqrt",
            "srand",
            "sub",
            "substr",
            "system",
            "tolower",
            "toupper",
        ),
    )
)
_KEYWORDS: Final = frozenset(
    (
        *(
            "BEGIN",
            "END",
            "function",
            "func",
            "if",
            "else",
            "while",
            "for",
            "do",
            "break",
            "continue",
            "next",
        ),
        *("exit", "return", "delete", "in", "getline", "print", "printf"),
    )
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_OPERATORS: Final = (
    *("**=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=", "^=", "**", "==", "<=", ">=", "!=", "!~", ">>"),
    *"{}()[];,+-*/%^!<>|?:~$=",
)  # fmt: skip
_ASSIGNMENTS: Final = ("=", "+=", "-=", "*=", "/=", "%=", "^=", "**=")
_COMPARISONS: Final = ("<", "<=", "==", "!=", ">", ">=")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "/": "/", "a": "\a", "b": "\b",
                   "f": "\f", "v": "\v"}  # fmt: skip

Node = tuple[Any, ...]
"""A statement or an expression: its name, and its parts."""


class SyntaxFailure(ValueError):
    """A text that is no program of awk."""


class Rule(NamedTuple):
    """A pattern and its action: `kind` is BEGIN, END, or "" for records; `until` ends a range."""

    kind: str
    pattern: Node | None
    until: Node | None
    body: Node | None


class Program(NamedTuple):
    """Rules in their order, and functions by name: parameters and body."""

    rules: tuple[Rule, ...]
    functions: dict[str, tuple[tuple[str, ...], Node]]


class _Token(NamedTuple):
    kind: str
    """number, string, regex, name, call (a name before a parenthesis), builtin, keyword, operator, newline, end."""
    text: str
    line: int


def unescaped(text: str) -> str:
    """Return a text with the escapes of string literals in place; others stay as they are."""

    def one(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 8) & 255)
        return _ESCAPES.get(found[2], found[0])

    return re.sub(r"\\(?:([0-7]{1,3})|(.))", one, text, flags=re.DOTALL)


def _literal(text: str, at: int, mark: str, line: int) -> int:
    """The index of the end of a literal that begins at `at`."""
    brackets = False
    while at < len(text) and text[at] != "\n":
        if text[at] == "\\":
            at += 1
        elif mark == "/" and text[at] in "[]":
            brackets = text[at] == "["
        elif text[at] == mark and not brackets:
            return at
        at += 1
    raise SyntaxFailure(f"cmd. line:{line}: Unterminated {'regex' if mark == '/' else 'string'}")


def _tokens(text: str) -> Iterator[_Token]:
    at, line, operand = 0, 1, False
    while at < len(text):
        char = text[at]
        if char in " \t\r":
            at += 1
            continue
        if text.startswith("\\\n", at):
            at, line = at + 2, line + 1
            continue
        if char == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        token, at = _token(text, at, line, operand=operand)
        yield token
        line += token.kind == "newline"
        operand = token.kind in ("number", "string", "regex", "name", "builtin") or (
            token.text in (")", "]", "$", "++", "--") and token.kind == "operator"
        )
    yield _Token("end", "", line)


def _token(text: str, at: int, line: int, *, operand: bool) -> tuple[_Token, int]:
    char = text[at]
    if char == "\n":
        return _Token("newline", char, line), at + 1
    if char == '"':
        end = _literal(text, at + 1, char, line)
        return _Token("string", unescaped(text[at + 1 : end]), line), end + 1
    if char == "/" and not operand:
        end = _literal(text, at + 1, char, line)
        return _Token("regex", text[at + 1 : end].replace("\\/", "/"), line), end + 1
    found = _NUMBER.match(text, at)
    if found:
        return _Token("number", found[0], line), found.end()
    found = _NAME.match(text, at)
    if found:
        name, end = found[0], found.end()
        kind = "keyword" if name in _KEYWORDS else "builtin" if name in BUILTINS else "name"
        if kind == "name" and text.startswith("(", end):
            kind = "call"
        return _Token(kind, name, line), end
    operator = next((each for each in _OPERATORS if text.startswith(each, at)), "")
    if not operator:
        raise SyntaxFailure(f"cmd. line:{line}: Unexpected token")
    return _Token("operator", operator, line), at + len(operator)


def parsed(text: str) -> Program:
    """Return a program. Raises SyntaxFailure."""
    return _Parser(text).program()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0
        self._no_greater = False

    # ------------------------------------------------------------------ tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _is(self, *texts: str) -> bool:
        token = self._next
        return token.kind in ("operator", "keyword") and token.text in texts

    def _take(self, *texts: str) -> str:
        """Take one of some operators or keywords, if it comes next; "" if not."""
        if not self._is(*texts):
            return ""
        self._at += 1
        return self._tokens[self._at - 1].text

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected()

    def _name(self, *kinds: str) -> str:
        token = self._next
        if token.kind not in (kinds or ("name",)):
            raise self._unexpected()
        self._at += 1
        return token.text

    def _unexpected(self) -> SyntaxFailure:
        token = self._next
        what = "end of program" if token.kind == "end" else "token"
        return SyntaxFailure(f"cmd. line:{token.line}: Unexpected {what}")

    def _newlines(self) -> None:
        while self._next.kind == "newline":
            self._at += 1

    def _ends(self) -> None:
        """Pass over ends of statements."""
        while self._next.kind == "newline" or self._is(";"):
            self._at += 1

    def _deeper(self, parse: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise SyntaxFailure(f"cmd. line:{self._next.line}: nested too deeply")
        found = parse()
        self._depth -= 1
        return found

    # ------------------------------------------------------------------ program

    def program(self) -> Program:
        rules: list[Rule] = []
        functions: dict[str, tuple[tuple[str, ...], Node]] = {}
        self._ends()
        while self._next.kind != "end":
            if self._take("function", "func"):
                name = self._name("name", "call")
                self._expect("(")
                parameters: list[str] = []
                while not self._take(")"):
                    parameters.append(self._name())
                    self._take(",")
                    self._newlines()
                self._newlines()
                functions[name] = tuple(parameters), self._block()
            else:
                rules.append(self._rule())
            self._ends()
        return Program(tuple(rules), functions)

    def _rule(self) -> Rule:
        kind = self._take("BEGIN", "END")
        if kind:
            return Rule(kind, None, None, self._block())
        pattern = until = None
        if not self._is("{"):
            pattern = self._expression()
            if self._take(","):
                self._newlines()
                until = self._expression()
        return Rule("", pattern, until, self._block() if self._is("{") else None)

    # ------------------------------------------------------------------ statements

    def _block(self) -> Node:
        self._expect("{")
        found: list[Node] = []
        self._ends()
        while not self._take("}"):
            found.append(self._statement())
            self._ends()
        return ("block", tuple(found))

    def _statement(self) -> Node:
        return self._deeper(self._any_statement)

    def _any_statement(self) -> Node:
        if self._is("{"):
            return self._block()
        if self._is(";"):
            return ("block", ())
        word = self._take("if", "while", "do", "for")
        if word:
            return {"if": self._if, "while": self._while, "do": self._do, "for": self._for}[word]()
        found = self._simple()
        if not (self._is(";", "}") or self._next.kind in ("newline", "end")):
            raise self._unexpected()
        return found

    def _body(self) -> Node:
        self._newlines()
        return self._statement()

    def _test(self) -> Node:
        self._expect("(")
        found = self._expression()
        self._expect(")")
        return found

    def _if(self) -> Node:
        test, body = self._test(), self._body()
        kept = self._at
        self._ends()
        if self._take("else"):
            return ("if", test, body, self._body())
        self._at = kept
        return ("if", test, body, None)

    def _while(self) -> Node:
        return ("for", None, self._test(), None, self._body())

    def _do(self) -> Node:
        body = self._body()
        self._ends()
        self._expect("while")
        return ("do", body, self._test())

    def _for(self) -> Node:
        self._expect("(")
        kept = self._at
        if self._next.kind == "name":
            name = self._name()
            if self._take("in") and self._next.kind == "name":
                array = self._name()
                if self._take(")"):
                    return ("for-in", name, array, self._body())
            self._at = kept
        first = None if self._is(";") else self._simple()
        self._expect(";")
        self._newlines()
        test = None if self._is(";") else self._expression()
        self._expect(";")
        self._newlines()
        step = None if self._is(")") else self._simple()
        self._expect(")")
        return ("for", first, test, step, self._body())

    def _simple(self) -> Node:
        word = self._take(
            "print", "printf", "break", "continue", "next", "exit", "return", "delete"
        )
        if word in ("print", "printf"):
            return self._print(word)
        if word in ("exit", "return"):
            value = None if self._at_end() else self._expression()
            return (word, value)
        if word == "delete":
            name = self._name()
            return ("delete", name, self._subscripts() if self._take("[") else None)
        if word:
            return (word,)
        return ("evaluate", self._expression())

    def _at_end(self) -> bool:
        return self._is(";", "}", ")") or self._next.kind in ("newline", "end")

    def _print(self, word: str) -> Node:
        kept, self._no_greater = self._no_greater, True
        found: list[Node] = []
        if not (self._at_end() or self._is(">", ">>", "|")):
            found = self._list()
        self._no_greater = kept
        if len(found) == 1 and found[0][0] == "group":
            found = list(found[0][1])
        mode = self._take(">", ">>", "|")
        target = self._concatenated() if mode else None
        return (word, tuple(found), mode, target)

    def _list(self) -> list[Node]:
        found = [self._expression()]
        while self._take(","):
            self._newlines()
            found.append(self._expression())
        return found

    def _subscripts(self) -> tuple[Node, ...]:
        found = tuple(self._list())
        self._expect("]")
        return found

    # ------------------------------------------------------------------ expressions

    def _expression(self) -> Node:
        return self._deeper(self._choice)

    def _choice(self) -> Node:
        test = self._either()
        if not self._take("?"):
            return test
        self._newlines()
        yes = self._expression()
        self._newlines()
        self._expect(":")
        self._newlines()
        return ("choice", test, yes, self._expression())

    def _either(self) -> Node:
        left = self._both()
        while self._take("||"):
            self._newlines()
            left = ("or", left, self._both())
        return left

    def _both(self) -> Node:
        left = self._membership()
        while self._take("&&"):
            self._newlines()
            left = ("and", left, self._membership())
        return left

    def _membership(self) -> Node:
        left = self._matching()
        while self._take("in"):
            subscripts = left[1] if left[0] == "group" else (left,)
            left = ("in", subscripts, self._name())
        return left

    def _matching(self) -> Node:
        left = self._compared()
        while operator := self._take("~", "!~"):
            left = ("match", operator == "~", left, self._compared())
        return left

    def _compared(self) -> Node:
        left = self._concatenated()
        while True:
            if self._is("|") and self._tokens[self._at + 1][:2] == ("keyword", "getline"):
                self._at += 2
                left = ("getline", "|", left, self._target())
            elif self._is(*_COMPARISONS) and not (self._no_greater and self._is(">")):
                left = ("compare", self._take(*_COMPARISONS), left, self._concatenated())
            else:
                return left

    def _concatenated(self) -> Node:
        left = self._sum()
        while self._next.kind in (
            "number",
            "string",
            "regex",
            "name",
            "call",
            "builtin",
        ) or self._is("$", "(", "++", "--"):
            left = ("concat", left, self._sum())
        return left

    def _sum(self) -> Node:
        left = self._product()
        while operator := self._take("+", "-"):
            left = ("arithmetic", operator, left, self._product())
        return left

    def _product(self) -> Node:
        left = self._unary()
        while operator := self._take("*", "/", "%"):
            left = ("arithmetic", operator, left, self._unary())
        return left

    def _unary(self) -> Node:
        operator = self._take("!", "-", "+")
        if operator:
            return ("unary", operator, self._deeper(self._unary))
        return self._power()

    def _power(self) -> Node:
        left = self._stepped()
        if self._take("^", "**"):
            return ("arithmetic", "^", left, self._deeper(self._unary))
        return left

    def _stepped(self) -> Node:
        """A primary expression with `++` or `--` before or after it, or an assignment to it."""
        operator = self._take("++", "--")
        if operator:
            return ("step", operator, True, self._variable())
        found = self._primary()
        if found[0] in ("name", "field", "element"):
            operator = self._take("++", "--")
            if operator:
                return ("step", operator, False, found)
            operator = self._take(*_ASSIGNMENTS)
            if operator:
                self._newlines()
                return ("assign", operator[:-1].replace("**", "^"), found, self._expression())
        return found

    def _variable(self) -> Node:
        found = self._primary()
        if found[0] not in ("name", "field", "element"):
            raise self._unexpected()
        return found

    def _primary(self) -> Node:
        token = self._next
        if token.kind in ("number", "string", "regex"):
            self._at += 1
            return (token.kind, float(token.text) if token.kind == "number" else token.text)
        if token.kind in ("name", "call", "builtin"):
            return self._named()
        if self._take("$"):
            return ("field", self._deeper(self._field))
        if self._take("("):
            return self._deeper(self._grouped)
        if self._take("getline"):
            target = self._target()
            if self._take("<"):
                return ("getline", "<", self._primary(), target)
            return ("getline", "", None, target)
        raise self._unexpected()

    def _named(self) -> Node:
        token = self._next
        self._at += 1
        if token.kind == "name":
            if self._take("["):
                return ("element", token.text, self._subscripts())
            return ("name", token.text)
        if token.kind == "builtin" and token.text == "length" and not self._is("("):
            return ("builtin", "length", ())
        self._expect("(")
        kept, self._no_greater = self._no_greater, False
        self._newlines()
        given = () if self._is(")") else tuple(self._list())
        self._newlines()
        self._expect(")")
        self._no_greater = kept
        return ("call" if token.kind == "call" else "builtin", token.text, given)

    def _field(self) -> Node:
        operator = self._take("++", "--")
        if operator:
            return ("step", operator, True, self._variable())
        sign = self._take("-", "+", "!")
        return ("unary", sign, self._primary()) if sign else self._primary()

    def _grouped(self) -> Node:
        kept, self._no_greater = self._no_greater, False
        found = self._list()
        self._expect(")")
        self._no_greater = kept
        return ("grouped", found[0]) if len(found) == 1 else ("group", tuple(found))

    def _target(self) -> Node | None:
        """The variable of getline, if one is named."""
        return self._variable() if self._next.kind == "name" or self._is("$") else None
