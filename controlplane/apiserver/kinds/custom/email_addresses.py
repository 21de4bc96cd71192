"""Email addresses as Go's net/mail reads a single one: RFC 5322 without folding, with text beyond ASCII.

Left out: encoded words (RFC 2047) of an unknown character set in a display name, which Go refuses.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

__all__ = ["is_email"]

_ATOM: Final = re.compile(r"[^\x00-\x20\x7f()<>\[\]:;@\\,\"]+")
_QUOTED: Final = re.compile(
    r'"((?:[\t !\x23-\x5b\x5d-\x7e\x80-\U0010ffff]|\\[\t\x20-\x7e\x80-\U0010ffff])*)"'
)
_LITERAL: Final = re.compile(r"\[([!-Z^-~\x80-\U0010ffff]*)\]")
_BLANKS: Final = " \t"


class _RefusedError(ValueError):
    """The text is no address."""


def is_email(text: str) -> bool:
    """Return whether `text` is one address: `a@b.c`, `Name <a@b.c>`, or a group of just one."""
    reader = _Reader(text)
    try:
        count = reader.address(groups=True)
        reader.skip_comments()
    except _RefusedError:
        return False
    return count == 1 and reader.at == len(text)


class _Reader:
    """Reads a text from left to right; `at` is the next character's place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def address(self, *, groups: bool) -> int:
        """Read an address, or a group of addresses, and return how many there were."""
        self._skip_blanks()
        start = self.at
        try:
            self._plain_address()
        except _RefusedError:
            self.at = start
        else:
            self._skip_blanks()
            if self._peek() == "(":
                self._comment()
            return 1
        if self._peek() != "<":
            self._display_name()
        self._skip_blanks()
        if groups and self._take(":"):
            return self._group()
        self._expect("<")
        self._plain_address()
        self._expect(">")
        return 1

    def skip_comments(self) -> None:
        """Skip blanks and comments in parentheses."""
        self._skip_blanks()
        while self._peek() == "(":
            self._comment()
            self._skip_blanks()

    def _group(self) -> int:
        self._skip_blanks()
        count = 0
        if not self._take(";"):
            while True:
                count += self.address(groups=False)
                self.skip_comments()
                if self._take(";"):
                    break
                self._expect(",")
        self.skip_comments()
        return count

    def _plain_address(self) -> None:
        """Read `local@domain`."""
        self._skip_blanks()
        if self._peek() == '"':
            if not self._found(_QUOTED.match(self.text, self.at))[1]:
                raise _RefusedError
        else:
            self._dotted_atom()
        self._expect("@")
        self._skip_blanks()
        if self._peek() == "[":
            self._domain_literal()
        else:
            self._dotted_atom()

    def _dotted_atom(self) -> None:
        atom = self._found(_ATOM.match(self.text, self.at))[0]
        if atom.startswith(".") or atom.endswith(".") or ".." in atom:
            raise _RefusedError

    def _domain_literal(self) -> None:
        literal = self._found(_LITERAL.match(self.text, self.at))[1]
        version = 6 if literal.startswith("IPv6:") else 4
        try:
            address = ipaddress.ip_address(literal.removeprefix("IPv6:"))
        except ValueError:
            raise _RefusedError from None
        if address.version != version:
            raise _RefusedError

    def _display_name(self) -> None:
        """Read words and quoted texts, at least one."""
        words = 0
        while True:
            if words:
                self.skip_comments()
            self._skip_blanks()
            quoted = self._peek() == '"'
            found = _QUOTED.match(self.text, self.at) if quoted else _ATOM.match(self.text, self.at)
            if found is None:
                break
            self.at = found.end()
            words += 1
        if not words:
            raise _RefusedError

    def _comment(self) -> None:
        """Skip a comment and those within it."""
        depth = 0
        while True:
            char = self._peek()
            self.at += 1
            if char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
                if not depth:
                    return
            elif char == "\\" and self._peek():
                self.at += 1
            elif not char:
                raise _RefusedError

    def _skip_blanks(self) -> None:
        while self._peek() in _BLANKS and self.at < len(self.text):
            self.at += 1

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self.at += 1
        return True

    def _expect(self, char: str) -> None:
        if not self._take(char):
            raise _RefusedError

    def _found(self, found: re.Match[str] | None) -> re.Match[str]:
        if found is None:
            raise _RefusedError
        self.at = found.end()
        return found
