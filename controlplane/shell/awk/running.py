"""The run of a program of awk in the emulated shell: its command line, its rules, and its statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controlplane.shell.awk.expressions import Expressions, Leave
from controlplane.shell.awk.memory import Failure
from controlplane.shell.awk.outside import Outside
from controlplane.shell.awk.records import TooMuch
from controlplane.shell.awk.syntax import Node, Program, SyntaxFailure, parsed, unescaped
from controlplane.shell.awk.values import UNSET, formatted, given, number, text, true

if TYPE_CHECKING:
    from controlplane.shell.shell import Shell
    from controlplane.shell.streams import Streams

__all__ = ["awk"]

_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def awk(shell: Shell, words: list[str], streams: Streams) -> int:
    """`awk [-F SEPARATOR] [-v NAME=VALUE]... [-f FILE | PROGRAM] [FILE | NAME=VALUE]...`."""
    sources: list[str] = []
    assigned: list[tuple[str, str]] = []
    rest = list(words[1:])
    try:
        while rest and rest[0].startswith("-") and len(rest[0]) > 1:
            option = rest.pop(0)
            if option == "--":
                break
            letter, value = option[1], option[2:]
            if letter not in "Fvf":
                raise Failure(f"invalid option -- '{letter}'")
            if not value and not rest:
                raise Failure(f"option requires an argument -- '{letter}'")
            value = value or rest.pop(0)
            if letter == "F":
                assigned.append(("FS", value))
            elif letter == "v":
                name, _, content = value.partition("=")
                assigned.append((name, content))
            else:
                sources.append(_source(shell, value))
        if not sources and not rest:
            raise Failure("usage: awk [-F SEPARATOR] [-v NAME=VALUE] PROGRAM [FILE...]")
        source = "\n".join(sources) if sources else rest.pop(0)
        shell.spend(1 + 2 * len(source))
        run = Run(shell, parsed(source), streams, [words[0], *rest])
        for name, content in assigned:
            run.assign(name, content)
        return run.run()
    except (Failure, SyntaxFailure, TooMuch) as error:
        streams.err.write(f"awk: {error}\n".encode())
        return 1


def _source(shell: Shell, name: str) -> str:
    data = shell.read(shell.path(name))
    if data is None:
        raise Failure(f"can't open '{name}': No such file or directory")
    return data.decode("utf-8", "replace")


class Run:
    """One run of a program. `words` are ARGV."""

    def __init__(
        self, shell: Shell, program: Program, streams: Streams, words: Sequence[str]
    ) -> None:
        self._shell = shell
        self._program = program
        self._outside = Outside(shell, streams)
        self._of = Expressions(shell, program, self._outside, words, self._execute)
        self._memory = self._of.memory
        self._of.records = self._records()
        self._ranges: dict[int, bool] = {}
        self._code = 0

    def assign(self, name: str, content: str) -> None:
        """Set a variable from the command line."""
        self._memory.assign(name, given(unescaped(content)))

    # ------------------------------------------------------------------ running

    def run(self) -> int:
        """Run the program; return its exit code. Raises Failure and Exhausted."""
        rules = self._program.rules
        try:
            self._all_of("BEGIN")
            if any(each.kind != "BEGIN" for each in rules):
                for record in self._of.records:
                    self._memory.fields.set_record(record)
                    self._each_rule()
        except Leave as leaving:
            self._check_exit(leaving)
        try:
            self._all_of("END")
        except Leave as leaving:
            self._check_exit(leaving)
        self._outside.close_all()
        return self._code

    def _check_exit(self, leaving: Leave) -> None:
        if leaving.word != "exit":
            raise Failure(f"'{leaving.word}' outside of a rule, loop or function")

    def _all_of(self, kind: str) -> None:
        for rule in self._program.rules:
            if rule.kind == kind and rule.body is not None:
                self._execute(rule.body)

    def _each_rule(self) -> None:
        for number_of, rule in enumerate(self._program.rules):
            if rule.kind:
                continue
            try:
                if not self._applies(number_of, rule.pattern, rule.until):
                    continue
                if rule.body is None:
                    self._emit("", None, self._memory.fields.record + self._memory.text_of("ORS"))
                else:
                    self._execute(rule.body)
            except Leave as leaving:
                if leaving.word != "next":
                    raise
                return

    def _applies(self, rule: int, pattern: Node | None, until: Node | None) -> bool:
        if pattern is None:
            return True
        if until is None:
            return true(self._of.value(pattern))
        if not self._ranges.get(rule) and not true(self._of.value(pattern)):
            return False
        self._ranges[rule] = not true(self._of.value(until))
        return True

    def _records(self) -> Iterator[str]:
        """The records of the operands, which may assign variables, or of the input."""
        some, at = False, 1
        while at < number(self._memory.globals["ARGC"]):
            word = text(self._memory.globals["ARGV"].get(str(at), ""))
            at += 1
            assigned = _ASSIGNED.fullmatch(word)
            if assigned:
                self.assign(assigned[1], assigned[2])
            elif word:
                some = True
                yield from self._file(word)
        if not some:
            yield from self._file("-")

    def _file(self, name: str) -> Iterator[str]:
        self._memory.globals["FILENAME"] = "" if name == "-" else name
        self._memory.globals["FNR"] = 0.0
        reader = self._outside.opened("<", name)
        if reader is None:
            raise Failure(f"{name}: No such file or directory")
        while (record := reader.next(self._memory.text_of("RS"), self._of.search)) is not None:
            for counter in ("NR", "FNR"):
                self._memory.globals[counter] = number(self._memory.globals[counter]) + 1
            yield record

    def _execute(self, node: Node) -> None:
        self._shell.spend(1)
        _STATEMENTS[node[0]](self, node)

    # ------------------------------------------------------------------ statements

    def _block(self, node: Node) -> None:
        for each in node[1]:
            self._execute(each)

    def _if(self, node: Node) -> None:
        _, test, yes, no = node
        if true(self._of.value(test)):
            self._execute(yes)
        elif no is not None:
            self._execute(no)

    def _turn(self, body: Node) -> bool:
        """Run the body of a loop once; return whether it goes on."""
        try:
            self._execute(body)
        except Leave as leaving:
            if leaving.word not in ("break", "continue"):
                raise
            return leaving.word == "continue"
        return True

    def _for(self, node: Node) -> None:
        _, first, test, step, body = node
        if first is not None:
            self._execute(first)
        while (test is None or true(self._of.value(test))) and self._turn(body):
            if step is not None:
                self._execute(step)

    def _do(self, node: Node) -> None:
        while self._turn(node[1]) and true(self._of.value(node[2])):
            pass

    def _for_in(self, node: Node) -> None:
        _, name, array, body = node
        for key in list(self._memory.array(array)):
            self._memory.assign(name, given(key))
            if not self._turn(body):
                break

    def _print(self, node: Node) -> None:
        _, parts, mode, target = node
        values = [self._of.value(each) for each in parts]
        form = self._memory.globals["OFMT"]
        shown = self._memory.text_of("OFS").join(
            each if isinstance(each, str) else text(each, form) for each in values
        )
        self._emit(
            mode,
            target,
            (shown if parts else self._memory.fields.record) + self._memory.text_of("ORS"),
        )

    def _printf(self, node: Node) -> None:
        _, parts, mode, target = node
        if not parts:
            raise Failure("printf: no format")
        form, *values = [self._of.value(each) for each in parts]
        self._emit(mode, target, formatted(self._memory.as_text(form), values))

    def _emit(self, mode: str, target: Node | None, shown: str) -> None:
        if target is None:
            self._outside.print(shown)
        else:
            self._outside.print_to(mode, self._of.text(target), shown)

    def _delete(self, node: Node) -> None:
        _, name, subscripts = node
        array = self._memory.array(name)
        if subscripts is None:
            array.clear()
        else:
            array.pop(self._of.key(subscripts), None)

    def _leave(self, node: Node) -> None:
        raise Leave(node[0])

    def _exit(self, node: Node) -> None:
        if node[1] is not None:
            self._code = int(self._of.number(node[1])) & 255
        raise Leave("exit")

    def _return(self, node: Node) -> None:
        raise Leave("return", UNSET if node[1] is None else self._of.value(node[1]))

    def _evaluate(self, node: Node) -> None:
        self._of.value(node[1])


_STATEMENTS: Final[dict[str, Callable[[Run, Node], None]]] = {
    "block": Run._block,
    "break": Run._leave,
    "continue": Run._leave,
    "delete": Run._delete,
    "do": Run._do,
    "evaluate": Run._evaluate,
    "exit": Run._exit,
    "for": Run._for,
    "for-in": Run._for_in,
    "if": Run._if,
    "next": Run._leave,
    "print": Run._print,
    "printf": Run._printf,
    "return": Run._return,
}
