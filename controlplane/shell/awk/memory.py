"""Variables and arrays of a program of awk: the global ones, those of the function that runs, and the fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from controlplane.shell.awk.records import Fields
from controlplane.shell.awk.syntax import Node
from controlplane.shell.awk.values import UNSET, Value, given, number, text

__all__ = ["Failure", "Frame", "Lent", "Memory"]

Frame = dict[str, Any]
"""Variables and arrays by name."""
_BEGUN: Final = {
    "CONVFMT": "%.6g",
    "FILENAME": "",
    "FNR": 0.0,
    "FS": " ",
    "NR": 0.0,
    "OFMT": "%.6g",
    "OFS": " ",
    "ORS": "\n",
    "RLENGTH": -1.0,
    "RS": "\n",
    "RSTART": 0.0,
    "SUBSEP": "\x1c",
}


class Failure(Exception):
    """An error that ends the program."""


class Lent:
    """A variable that was not set when it was passed to a function: the function may use it as an array."""

    def __init__(self, frame: Frame, name: str) -> None:
        self.frame = frame
        self.name = name


class Memory:
    """The variables of one run. `words` are ARGV, `env` is ENVIRON; `split` makes the fields of a record."""

    def __init__(
        self, words: Sequence[str], env: Mapping[str, str], split: Callable[[str], list[str]]
    ) -> None:
        self.globals: Frame = {
            **_BEGUN,
            "ARGC": float(len(words)),
            "ARGV": {str(at): given(word) for at, word in enumerate(words)},
            "ENVIRON": {name: given(value) for name, value in env.items()},
        }
        self.locals: Frame = {}
        self.fields = Fields(split)

    def as_text(self, value: Value) -> str:
        """Return a value as a string, numbers by CONVFMT."""
        return value if isinstance(value, str) else text(value, self.globals["CONVFMT"])

    def frame(self, name: str) -> Frame:
        """Return the variables among which a name is: those of the function, or the global ones."""
        return self.locals if name in self.locals else self.globals

    def get(self, name: str) -> Value:
        """Return the value of a variable. Raises Failure for an array."""
        if name == "NF":
            return float(self.fields.count)
        found = self.frame(name).get(name, UNSET)
        if isinstance(found, dict):
            raise Failure(f"array {name} used as a scalar")
        return UNSET if isinstance(found, Lent) else found

    def text_of(self, name: str) -> str:
        """Return a global variable as a string."""
        return self.as_text(self.globals[name])

    def assign(self, name: str, value: Value) -> None:
        """Set a variable."""
        if name == "NF":
            self.fields.set_count(int(number(value)), self.text_of("OFS"))
            return
        frame = self.frame(name)
        if isinstance(frame.get(name), dict):
            raise Failure(f"array {name} used as a scalar")
        frame[name] = self.as_text(value) if name in ("CONVFMT", "OFMT") else value

    def array(self, name: str) -> dict[str, Value]:
        """Return an array; a variable that was never set becomes one. Raises Failure for a scalar."""
        frame = self.frame(name)
        found: Any = frame.get(name, UNSET)
        if isinstance(found, Lent):
            kept, self.locals = self.locals, found.frame
            try:
                found = frame[name] = self.array(found.name)
            finally:
                self.locals = kept
        elif found is UNSET:
            found = frame[name] = {}
        if not isinstance(found, dict):
            raise Failure(f"scalar {name} used as an array")
        return found

    def argument(self, node: Node) -> Any:
        """Return the argument of a function that a variable is: arrays are passed themselves."""
        name = node[1]
        found = self.frame(name).get(name, UNSET)
        return Lent(self.locals, name) if found is UNSET and name != "NF" else found
