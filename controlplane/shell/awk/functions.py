"""Functions of awk whose arguments are values."""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from controlplane.api.times import SECOND
from controlplane.shell.awk.memory import Failure, Memory
from controlplane.shell.awk.values import Value, formatted, number

if TYPE_CHECKING:
    from controlplane.shell.awk.outside import Outside
    from controlplane.shell.shell import Shell

__all__ = ["LONGEST", "Functions"]

LONGEST: Final = 1 << 22
"""The limit, in characters, of one string."""


class Functions:
    """The functions of one run. `rand` gives the same numbers in each replay."""

    def __init__(self, shell: Shell, memory: Memory, outside: Outside) -> None:
        self._shell = shell
        self._memory = memory
        self._outside = outside
        self._seed = 0.0
        self._drawn = 0

    def call(self, name: str, values: list[Value]) -> Value:
        """Return the value of a function. Raises Failure."""
        least, most = _ARGUMENTS[name]
        if not least <= len(values) <= most:
            raise Failure(f"wrong number of arguments for {name}")
        if name in _MATHS:
            return _maths(name, [number(each) for each in values])
        return _FUNCTIONS[name](self, values)

    def _length(self, values: list[Value]) -> Value:
        return float(len(self._memory.as_text(values[0]) if values else self._memory.fields.record))

    def _index(self, values: list[Value]) -> Value:
        return float(self._memory.as_text(values[0]).find(self._memory.as_text(values[1])) + 1)

    def _substr(self, values: list[Value]) -> Value:
        subject = self._memory.as_text(values[0])
        first = number(values[1])
        end = first + number(values[2]) if len(values) > 2 else math.inf
        if math.isnan(first) or math.isnan(end):
            return ""
        begin = max(1, _rounded(first))
        last = len(subject) + 1 if math.isinf(end) else min(len(subject) + 1, _rounded(end))
        return subject[begin - 1 : max(begin, last) - 1] if end > 0 else ""

    def _lower(self, values: list[Value]) -> Value:
        return self._memory.as_text(values[0]).lower()

    def _upper(self, values: list[Value]) -> Value:
        return self._memory.as_text(values[0]).upper()

    def _sprintf(self, values: list[Value]) -> Value:
        found = formatted(self._memory.as_text(values[0]), values[1:])
        self._shell.spend(0, len(found))
        return found

    def _rand(self, _values: list[Value]) -> Value:
        self._drawn += 1
        digest = sha256(f"{self._seed}/{self._drawn}".encode()).digest()
        return int.from_bytes(digest[:4], "big") / (1 << 32)

    def _srand(self, values: list[Value]) -> Value:
        before = self._seed
        self._seed = number(values[0]) if values else float(self._shell.now // SECOND)
        self._drawn = 0
        return before

    def _system(self, values: list[Value]) -> Value:
        return float(self._outside.system(self._memory.as_text(values[0])))

    def _closed(self, values: list[Value]) -> Value:
        return float(self._outside.close_named(self._memory.as_text(values[0])))

    def _flush(self, _values: list[Value]) -> Value:
        return 0.0


def _rounded(value: float) -> int:
    if math.isinf(value):
        return LONGEST if value > 0 else -LONGEST
    return round(value)


def _maths(name: str, values: list[float]) -> float:
    try:
        found: float = _MATHS[name](*values)
    except ValueError:
        return math.nan if values[0] != 0 else -math.inf
    except OverflowError:
        return math.inf
    return found


_MATHS: Final[dict[str, Callable[..., float]]] = {
    "atan2": math.atan2,
    "cos": math.cos,
    "exp": math.exp,
    "int": lambda value: float(math.trunc(value)) if math.isfinite(value) else value,
    "log": math.log,
    "sin": math.sin,
    "sqrt": math.sqrt,
}
_ARGUMENTS: Final = {
    **dict.fromkeys(_MATHS, (1, 1)),
    "atan2": (2, 2),
    "close": (1, 1),
    "fflush": (0, 1),
    "index": (2, 2),
    "length": (0, 1),
    "rand": (0, 0),
    "sprintf": (1, 4096),
    "srand": (0, 1),
    "substr": (2, 3),
    "system": (1, 1),
    "tolower": (1, 1),
    "toupper": (1, 1),
}
"""The least and the largest number of arguments."""
_FUNCTIONS: Final[dict[str, Callable[[Functions, list[Value]], Value]]] = {
    "close": Functions._closed,
    "fflush": Functions._flush,
    "index": Functions._index,
    "length": Functions._length,
    "rand": Functions._rand,
    "sprintf": Functions._sprintf,
    "srand": Functions._srand,
    "substr": Functions._substr,
    "system": Functions._system,
    "tolower": Functions._lower,
    "toupper": Functions._upper,
}
