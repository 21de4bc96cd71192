"""Whether a regular expression can make Python's engine search for long, told from its structure.

The expression becomes an automaton of positions (Glushkov's). What the engine tries on a text are
paths through it, so it takes time linear in the text if no path through a loop can be had in more
ways the longer the text is: no two states q, p and no text v with q -v-> q, q -v-> p and p -v-> p, and
no two ways around a loop (Weber and Seidl 1991; Weideman et al. 2016). The check errs on the safe side:
repeats with an upper bound may be taken for unbounded ones, conditions on what stands around are
taken to fail at will. What is found has a text that shows it, to be tried.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

SEARCHING = frozenset(("search", "sub", "subn", "split", "findall", "finditer"))
_CHARACTERS = [chr(code) for code in range(128)] + list("µμé٣ſ\x85\u2028\ud800🎉")
_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
_FIXED = 32
"""Copies that are told apart."""
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_ONE = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)

Chars = frozenset[str]


class Witness(NamedTuple):
    """Texts that show it: `begin`, then `pump` again and again."""

    begin: str
    pump: str

    def text(self, size: int, end: str) -> str:
        """A text of about so many characters."""
        return self.begin + self.pump * (size // len(self.pump)) + end


class Part(NamedTuple):
    """Of a part of the expression: whether it can be empty, and where it begins and ends."""

    empty: bool
    first: tuple[int, ...]
    last: tuple[int, ...]


class Automaton:
    """The positions of an expression and what follows what."""

    def __init__(self, pattern: str | bytes, flags: int, method: str) -> None:
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        self.unclear: list[str] = []
        self.conditional = method == "fullmatch"
        """Whether reaching the end of the expression may not be enough."""
        self.chars: list[Chars] = []
        self.ways: Counter[tuple[int, int]] = Counter()
        self.steps: dict[int, dict[int, Chars]] = {}
        self._left: dict[int, Chars] = {}
        tree = parser.parse(text, flags & ~re.DEBUG)
        whole = self._sequence(tree, tree.state.flags)
        self.starts = whole.first
        if method in SEARCHING:
            anywhere = self._position(frozenset(_CHARACTERS))
            self._connect((anywhere,), (anywhere, *whole.first))
            self.starts = (anywhere, *whole.first)
        self.ends = frozenset() if self.conditional else frozenset(whole.last)

    def _position(self, chars: Chars) -> int:
        self.chars.append(chars)
        self.steps[len(self.chars) - 1] = {}
        return len(self.chars) - 1

    def _connect(self, last: tuple[int, ...], first: tuple[int, ...]) -> None:
        for one in last:
            for other in first:
                allowed = self.chars[other] - self._left.get(one, frozenset())
                if not allowed:
                    continue
                self.ways[one, other] += 1
                self.steps[one][other] = self.steps[one].get(other, frozenset()) | allowed

    def _sequence(self, items: Any, flags: int) -> Part:
        return self._joined([self._item(op, value, flags) for op, value in items])

    def _joined(self, parts: list[Part]) -> Part:
        empty, first, last = True, (), ()  # type: tuple[bool, tuple[int, ...], tuple[int, ...]]
        for part in parts:
            self._connect(last, part.first)
            first = first + part.first if empty else first
            last = part.last + last if part.empty else part.last
            empty = empty and part.empty
        return Part(empty, first, last)

    def _item(self, op: Any, value: Any, flags: int) -> Part:
        if op in _ONE:
            at = (self._position(_chars(op, value, flags)),)
            return Part(False, at, at)
        if op is sre.BRANCH:
            parts = [self._sequence(each, flags) for each in value[1]]
            first = tuple(at for part in parts for at in part.first)
            last = tuple(at for part in parts for at in part.last)
            return Part(any(part.empty for part in parts), first, last)
        if op is sre.SUBPATTERN:
            return self._sequence(value[3], (flags | value[1]) & ~value[2])
        if op is sre.ATOMIC_GROUP:
            return self._sequence(value, flags)
        if op in _REPEATS:
            return self._repeat(op, *value, flags)
        self.conditional = True
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            if value[1].getwidth()[1] > _FIXED:
                self.unclear.append("looks far around")
        elif op is not sre.AT:
            self.unclear.append(str(op))
        return Part(True, (), ())

    def _repeat(self, op: Any, least: int, most: int, body: Any, flags: int) -> Part:
        if least == most and most <= _FIXED:
            return self._joined([self._sequence(body, flags) for _ in range(most)])
        copies = [self._sequence(body, flags) for _ in range(max(min(least, _FIXED), 1))]
        last = copies[-1]
        if most > max(least, 1) or least > _FIXED:
            self._connect(last.last, last.first)
        whole = self._joined(copies)
        if op is sre.POSSESSIVE_REPEAT and len(body) == 1 and body[0][0] in _ONE:
            for at in last.last:  # the loop is not left where it could go on
                self._left[at] = self.chars[at]
        return Part(whole.empty or not least, whole.first, whole.last)


def _chars(op: Any, value: Any, flags: int) -> Chars:
    def fits(char: str) -> bool:
        code = ord(char)
        if op is sre.LITERAL:
            return code == value
        if op is sre.NOT_LITERAL:
            return code != value
        if op is sre.ANY:
            return bool(flags & re.DOTALL) or char != "\n"
        found = any(_holds(kind, what, char, flags) for kind, what in value)
        return found != (value[0][0] is sre.NEGATE)

    chars = frozenset(filter(fits, _CHARACTERS))
    if flags & re.IGNORECASE:
        chars |= {c for c in _CHARACTERS if c.lower() in chars or c.upper() in chars}
    return chars


def _holds(kind: Any, what: Any, char: str, flags: int) -> bool:
    if kind is sre.LITERAL:
        return ord(char) == what
    if kind is sre.RANGE:
        return bool(what[0] <= ord(char) <= what[1])
    if kind is sre.CATEGORY:
        return re.match(_CATEGORIES[what], char, flags & re.ASCII) is not None
    return False


def witness(automaton: Automaton) -> Witness | None:
    """A text whose paths grow in number as it grows, or None if there is none."""
    loops = [at for at in automaton.steps if _returns(automaton, at)]
    begins = {at: begin for at, begin in _begins(automaton).items() if at in loops}
    for q, begin in begins.items():
        for p in loops:
            if p == q or p in automaton.ends:
                continue
            pump = _path(automaton, (q, q, p), (q, p, p))
            if pump:
                return Witness(begin, pump)
    for q, begin in begins.items():
        pump = _around_twice(automaton, q)
        if pump:
            return Witness(begin, pump)
    return None


def _returns(automaton: Automaton, at: int) -> bool:
    """Whether a position is in a loop."""
    seen: set[int] = set()
    waiting = [at]
    while waiting:
        for after, chars in automaton.steps[waiting.pop()].items():
            if after == at and chars:
                return True
            if chars and after not in seen:
                seen.add(after)
                waiting.append(after)
    return False


def _begins(automaton: Automaton) -> dict[int, str]:
    """A text that leads to each position."""
    found = {at: min(automaton.chars[at]) for at in automaton.starts if automaton.chars[at]}
    waiting = deque(found)
    while waiting:
        at = waiting.popleft()
        for after, chars in automaton.steps[at].items():
            if after not in found and chars:
                found[after] = found[at] + min(chars)
                waiting.append(after)
    return found


def _path(automaton: Automaton, begin: tuple[int, ...], end: tuple[int, ...]) -> str:
    """The shortest text that leads each of several positions on; "" if there is none.

    The last of them is on its way to fail, which it does not at the end of the expression.
    """
    steps = automaton.steps
    found = {begin: ""}
    waiting = deque([begin])
    while waiting:
        one, other, failing = at = waiting.popleft()
        for a, first in steps[one].items():
            for b, second in steps[other].items():
                both = first & second
                if not both:
                    continue
                for c, third in steps[failing].items():
                    all_three = both & third
                    after = (a, b, c)
                    if not all_three or c in automaton.ends:
                        continue
                    if after == end:
                        return found[at] + _shown(all_three)
                    if after not in found:
                        found[after] = found[at] + _shown(all_three)
                        waiting.append(after)
    return ""


def _around_twice(automaton: Automaton, q: int) -> str:
    """A text with two ways from a position to itself; "" if there is none."""
    found: dict[tuple[int, int, bool], str] = {(q, q, False): ""}
    waiting = deque(found)
    while waiting:
        one, other, apart = at = waiting.popleft()
        for a, first in automaton.steps[one].items():
            for b, second in automaton.steps[other].items():
                both = first & second
                if not both:
                    continue
                twice = one == other and a == b and automaton.ways[one, a] > 1
                after = (a, b, apart or a != b or twice)
                if after == (q, q, True):
                    return found[at] + _shown(both)
                if after not in found:
                    found[after] = found[at] + _shown(both)
                    waiting.append(after)
    return ""


def _shown(chars: Chars) -> str:
    return min(chars, key=lambda char: (not char.isalnum(), char))
