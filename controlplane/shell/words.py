"""Expansion of words: quotes, parameters, command substitution, arithmetic, field splitting and file names."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from attrs import define, field

from controlplane.shell.arithmetic import ArithmeticFailure, evaluated
from controlplane.shell.syntax import end_of_quoted

__all__ = ["Expander", "ExpansionFailure", "Values", "file_names", "matches", "unquoted"]

_SPECIAL: Final = "?#@*$!-"
_NAME: Final = re.compile(r"[A-Za-z_]\w*|\d")
_OPERATION: Final = re.compile(r":?[-=+?]|%%?|##?|//?|:")
_GLOB: Final = re.compile(r"[*?\[]")


class ExpansionFailure(ValueError):
    """A word that cannot be expanded: the command is not run."""


class Values(Protocol):
    """The values that words are expanded with, and the counting of work."""

    def value(self, name: str) -> str | None:
        """Return the value of a parameter; None where it is not set."""

    def assign(self, name: str, value: str) -> None:
        """Set a variable."""

    def arguments(self) -> list[str]:
        """Return the positional parameters."""

    def substituted(self, script: str) -> str:
        """Return the output of a script, without newlines at its end."""

    def names(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern."""

    def spend(self, steps: int, size: int = 0) -> None:
        """Count work."""


@define
class _Fields:
    """Fields under construction: a text, and the same with quoted glob characters escaped."""

    done: list[tuple[str, str, bool]] = field(factory=list)
    """Texts, patterns, and whether a character that was not quoted is one of a pattern."""
    text: str = ""
    pattern: str = ""
    begun: bool = False
    globs: bool = False

    def literal(self, text: str, *, quoted: bool) -> None:
        globs = _GLOB.search(text)
        self.text += text
        self.pattern += _GLOB.sub(r"[\g<0>]", text) if globs and quoted else text
        self.globs = self.globs or (globs is not None and not quoted)
        self.begun = True

    def next(self) -> None:
        if self.begun:
            self.done.append((self.text, self.pattern, self.globs))
        self.text, self.pattern, self.begun, self.globs = "", "", False, False


