"""Expressions of awk, and the functions that take variables, arrays or regular expressions.

Regular expressions are POSIX' extended ones and are searched in linear time. Each expression counts as a step of the
shell's work.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from controlplane.shell.awk.functions import LONGEST, Functions
from controlplane.shell.awk.memory import Failure, Frame, Lent, Memory
from controlplane.shell.awk.outside import Outside
from controlplane.shell.awk.records import pieces
from controlplane.shell.awk.syntax import Node, Program
from controlplane.shell.awk.values import UNSET, Value, compared, given, number, true
from controlplane.shell.streams import Exhausted

if TYPE_CHECKING:
    from controlplane.shell.shell import Shell

__all__ = ["Expressions", "Leave"]

DEEPEST: Final = 40
"""The maximum depth of calls of functions."""
_STEPS: Final = 64
"""Characters that a regular expression is searched in with one step."""


class Leave(Exception):
    """`next`, `exit`, `break`, `continue`, or `return` with its value."""

    def __init__(self, word: str, value: Value = UNSET) -> None:
        super().__init__(word)
        self.word = word
        self.value = value


@lru_cache(maxsize=256)
def compiled(source: str) -> Any:
    """An extended regular expression of POSIX, of which the longest match counts. Raises Failure."""
    import re2

    options = re2.Options()
    options.posix_syntax = options.longest_match = options.one_line = options.dot_nl = True
    options.perl_classes = options.word_boundary = True
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(source, options)
    except re2.error as error:
        raise Failure(f"bad regex '{source}': {error}") from None


class Expressions:
    """The expressions of one run. `run` executes the body of a function; `records` are those of the input."""

    def __init__(
        self,
        shell: Shell,
        program: Program,
        outside: Outside,
        words: Sequence[str],
        run: Callable[[Node], None],
    ) -> None:
        self._shell = shell
        self._program = program
        self._outside = outside
        self._run = run
        self.memory = self._memory = Memory(words, shell.env, self.split)
        self.records: Iterator[str] = iter(())
        self._functions = Functions(shell, self._memory, outside)
        self._depth = 0

    def value(self, node: Node) -> Value:
        """Return the value of an expression. Raises Failure."""
        self._shell.spend(1)
        return _EXPRESSIONS[node[0]](self, node)

    def text(self, node: Node) -> str:
        """Return an expression as a string."""
        return self._memory.as_text(self.value(node))

    def number(self, node: Node) -> float:
        """Return an expression as a number."""
        return number(self.value(node))

    def key(self, subscripts: Sequence[Node]) -> str:
        """Return the key of an element of an array."""
        return self._memory.text_of("SUBSEP").join(self.text(each) for each in subscripts)

    def _set(self, target: Node, value: Value) -> None:
        if isinstance(value, str) and len(value) > LONGEST:
            raise Exhausted("string too long")
        if target[0] == "name":
            self._memory.assign(target[1], value)
        elif target[0] == "element":
            key = self.key(target[2])
            self._memory.array(target[1])[key] = value
        else:
            at, separator = int(self.number(target[1])), self._memory.text_of("OFS")
            self._memory.fields.set(at, self._memory.as_text(value), separator)

    def _regex(self, node: Node) -> Value:
        return float(self.search(node[1], self._memory.fields.record) is not None)

    def _variable(self, node: Node) -> Value:
        return self._memory.get(node[1])

    def _field(self, node: Node) -> Value:
        at = int(self.number(node[1]))
        return given(self._memory.fields.get(at)) if self._memory.fields.has(at) else UNSET

    def _element(self, node: Node) -> Value:
        key = self.key(node[2])
        return self._memory.array(node[1]).setdefault(key, UNSET)

    def _in(self, node: Node) -> Value:
        return float(self.key(node[1]) in self._memory.array(node[2]))

    def _assign(self, node: Node) -> Value:
        _, operator, target, right = node
        value = self.value(right)
        if operator:
            value = _applied(operator, self.number(target), number(value))
        self._set(target, value)
        return value

    def _step(self, node: Node) -> Value:
        _, operator, first, target = node
        before = self.number(target)
        after = before + (1 if operator == "++" else -1)
        self._set(target, after)
        return after if first else before

    def _choice(self, node: Node) -> Value:
        return self.value(node[2] if true(self.value(node[1])) else node[3])

    def _and(self, node: Node) -> Value:
        return float(true(self.value(node[1])) and true(self.value(node[2])))

    def _or(self, node: Node) -> Value:
        return float(true(self.value(node[1])) or true(self.value(node[2])))

    def _unary(self, node: Node) -> Value:
        if node[1] == "!":
            return float(not true(self.value(node[2])))
        value = self.number(node[2])
        return -value if node[1] == "-" else value

    def _arithmetic(self, node: Node) -> Value:
        return _applied(node[1], self.number(node[2]), self.number(node[3]))

    def _concat(self, node: Node) -> Value:
        left = self.text(node[1])
        found = left + self.text(node[2])
        if len(found) > LONGEST:
            raise Exhausted("string too long")
        self._shell.spend(0, len(found))
        return found

    def _compare(self, node: Node) -> Value:
        form = self._memory.globals["CONVFMT"]
        return float(_HOLDS[node[1]](compared(self.value(node[2]), self.value(node[3]), form)))

    def _match(self, node: Node) -> Value:
        _, wanted, left, pattern = node
        subject = self.text(left)
        return float((self.search(self._pattern(pattern), subject) is not None) == wanted)

    def _pattern(self, node: Node) -> str:
        return str(node[1]) if node[0] == "regex" else self.text(node)

    def search(self, source: str, subject: str, at: int = 0) -> Any:
        """Return the first match of a regular expression; None where there is none."""
        self._shell.spend(1 + len(source) // _STEPS + len(subject) // _STEPS)
        return compiled(source).search(subject, at)

    def split(self, record: str) -> list[str]:
        """Return the fields of a record."""
        self._shell.spend(1, 16 * len(record))
        return pieces(
            record,
            self._memory.text_of("FS"),
            self.search,
            paragraph=not self._memory.text_of("RS"),
        )

    def _call(self, node: Node) -> Value:
        _, name, arguments = node
        if name not in self._program.functions:
            raise Failure(f"call of undefined function {name}")
        parameters, body = self._program.functions[name]
        if len(arguments) > len(parameters):
            raise Failure(f"too many arguments for function {name}")
        frame: Frame = dict.fromkeys(parameters, UNSET)
        for parameter, argument in zip(parameters, arguments, strict=False):
            frame[parameter] = (
                self._memory.argument(argument) if argument[0] == "name" else self.value(argument)
            )
        if self._depth >= DEEPEST:
            raise Failure(f"function {name} nested too deeply")
        kept, self._memory.locals = self._memory.locals, frame
        self._depth += 1
        try:
            self._run(body)
        except Leave as leaving:
            if leaving.word != "return":
                raise
            return leaving.value
        finally:
            self._memory.locals = kept
            self._depth -= 1
        return UNSET

    def _getline(self, node: Node) -> Value:
        _, mode, source, target = node
        if not mode:
            record = next(self.records, None)
        else:
            reader = self._outside.reader(mode, self.text(source))
            if reader is None:
                return -1.0
            record = reader.next(self._memory.text_of("RS"), self.search)
            if record is not None and mode == "|":
                self._memory.globals["NR"] = number(self._memory.globals["NR"]) + 1
        if record is None:
            return 0.0
        if target is None:
            self._memory.fields.set_record(record)
        else:
            self._set(target, given(record))
        return 1.0

    def _builtin(self, node: Node) -> Value:
        _, name, arguments = node
        if name in ("sub", "gsub"):
            return self._substituted(name, arguments)
        if name == "split":
            return self._split_into(arguments)
        if name == "match":
            return self._matched(arguments)
        if name == "length" and arguments and arguments[0][0] == "name":
            found = self._memory.frame(arguments[0][1]).get(arguments[0][1])
            if isinstance(found, dict | Lent):
                return float(len(self._memory.array(arguments[0][1])))
        return self._functions.call(name, [self.value(each) for each in arguments])

    def _matched(self, arguments: Sequence[Node]) -> Value:
        if len(arguments) != 2:
            raise Failure("wrong number of arguments for match")
        subject = self.text(arguments[0])
        found = self.search(self._pattern(arguments[1]), subject)
        start, end = (-1, -1) if found is None else found.span()
        self._memory.globals["RSTART"] = float(start + 1)
        self._memory.globals["RLENGTH"] = float(-1 if found is None else end - start)
        return float(start + 1)

    def _split_into(self, arguments: Sequence[Node]) -> Value:
        if len(arguments) not in (2, 3) or arguments[1][0] != "name":
            raise Failure("split: an array is expected")
        subject = self.text(arguments[0])
        separator = self._memory.text_of("FS")
        literal = len(arguments) == 3 and arguments[2][0] == "regex"
        if len(arguments) == 3:
            separator = self._pattern(arguments[2])
        self._shell.spend(1, 16 * len(subject))
        found = pieces(subject, separator, self.search, literal=literal)
        array = self._memory.array(arguments[1][1])
        array.clear()
        array.update((str(at), given(each)) for at, each in enumerate(found, 1))
        return float(len(found))

    def _substituted(self, name: str, arguments: Sequence[Node]) -> Value:
        if len(arguments) not in (2, 3):
            raise Failure(f"wrong number of arguments for {name}")
        target: Node = arguments[2] if len(arguments) == 3 else ("field", ("number", 0.0))
        pattern, by = self._pattern(arguments[0]), self.text(arguments[1])
        subject = self.text(target)
        parts: list[str] = []
        count, at, last = 0, 0, -1
        while at <= len(subject) and (not count or name == "gsub"):
            found = self.search(pattern, subject, at)
            if found is None:
                break
            start, end = found.span()
            parts.append(subject[at:start])
            if start != end or start != last:  # an empty match behind another one does not count
                count += 1
                parts.append(_replacement(by, subject[start:end]))
            at = last = end
            if start == end:  # go on behind the next character, which stays
                parts.append(subject[at : at + 1])
                at += 1
        if count:
            parts.append(subject[at:])
            if target[0] in ("name", "field", "element"):
                self._set(target, "".join(parts))
        return float(count)


def _no_value() -> NoReturn:
    raise Failure("a list of values in parentheses has no value")


def _replacement(by: str, matched: str) -> str:
    r"""The text that stands for a match: `&` is the match, `\&` an ampersand."""
    if "&" not in by and "\\" not in by:
        return by
    return re.sub(r"\\([\\&])|&", lambda each: each[1] or matched, by)


def _applied(operator: str, left: float, right: float) -> float:
    try:
        if operator == "+":
            return left + right
        if operator == "-":
            return left - right
        if operator == "*":
            return left * right
        if operator == "/":
            return left / right
        if operator == "%":
            return math.fmod(left, right)
        return math.pow(left, right)
    except ZeroDivisionError:
        raise Failure("Division by zero") from None
    except ValueError:
        if operator == "%" and right == 0:
            raise Failure("Division by zero") from None
        return math.nan
    except OverflowError:
        return math.inf


_HOLDS: Final[dict[str, Callable[[int], bool]]] = {
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    "==": lambda sign: sign == 0,
    "!=": lambda sign: sign != 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}
_EXPRESSIONS: Final[dict[str, Callable[[Expressions, Node], Value]]] = {
    "and": Expressions._and,
    "arithmetic": Expressions._arithmetic,
    "assign": Expressions._assign,
    "builtin": Expressions._builtin,
    "call": Expressions._call,
    "choice": Expressions._choice,
    "compare": Expressions._compare,
    "concat": Expressions._concat,
    "element": Expressions._element,
    "field": Expressions._field,
    "getline": Expressions._getline,
    "group": lambda _of, _node: _no_value(),
    "grouped": lambda of, node: of.value(node[1]),
    "in": Expressions._in,
    "match": Expressions._match,
    "name": Expressions._variable,
    "number": lambda _of, node: node[1],
    "or": Expressions._or,
    "regex": Expressions._regex,
    "step": Expressions._step,
    "string": lambda _of, node: node[1],
    "unary": Expressions._unary,
}
