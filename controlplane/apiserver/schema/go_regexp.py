r"""Regular expressions as Go's regexp reads them: RE2, which answers in time linear in the text.

Whatever comes from a client (patterns of definitions, `matches` of expressions) is searched with this;
Python's own expressions backtrack, and read `$`, `\d` and looking ahead in another way.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from controlplane.apiserver.schema.work import spend

__all__ = ["Pattern", "PatternError", "compiled"]

_MEMORY: Final = 8 << 20
"""Bytes of a program and its states; beyond that a pattern is too large."""
_LONGEST: Final = 10_000
"""Characters; what is longer compiles for too long."""
_SHOWN: Final = 100
_STEPS: Final = 30
"""Instructions of a program that are looked at in a microsecond, when its states are too many to keep."""
_WORDS: Final = {
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "missing ]": "missing closing ]",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid character class range": "invalid character class range",
    "invalid character class": "invalid character class",
    "invalid escape sequence": "invalid escape sequence",
    "trailing \\": "trailing backslash at end of expression",
    "invalid UTF-8": "invalid UTF-8",
}
_TOO_LARGE: Final = "expression too large"


class PatternError(ValueError):
    """No regular expression of Go's; the text is Go's."""


class Pattern:
    """A compiled expression."""

    __slots__ = ("_found", "_size", "source")

    def __init__(self, source: str, found: Any) -> None:
        self.source = source
        self._found = found
        self._size: int = found.programsize

    def _read(self, text: str, *, metered: bool) -> bytes:
        """Return the text as RE2 reads it, and count its worst case.

        With `metered`, the caller has already counted the search by the pattern's length.
        """
        size = max(self._size - 16 * len(self.source), 0) if metered else self._size
        spend(len(text) * size // _STEPS)
        return _bytes(text)

    def search(self, text: str, *, metered: bool = False) -> str | None:
        """The leftmost match, or None."""
        match = self._found.search(self._read(text, metered=metered))
        return None if match is None else match[0].decode("utf-8", "replace")

    def found(self, text: str, *, metered: bool = False) -> bool:
        """Return whether the expression matches anywhere."""
        return self._found.search(self._read(text, metered=metered)) is not None

    def each(self, text: str, *, metered: bool = False) -> Iterator[str]:
        """All matches that do not overlap."""
        for match in self._found.finditer(self._read(text, metered=metered)):
            yield match[0].decode("utf-8", "replace")

    def spans(self, text: str) -> Iterator[list[tuple[str | None, int, int]]]:
        """All matches that do not overlap: name, start and end of the whole and of each group, in characters.

        A group that took no part stands from -1 to -1.
        """
        raw = self._read(text, metered=False)
        names = {
            number: name.decode() if isinstance(name, bytes) else name
            for name, number in self._found.groupindex.items()
        }
        for match in self._found.finditer(raw):
            found = []
            for number in range(self._found.groups + 1):
                start, end = match.span(number)
                if start >= 0:
                    start, end = (len(raw[:at].decode("utf-8", "replace")) for at in (start, end))
                found.append((names.get(number), start, end))
            yield found


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


@lru_cache(maxsize=1024)
def compiled(source: str) -> Pattern:
    """The expression. PatternError, in Go's words."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    if len(source) > _LONGEST:
        raise PatternError(f"error parsing regexp: {_TOO_LARGE}: `{source[:_SHOWN]}...`")
    try:
        return Pattern(source, re2.compile(_bytes(source), options))
    except re2.error as error:
        raise PatternError(f"error parsing regexp: {_in_go(_told(error), source)}") from None


def _told(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _in_go(said: str, source: str) -> str:
    """Return RE2's error in the words of Go's package."""
    problem, _, where = said.partition(": ")
    if problem.startswith("pattern too large"):
        return f"{_TOO_LARGE}: `{source}`"
    if problem in ("missing )", "unexpected )"):
        where = source
    return f"{_WORDS.get(problem, problem)}: `{where}`"
