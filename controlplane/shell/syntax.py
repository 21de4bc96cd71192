"""Parser of the shell language: a script as a tree of commands whose words are not expanded yet.

The grammar is that of POSIX (lists, pipelines, `if`, `while`, `until`, `for`, `case`, groups, subshells, functions,
redirections, here-documents). Words keep their quotes; `controlplane.shell.words` expands them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from attrs import field, fields, frozen

__all__ = [
    "AndOr",
    "Case",
    "For",
    "Function",
    "Group",
    "If",
    "Incomplete",
    "Loop",
    "Node",
    "Pipeline",
    "Redirect",
    "Sequence",
    "ShellSyntaxError",
    "Simple",
    "commands",
    "end_of_quoted",
    "nodes",
]

DEEPEST: Final = 40
"""The maximum depth of nested compound commands."""
ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_OPERATORS: Final = (
    "&&",
    "||",
    ";;",
    "<<-",
    "<<",
    ">>",
    ">&",
    "<&",
    "&>",
    ">|",
    ";",
    "&",
    "|",
    "(",
    ")",
    "<",
    ">",
)
_REDIRECTIONS: Final = frozenset(("<", ">", ">>", ">|", "<<", "<<-", ">&", "<&", "&>"))
_CLOSING: Final = frozenset(("then", "else", "elif", "fi", "do", "done", "esac", "}"))
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_BREAKS: Final = " \t\n;&|<>()"


class ShellSyntaxError(ValueError):
    """A script that is not in the language."""


class Incomplete(ShellSyntaxError):
    """A script that ends within a command: more lines may complete it."""


@frozen
class Redirect:
    """A redirection of descriptor `fd`, by `<`, `>`, `>>`, `>&` or `<<`, and its target."""

    fd: int
    operator: str
    target: str
    documents: list[str] = field(factory=list, repr=False)
    """The texts of the here-documents of the script, of which `target` is a number."""

    @property
    def document(self) -> str:
        """The text of the here-document."""
        return self.documents[int(self.target)]


@frozen
class Simple:
    """A simple command: assignments (name, whether it appends, word), words and redirections."""

    assignments: tuple[tuple[str, bool, str], ...]
    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()


@frozen
class Pipeline:
    """Commands that are joined by pipes."""

    commands: tuple[Node, ...]
    negated: bool = False


@frozen
class AndOr:
    """Pipelines that are joined by `&&` and `||`."""

    first: Node
    rest: tuple[tuple[str, Node], ...] = ()


@frozen
class Sequence:
    """Commands one after the other, each with whether it runs in the background."""

    items: tuple[tuple[Node, bool], ...]


@frozen
class If:
    """`if`: conditions with their bodies, and the body of `else`."""

    branches: tuple[tuple[Sequence, Sequence], ...]
    otherwise: Sequence | None = None


@frozen
class Loop:
    """`while`, or `until`."""

    condition: Sequence
    body: Sequence
    until: bool = False


@frozen
class For:
    """`for NAME in WORDS`; None for the positional parameters."""

    name: str
    words: tuple[str, ...] | None
    body: Sequence


@frozen
class Case:
    """`case`: a word, and patterns with their bodies."""

    word: str
    arms: tuple[tuple[tuple[str, ...], Sequence], ...]


@frozen
class Group:
    """A group in braces, or a subshell in parentheses, or a compound command with redirections."""

    body: Node
    subshell: bool = False
    redirects: tuple[Redirect, ...] = ()


@frozen
class Function:
    """The definition of a function."""

    name: str
    body: Node


Node = Simple | Pipeline | AndOr | Sequence | If | Loop | For | Case | Group | Function


@frozen
class _Token:
    text: str
    operator: bool = False
    document: bool = False
    """The text of a here-document."""


def commands(text: str) -> Iterator[Node]:
    """Yield the complete commands of a script, each as soon as it is parsed.

    Raises ShellSyntaxError; Incomplete, a kind of it, when the script ends within a command.
    """
    parser = _Parser(text)
    while (node := parser.complete()) is not None:
        yield node


def end_of_quoted(text: str, at: int) -> int:
    """Return the index behind the quotation or substitution that begins at `at`; `at` + 1 for any other character.

    Raises Incomplete when it does not end.
    """
    char = text[at]
    if char == "\\":
        return at + 2
    if char == "'":
        return _after(text, "'", at + 1)
    if char == '"':
        at += 1
        while at < len(text) and text[at] != '"':
            at = end_of_quoted(text, at) if text[at] in "\\$`" else at + 1
        if at >= len(text):
            raise Incomplete("unterminated quoted string")
        return at + 1
    if char == "`":
        at += 1
        while at < len(text) and text[at] != "`":
            at += 2 if text[at] == "\\" else 1
        if at >= len(text):
            raise Incomplete("EOF in backquote substitution")
        return at + 1
    if char == "$" and text[at + 1 : at + 2] in ("(", "{"):
        return _end_of_brackets(text, at + 1)
    return at + 1


def _after(text: str, mark: str, at: int) -> int:
    end = text.find(mark, at)
    if end < 0:
        raise Incomplete("unterminated quoted string")
    return end + 1


def _end_of_brackets(text: str, at: int) -> int:
    opens = text[at]
    closes = ")" if opens == "(" else "}"
    depth = 0
    while at < len(text):
        char = text[at]
        if char == opens:
            depth += 1
        elif char == closes:
            depth -= 1
            if not depth:
                return at + 1
        at = end_of_quoted(text, at) if char in "\\'\"`" else at + 1
    raise Incomplete("unterminated substitution")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    documents: list[tuple[str, bool]] = []
    expects: str = ""
    while at < len(text):
        char = text[at]
        if char in " \t\r":
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif char == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif char == "\n":
            at += 1
            for mark, strips in documents:
                body, at = _document(text, at, mark, strips=strips)
                yield _Token(body, document=True)
            documents.clear()
            yield _Token("\n", operator=True)
        else:
            operator = next((each for each in _OPERATORS if text.startswith(each, at)), "")
            if operator:
                at += len(operator)
                expects = operator if operator in ("<<", "<<-") else ""
                yield _Token(operator, operator=True)
                continue
            start = at
            while at < len(text) and text[at] not in _BREAKS:
                at = end_of_quoted(text, at)
            if at > len(text):
                raise Incomplete("unexpected end of file")
            word = text[start:at].replace("\\\n", "")
            if word.isdecimal() and at < len(text) and text[at] in "<>":
                operator = next(each for each in _OPERATORS if text.startswith(each, at))
                at += len(operator)
                yield _Token(word + operator, operator=True)
                continue
            if expects:
                documents.append((word, expects == "<<-"))
                expects = ""
            yield _Token(word)
    if documents:
        raise Incomplete("unterminated here-document")


def _document(text: str, at: int, mark: str, *, strips: bool) -> tuple[str, int]:
    """The text of a here-document (with a leading quote where nothing in it is expanded), and the index behind it."""
    bare = mark.replace("'", "").replace('"', "").replace("\\", "")
    lines: list[str] = []
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        at = end + 1
        line = line.lstrip("\t") if strips else line
        if line == bare:
            return ("'" if bare != mark else '"') + "".join(f"{each}\n" for each in lines), min(
                at, len(text)
            )
        lines.append(line)
    raise Incomplete("unterminated here-document")


class _Parser:
    def __init__(self, text: str) -> None:
        self._source = _tokens(text)
        self._ahead: list[_Token] = []
        self._waiting: list[int] = []
        self._depth = 0
        self._documents: list[str] = []
        self._taken = 0

    # ------------------------------------------------------------------ tokens

    def _peek(self) -> _Token | None:
        while not self._ahead:
            token = next(self._source, None)
            if token is None:
                return None
            if token.document:
                self._documents.append(token.text)
                continue
            self._ahead.append(token)
        return self._ahead[0]

    def _next(self) -> _Token:
        token = self._peek()
        if token is None:
            raise Incomplete("unexpected end of file")
        return self._ahead.pop(0)

    def _is(self, text: str, *, operator: bool = True) -> bool:
        token = self._peek()
        return token is not None and token.text == text and token.operator == operator

    def _word(self, text: str) -> bool:
        """Return whether the reserved word comes next, and take it."""
        if self._is(text, operator=False):
            self._next()
            return True
        return False

    def _expect(self, text: str, *, operator: bool = False) -> None:
        token = self._next()
        if token.text != text or token.operator != operator:
            raise _unexpected(token, text)

    def _newlines(self) -> None:
        while self._is("\n"):
            self._next()

    # ------------------------------------------------------------------ grammar

    def complete(self) -> Node | None:
        """The next complete command, with the texts of its here-documents; None at the end."""
        while (token := self._peek()) is not None and token.operator and token.text in ("\n", ";"):
            self._next()
        if self._peek() is None:
            return None
        found: list[tuple[Node, bool]] = []
        while (token := self._peek()) is not None and not (token.operator and token.text == "\n"):
            node = self._and_or()
            background = self._is("&")
            if background or self._is(";"):
                self._next()
                found.append((node, background))
                continue
            found.append((node, False))
            token = self._peek()
            if token is not None and not (token.operator and token.text == "\n"):
                raise _unexpected(token)
        self._peek()
        if self._is("\n"):
            self._next()
        return Sequence(tuple(found))

    def _list(self, *ends: str) -> Sequence:
        """Commands up to one of some reserved words (or operators), which stays."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise ShellSyntaxError("commands nested too deeply")
        found: list[tuple[Node, bool]] = []
        self._newlines()
        while True:
            token = self._peek()
            if token is None:
                raise Incomplete("unexpected end of file")
            if token.text in ends:
                break
            node = self._and_or()
            background = self._is("&")
            if background or self._is(";"):
                self._next()
            found.append((node, background))
            token = self._peek()
            if token is None:
                raise Incomplete("unexpected end of file")
            self._newlines()
        self._depth -= 1
        if not found and ends != (";;", "esac"):
            raise _unexpected(self._next())
        return Sequence(tuple(found))

    def _and_or(self) -> Node:
        first = self._pipeline()
        rest: list[tuple[str, Node]] = []
        while self._is("&&") or self._is("||"):
            operator = self._next().text
            self._newlines()
            rest.append((operator, self._pipeline()))
        return AndOr(first, tuple(rest)) if rest else first

    def _pipeline(self) -> Node:
        negated = self._word("!")
        found = [self._command()]
        while self._is("|"):
            self._next()
            self._newlines()
            found.append(self._command())
        if len(found) == 1 and not negated:
            return found[0]
        return Pipeline(tuple(found), negated)

    def _command(self) -> Node:
        token = self._peek()
        if token is None:
            raise Incomplete("unexpected end of file")
        node: Node
        if token.operator:
            if token.text != "(":
                return self._simple()
            self._next()
            body = self._list(")")
            self._expect(")", operator=True)
            node = Group(body, subshell=True)
        elif token.text in _CLOSING:
            raise _unexpected(token)
        elif token.text in _COMPOUND:
            self._next()
            node = _COMPOUND[token.text](self)
        else:
            return self._simple()
        redirects = self._redirects()
        return Group(node, redirects=redirects) if redirects else node

    def _if(self) -> Node:
        branches = []
        otherwise = None
        while True:
            condition = self._list("then")
            self._expect("then")
            branches.append((condition, self._list("elif", "else", "fi")))
            if self._word("elif"):
                continue
            if self._word("else"):
                otherwise = self._list("fi")
            self._expect("fi")
            return If(tuple(branches), otherwise)

    def _while(self, *, until: bool = False) -> Node:
        condition = self._list("do")
        return Loop(condition, self._body(), until)

    def _until(self) -> Node:
        return self._while(until=True)

    def _body(self) -> Sequence:
        self._expect("do")
        body = self._list("done")
        self._expect("done")
        return body

    def _for(self) -> Node:
        name = self._next()
        if name.operator or not _NAME.fullmatch(name.text):
            raise ShellSyntaxError("bad for loop variable")
        self._newlines()
        words: list[str] | None = None
        if self._word("in"):
            words = []
            while (token := self._peek()) is not None and not token.operator:
                words.append(self._next().text)
        if self._is(";"):
            self._next()
        self._newlines()
        return For(name.text, None if words is None else tuple(words), self._body())

    def _case(self) -> Node:
        word = self._next().text
        self._newlines()
        self._expect("in")
        self._newlines()
        arms = []
        while not self._word("esac"):
            if self._is("("):
                self._next()
            patterns = [self._next().text]
            while self._is("|"):
                self._next()
                patterns.append(self._next().text)
            self._expect(")", operator=True)
            arms.append((tuple(patterns), self._list(";;", "esac")))
            if self._is(";;"):
                self._next()
            self._newlines()
        return Case(word, tuple(arms))

    def _brace(self) -> Node:
        body = self._list("}")
        self._expect("}")
        return Group(body)

    def _condition(self) -> Node:
        """`[[ ... ]]`: one command, whose operators are words of it."""
        words = ["[["]
        while not self._word("]]"):
            words.append(self._next().text)
        return Simple((), (*words, "]]"))

    def _function(self) -> Node:
        name = self._next().text
        if self._is("("):
            self._next()
            self._expect(")", operator=True)
        self._newlines()
        return Function(name, self._command())

    def _redirect(self) -> Redirect | None:
        token = self._peek()
        if token is None or not token.operator:
            return None
        bare = token.text.lstrip("0123456789")
        if bare not in _REDIRECTIONS:
            return None
        self._next()
        target = self._next()
        if target.operator:
            raise _unexpected(target)
        digits = token.text[: len(token.text) - len(bare)][:3]
        fd = int(digits) if digits else 0 if bare.startswith("<") else 1
        if bare in ("<<", "<<-"):
            self._taken += 1
            return Redirect(fd, "<<", str(self._taken - 1), self._documents)
        return Redirect(fd, ">" if bare == ">|" else bare, target.text)

    def _redirects(self) -> tuple[Redirect, ...]:
        found = []
        while (each := self._redirect()) is not None:
            found.append(each)
        return tuple(found)

    def _simple(self) -> Node:
        assignments: list[tuple[str, bool, str]] = []
        words: list[str] = []
        redirects: list[Redirect] = []
        while (token := self._peek()) is not None:
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            if token.operator:
                if token.text == "(" and len(words) == 1 and not assignments:
                    self._next()
                    self._expect(")", operator=True)
                    self._newlines()
                    return Function(words[0], self._command())
                break
            self._next()
            assigned = None if words else ASSIGNMENT.fullmatch(token.text)
            if assigned:
                assignments.append((assigned[1], bool(assigned[2]), assigned[3]))
            else:
                words.append(token.text)
        if not (assignments or words or redirects):
            raise _unexpected(self._next())
        return Simple(tuple(assignments), tuple(words), tuple(redirects))


_COMPOUND: Final = {
    "if": _Parser._if,
    "while": _Parser._while,
    "until": _Parser._until,
    "for": _Parser._for,
    "case": _Parser._case,
    "{": _Parser._brace,
    "[[": _Parser._condition,
    "function": _Parser._function,
}


def _unexpected(token: _Token, wanted: str = "") -> ShellSyntaxError:
    shown = "newline" if token.text == "\n" else f'"{token.text}"'
    return ShellSyntaxError(f"unexpected {shown}" + (f' (expecting "{wanted}")' if wanted else ""))


def nodes(node: Node) -> Iterator[Node]:
    """Yield a command and all commands within it."""
    yield node
    stack: list[object] = [getattr(node, each.name) for each in fields(type(node))]
    while stack:
        value = stack.pop()
        if isinstance(value, tuple):
            stack.extend(value)
        elif isinstance(value, Node):
            yield value
            stack.extend(getattr(value, each.name) for each in fields(type(value)))