class Expander:
    """Expands the words of one shell. `check` is told the size of what an expansion made."""

    def __init__(self, values: Values, check: Callable[[int], None]) -> None:
        self._values = values
        self._check = check

    def fields(self, word: str) -> list[str]:
        """Return the fields of a word, with file names in place of patterns that match."""
        found: list[str] = []
        for text, pattern, globs in self._expanded(word, splits=True):
            found += (self._values.names(pattern) if globs else None) or [text]
        return found

    def text(self, word: str) -> str:
        """Return a word as one text: of an assignment, a redirection, or `case`."""
        return " ".join(text for text, _, _ in self._expanded(word, splits=False))

    def pattern(self, word: str) -> str:
        """Return a word as a pattern, in which quoted characters stand for themselves."""
        return "".join(pattern for _, pattern, _ in self._expanded(word, splits=False))

    def document(self, text: str) -> str:
        """Return the text of a here-document; a leading quote says whether anything in it is expanded."""
        if text.startswith("'"):
            return text[1:]
        fields = _Fields()
        self._inside_quotes(text[1:], fields)
        return fields.text

    # ------------------------------------------------------------------ the scanner

    def _expanded(self, word: str, *, splits: bool) -> list[tuple[str, str, bool]]:
        fields = _Fields()
        at = 0
        if word == "~" or word.startswith("~/"):
            fields.literal(self._values.value("HOME") or "/", quoted=True)
            at = 1
        while at < len(word):
            char = word[at]
            if char == "\\":
                fields.literal(word[at + 1 : at + 2], quoted=True)
                at += 2
            elif char == "'":
                end = end_of_quoted(word, at)
                fields.literal(word[at + 1 : end - 1], quoted=True)
                at = end
            elif char == '"':
                end = end_of_quoted(word, at)
                fields.literal("", quoted=True)
                self._inside_quotes(word[at + 1 : end - 1], fields)
                at = end
            elif char in "$`":
                value, at = self._dollar(word, at, fields, quoted=False)
                if not splits:
                    fields.literal(value, quoted=False)
                else:
                    self._split(value, fields)
            else:
                end = at + 1
                while end < len(word) and word[end] not in "\\'\"$`":
                    end += 1
                fields.literal(word[at:end], quoted=False)
                at = end
        fields.next()
        return fields.done

    def _split(self, value: str, fields: _Fields) -> None:
        ifs = self._values.value("IFS")
        separators = " \t\n" if ifs is None else ifs
        if not separators:
            if value:
                fields.literal(value, quoted=False)
            return
        self._values.spend(1, 4 * len(value))
        if ifs is None:
            words = value.split()
            if value[:1].isspace():
                fields.next()
            for word in words[:-1]:
                fields.literal(word, quoted=False)
                fields.next()
            if words:
                fields.literal(words[-1], quoted=False)
            if words and value[-1:].isspace():
                fields.next()
            return
        for part in _parted(value, separators):
            if part in separators:
                if not part.isspace() and not fields.begun:
                    fields.begun = True
                fields.next()
            else:
                fields.literal(part, quoted=False)

    def _inside_quotes(self, text: str, fields: _Fields) -> None:
        at = 0
        while at < len(text):
            char = text[at]
            if char == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
                fields.literal(text[at + 1 : at + 2].replace("\n", ""), quoted=True)
                at += 2
            elif char in "$`":
                value, at = self._dollar(text, at, fields, quoted=True)
                fields.literal(value, quoted=True)
            else:
                end = at + 1
                while end < len(text) and text[end] not in "\\$`":
                    end += 1
                fields.literal(text[at:end], quoted=True)
                at = end

    def _dollar(self, text: str, at: int, fields: _Fields, *, quoted: bool) -> tuple[str, int]:
        """The value of an expansion, and the index behind it."""
        end = end_of_quoted(text, at)
        if text[at] == "`":
            script = re.sub(r"\\([$`\\])", r"\1", text[at + 1 : end - 1])
            return self._sized(self._values.substituted(script)), end
        following = text[at + 1 : at + 2]
        if text.startswith("$((", at) and text[end - 2 : end] == "))":
            return str(self._arithmetic(text[at + 3 : end - 2])), end
        if following == "(":
            return self._sized(self._values.substituted(text[at + 2 : end - 1])), end
        if following == "{":
            return self._braces(text[at + 2 : end - 1], fields, quoted=quoted), end
        name = _NAME.match(text, at + 1)
        if name:
            return self._sized(self._values.value(name[0]) or ""), name.end()
        if following and following in _SPECIAL:
            return self._parameter(following, fields, quoted=quoted), at + 2
        return "$", at + 1

    def _parameter(self, name: str, fields: _Fields, *, quoted: bool) -> str:
        if name != "@" or not quoted:
            return self._sized(self._values.value(name) or "")
        given = self._values.arguments()
        if not given:
            fields.begun = bool(fields.text)
            return ""
        for each in given[:-1]:
            fields.literal(each, quoted=True)
            fields.next()
        return self._sized(given[-1])

    def _sized(self, value: str) -> str:
        self._values.spend(1, len(value))
        self._check(len(value))
        return value

    def _arithmetic(self, text: str) -> int:
        self._values.spend(2 * len(text))
        fields = _Fields()
        self._inside_quotes(text, fields)
        values = self._values
        try:
            return evaluated(fields.text, lambda name: values.value(name) or "", values.assign)
        except ArithmeticFailure as error:
            raise ExpansionFailure(str(error)) from None

    def _braces(self, text: str, fields: _Fields, *, quoted: bool) -> str:
        """The value of `${...}`."""
        if (
            text.startswith("#")
            and len(text) > 1
            and (_NAME.fullmatch(text[1:]) or text[1:] in _SPECIAL)
        ):
            return str(len(self._values.value(text[1:]) or ""))
        name = _NAME.match(text)
        shown = name[0] if name else text[:1]
        if not shown or (not name and shown not in _SPECIAL):
            raise ExpansionFailure("bad substitution")
        rest = text[len(shown) :]
        if not rest:
            return self._parameter(shown, fields, quoted=quoted)
        operation = _OPERATION.match(rest)
        if operation is None:
            raise ExpansionFailure("bad substitution")
        value = self._values.value(shown)
        word = rest[operation.end() :]
        kind = operation[0]
        if kind.lstrip(":") in ("-", "=", "+", "?") and kind != ":":
            return self._default(shown, value, kind, word)
        return self._sized(self._cut(value or "", kind, word))

    def _default(self, name: str, value: str | None, kind: str, word: str) -> str:
        is_set = bool(value) if kind.startswith(":") else value is not None
        if kind.endswith("+"):
            return self.text(word) if is_set else ""
        if is_set:
            return self._sized(value or "")
        if kind.endswith("?"):
            raise ExpansionFailure(f"{name}: {self.text(word) or 'parameter not set'}")
        found = self.text(word)
        if kind.endswith("="):
            self._values.assign(name, found)
        return found

    def _cut(self, value: str, kind: str, word: str) -> str:
        """The parts of a value: `%`, `#`, `/` and `:` (offset and length)."""
        if kind == ":":
            first, _, length = word.partition(":")
            begin = self._arithmetic(first)
            begin = max(0, len(value) + begin) if begin < 0 else begin
            end = len(value) if not length else begin + self._arithmetic(length)
            return value[begin:end]
        if kind.startswith("/"):
            before, _, after = word.partition("/")
            wanted = self.text(before)
            return (
                value.replace(wanted, self.text(after), -1 if kind == "//" else 1)
                if wanted
                else value
            )
        pattern = self.pattern(word)
        if not _GLOB.search(pattern):
            return (
                value.removeprefix(pattern) if kind.startswith("#") else value.removesuffix(pattern)
            )
        self._values.spend(2 * len(value), len(value) ** 2)
        ends = range(len(value) + 1)
        if kind == "#":
            return next((value[at:] for at in ends if matches(value[:at], pattern)), value)
        if kind == "##":
            return next(
                (value[at:] for at in reversed(ends) if matches(value[:at], pattern)), value
            )
        if kind == "%":
            return next(
                (value[:at] for at in reversed(ends) if matches(value[at:], pattern)), value
            )
        return next((value[:at] for at in ends if matches(value[at:], pattern)), value)


