"""`test`, `[` and `[[`: conditions over texts, numbers and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.api.validation import parse_int64
from controlplane.shell.shell import COMMAND, Shell
from controlplane.shell.streams import Streams
from controlplane.shell.words import matches

__all__ = ["test"]

_NUMBERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_FILES: Final = frozenset("defhrswxL")
DEEPEST: Final = 20


class _Wrong(ValueError):
    """A condition that is no condition."""


def test(shell: Shell, words: list[str], streams: Streams) -> int:
    """Return 0 where a condition holds, 1 where it does not, and 2 where it is no condition."""
    name, given = words[0], words[1:]
    closing = {"[": "]", "[[": "]]"}.get(name, "")
    if closing:
        if given[-1:] != [closing]:
            streams.err.write(f"{name}: missing {closing}\n".encode())
            return 2
        given = given[:-1]
    shell.spend(COMMAND)
    condition = _Condition(shell, given, patterns=name == "[[")
    try:
        return 0 if condition.holds() else 1
    except _Wrong as error:
        streams.err.write(f"{name}: {error}\n".encode())
        return 2


class _Condition:
    def __init__(self, shell: Shell, words: list[str], *, patterns: bool) -> None:
        self._shell = shell
        self._words = words
        self._at = 0
        self._patterns = patterns
        self._depth = 0

    def holds(self) -> bool:
        if not self._words:
            return False
        if len(self._words) == 1:
            return bool(self._words[0])
        found = self._either()
        if self._at < len(self._words):
            raise _Wrong(f"{self._words[self._at]}: unknown operand")
        return found

    def _peek(self, ahead: int = 0) -> str | None:
        at = self._at + ahead
        return self._words[at] if at < len(self._words) else None

    def _either(self) -> bool:
        found = self._both()
        while self._peek() in ("-o", "||"):
            self._at += 1
            other = self._both()
            found = found or other
        return found

    def _both(self) -> bool:
        found = self._not()
        while self._peek() in ("-a", "&&"):
            self._at += 1
            other = self._not()
            found = found and other
        return found

    def _not(self) -> bool:
        self._depth += 1
        if self._depth > DEEPEST:
            raise _Wrong("too deep")
        try:
            if self._peek() == "!" and self._peek(1) is not None:
                self._at += 1
                return not self._not()
            if self._peek() == "(" and self._peek(1) is not None:
                self._at += 1
                found = self._either()
                if self._peek() != ")":
                    raise _Wrong("missing )")
                self._at += 1
                return found
            return self._primary()
        finally:
            self._depth -= 1

    def _primary(self) -> bool:
        first, second, third = self._peek(), self._peek(1), self._peek(2)
        if first is None:
            raise _Wrong("argument expected")
        if second is not None and third is not None:
            found = self._compared(first, second, third)
            if found is not None:
                self._at += 3
                return found
        if second is not None and len(first) == 2 and first[0] == "-":
            if first in ("-n", "-z"):
                self._at += 2
                return bool(second) == (first == "-n")
            if first[1] in _FILES:
                self._at += 2
                return self._file(first[1], second)
            if first == "-t":
                self._at += 2
                return False
        self._at += 1
        return bool(first)

    def _compared(self, left: str, operator: str, right: str) -> bool | None:
        """The outcome of a comparison; None where the second word is no operator."""
        if operator in ("=", "==", "!="):
            equal = matches(left, right) if self._patterns else left == right
            return equal == (operator != "!=")
        if operator in ("<", ">"):
            return left < right if operator == "<" else left > right
        compares = _NUMBERS.get(operator)
        if compares is None:
            return None
        numbers = [
            parse_int64(each.strip() or "0" if self._patterns else each.strip())
            for each in (left, right)
        ]
        for number, text in zip(numbers, (left, right), strict=True):
            if number is None:
                raise _Wrong(f"{text}: bad number")
        return compares(*numbers)

    def _file(self, kind: str, name: str) -> bool:
        path = self._shell.path(name)
        data = self._shell.read(path)
        if kind == "f":
            return data is not None
        if kind == "s":
            return bool(data)
        if kind in "hL":
            return False
        folder = data is None and self._shell.is_folder(path)
        return folder if kind == "d" else data is not None or folder
