"""Records of awk and their fields: how a text is split, and how a record is made of its fields again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["Fields", "Reader", "TooMuch", "pieces"]

FIELDS: Final = 32_767
"""The maximum number of fields of a record."""

Search = Callable[[str, str, int], Any]
"""Searches a regular expression in a text from a place on; None where it is not."""


class TooMuch(Exception):
    """A record with more fields than it may have, or a field that cannot be."""


def pieces(
    text: str, separator: str, search: Search, *, literal: bool = False, paragraph: bool = False
) -> list[str]:
    """Return the fields of a text.

    Args:
        text: the text.
        separator: a space for blanks, one other character for itself, else a regular expression; "" for no separator.
        search: searches a regular expression.
        literal: the separator is a regular expression, even if it is one character.
        paragraph: newlines separate fields, too.
    """
    if separator == " " and not literal:
        return text.split()
    if not text:
        return []
    if len(separator) == 1 and not literal and separator != "\\":
        lines = text.split("\n") if paragraph else [text]
        return [each for line in lines for each in line.split(separator)]
    if not separator:
        return list(text)
    source = f"({separator})|\n" if paragraph else separator
    found, begin, at = [], 0, 0
    while (match := search(source, text, at)) is not None:
        start, end = match.span()
        if start == end:  # nothing separates nothing
            at = end + 1
            if at > len(text):
                break
            continue
        found.append(text[begin:start])
        begin = at = end
    return [*found, text[begin:]]


class Reader:
    """A text that is read record by record."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def next(self, separator: str, search: Search) -> str | None:
        """Return the next record; None at the end. Paragraphs where the separator is empty."""
        if not separator:
            while self._text.startswith("\n", self._at):
                self._at += 1
        if self._at >= len(self._text):
            return None
        begin = self._at
        if len(separator) == 1:
            end = self._text.find(separator, begin)
            after = end + 1
        elif not separator:
            end = self._text.find("\n\n", begin)
            after = end + 2
        else:
            match = search(separator, self._text, begin)
            end, after = (-1, 0) if match is None or match.end() == match.start() else match.span()
        if end < 0:
            end = after = len(self._text)
            if separator in ("", "\n") or len(separator) > 1:
                end -= self._text.endswith("\n")
        self._at = after
        return self._text[begin:end]


class Fields:
    """The current record and its fields, each made of the other when it is asked for."""

    def __init__(self, split: Callable[[str], list[str]]) -> None:
        self._split = split
        self._record = ""
        self._found: list[str] | None = None

    @property
    def record(self) -> str:
        """$0."""
        return self._record

    def set_record(self, record: str) -> None:
        """Set $0; the fields follow, as the separator is by then."""
        self._record = record
        self._found = self._split(record)
        self._check(len(self._found))

    @property
    def count(self) -> int:
        """NF."""
        return len(self._all())

    def _all(self) -> list[str]:
        if self._found is None:
            self._found = []
        return self._found

    def has(self, at: int) -> bool:
        """Return whether a field is there. Raises TooMuch for one that cannot be."""
        self._check(at)
        return at <= self.count

    def get(self, at: int) -> str:
        """Return a field; 0 is the record."""
        return self._record if at == 0 else self._all()[at - 1]

    def set(self, at: int, value: str, separator: str) -> None:
        """Set a field, and make the record anew."""
        self._check(at)
        if at == 0:
            self.set_record(value)
            return
        fields = self._all()
        fields.extend([""] * (at - len(fields)))
        fields[at - 1] = value
        self._record = separator.join(fields)

    def set_count(self, count: int, separator: str) -> None:
        """Set NF, and make the record anew."""
        self._check(count)
        fields = self._all()
        del fields[count:]
        fields.extend([""] * (count - len(fields)))
        self._record = separator.join(fields)

    def _check(self, at: int) -> None:
        if not 0 <= at <= FIELDS:
            raise TooMuch(f"Access to field {at}, of at most {FIELDS}")