def matches(text: str, pattern: str) -> bool:
    """Return whether a text matches a pattern of the shell."""
    if (
        len(pattern) > 200 or pattern.count("*") > 8
    ):  # the time of a match grows with the number of stars
        return text == pattern
    return fnmatch.fnmatchcase(text, pattern)


def file_names(entries: Iterable[str], whole: str, pattern: str) -> list[str]:
    """Return the names that match a pattern in its last part, sorted; `whole` is the pattern as an absolute path."""
    folder, base = posixpath.split(whole)
    if _GLOB.search(folder) or len(pattern) > 200 or pattern.count("*") > 8:
        return []
    shown = pattern[: len(pattern) - len(posixpath.basename(pattern))]
    start = folder.rstrip("/") + "/"
    found = {each[len(start) :].split("/")[0] for each in entries if each.startswith(start)} - {""}
    kept = fnmatch.filter(sorted(found), base)
    return [f"{shown}{each}" for each in kept if base.startswith(".") or not each.startswith(".")]


def unquoted(word: str) -> str | None:
    """Return a word in which nothing is expanded; None where something is."""
    if any(char in word for char in "$`*?["):
        return word if word in ("[", "[[") else None
    return word.replace("'", "").replace('"', "").replace("\\", "")


def _parted(text: str, separators: str) -> Iterator[str]:
    """The separators of a text, each by itself, and what stands between them."""
    begin = 0
    for at, char in enumerate(text):
        if char in separators:
            if begin < at:
                yield text[begin:at]
            yield char
            begin = at + 1
    if begin < len(text):
        yield text[begin:]
