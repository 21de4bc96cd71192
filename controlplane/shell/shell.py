"""The emulated shell of a container: enough to look around, to run small jobs, to script a probe, and for `kubectl cp`.

Nothing here waits: a program gets its whole input at once and gives its whole output; the time that `sleep` takes is
added up. So that no other client waits either, the work for one message of a client is counted in steps and bounded.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Final

from attrs import define, field

from controlplane.api.container_inside import Inside
from controlplane.shell import syntax
from controlplane.shell.files import Files, NoSpace, ReadOnly
from controlplane.shell.limits import WORDS, check_script, check_words
from controlplane.shell.streams import (
    Buffer,
    Exhausted,
    Exit,
    Input,
    Jump,
    Nothing,
    OutOfWork,
    Ran,
    Return,
    Sink,
    Streams,
    ToFile,
)
from controlplane.shell.syntax import (
    AndOr,
    Case,
    For,
    Function,
    Group,
    If,
    Incomplete,
    Loop,
    Node,
    Pipeline,
    Redirect,
    ShellSyntaxError,
    Simple,
)
from controlplane.shell.syntax import Sequence as Commands
from controlplane.shell.words import Expander, ExpansionFailure, file_names, matches

__all__ = ["COMMAND", "SHELLS", "WORK_LIMIT", "Shell"]

SHELLS: Final = ("sh", "bash", "ash", "dash", "/bin/sh", "/bin/bash", "/bin/ash", "/usr/bin/bash")
ENV_LIMIT: Final = 4 << 20
"""The limit, in bytes, of all variables that a session sets."""
WORK_LIMIT: Final = 300_000
"""Steps of work, of about a microsecond each, for one message of a client."""
COMMAND: Final = 10
"""Steps of running one command."""
_PAGE: Final = 10
"""The number of bytes (as a power of two) whose copying is one step."""
_DEEPEST: Final = 8
"""The maximum depth of shells, functions and substitutions within each other."""
FOLDERS: Final = ("/", "/tmp", "/root", "/var", "/etc", "/bin")  # noqa: S108


@define(slots=False)
class Shell:
    """Runs programs in one container.

    `as_program`: what runs is the container's own program, which may wait for ever. `processes` are the command lines
    of the processes besides the shell's own. `programs` are those that it has besides shells, by name:
    `programs.shell_of` makes a shell with all of them.
    """

    inside: Inside
    files: Files = None  # type: ignore[assignment]  # by default new disks
    as_program: bool = False
    directory: str = ""
    env: dict[str, str] = field(factory=dict)
    code: int = 0
    left: bool = False
    """`exit` was said in the script that runs."""
    slept_ns: int = 0
    """Time that the programs so far took by sleeping."""
    processes: list[str] = field(factory=list)
    work_limit: int = WORK_LIMIT
    programs: Mapping[str, Callable[[Shell, list[str], Streams], int]] = field(factory=dict)
    _functions: dict[str, Node] = field(factory=dict)
    _given: list[str] = field(factory=list)
    _name: str = "sh"
    _typed: str = ""
    _errexit: bool = False
    _unchecked: int = 0
    _background_until: int = 0
    _draws: int = 0
    _depth: int = 0
    _set: int = 0
    _work: int = 0

    def __attrs_post_init__(self) -> None:
        if self.files is None:
            self.files = Files(self.inside)
        self.directory = self.inside.directory
        self.env = dict(self.inside.env)
        self._work = self.work_limit
        self._expander = Expander(self, check_words)

    # ------------------------------------------------------------------ work

    def rested(self) -> None:
        """Another message has come: there may be as much work for it as for the one before."""
        self._work = self.work_limit

    def spend(self, steps: int, size: int = 0) -> None:
        """Count steps of work, and bytes that are copied. Raises OutOfWork, which ends the script, when too many."""
        self._work -= steps + (size >> _PAGE)
        if self._work < 0:
            self.left = True
            raise OutOfWork(f"more than {self.work_limit} steps of work in an emulated container")

    def sleep(self, ns: int) -> None:
        """Let time pass."""
        self.slept_ns += ns

    @property
    def now(self) -> int:
        """Nanoseconds since 1970."""
        return self.inside.now + self.slept_ns

    # ------------------------------------------------------------------ variables

    def set_variable(self, key: str, value: str) -> None:
        """Set a variable. Raises Exhausted when the variables become too many."""
        self._set += len(key) + len(value) - len(self.env.get(key, ""))
        if self._set > ENV_LIMIT:
            raise Exhausted("Argument list too long")
        self.env[key] = value

    assign = set_variable

    def value(self, name: str) -> str | None:
        """Return the value of a parameter; None where it is not set."""
        if name == "?":
            return str(self.code)
        if name == "$":
            return str(len(self.processes))
        if name == "#":
            return str(len(self._given))
        if name in ("@", "*"):
            return " ".join(self._given)
        if name == "RANDOM":
            return str(self._drawn())
        if name == "PWD":
            return self.directory
        if name == "0":
            return self._name
        if name.isdecimal():
            at = int(name)
            return self._given[at - 1] if at <= len(self._given) else None
        return "" if name in ("!", "-") else self.env.get(name)

    def _drawn(self) -> int:
        """A number below 32768 that each replay finds again."""
        self._draws += 1
        text = f"{self.inside.layer or self.inside.key}/{self._draws}"
        return int.from_bytes(sha256(text.encode()).digest()[:2], "big") >> 1

    def arguments(self) -> list[str]:
        """Return the positional parameters."""
        return self._given

    def shift(self, count: int) -> bool:
        """Drop positional parameters; return whether there were so many."""
        if count > len(self._given):
            return False
        self._given = self._given[count:]
        return True

    def set_arguments(self, words: Sequence[str]) -> None:
        """Set the positional parameters."""
        self._given = list(words)

    def set_flag(self, letter: str, *, on: bool) -> None:
        """Set an option of the shell; only `e` has an effect."""
        if letter == "e":
            self._errexit = on

    # ------------------------------------------------------------------ files

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        return b"" if path == "/dev/null" else self.files.read(path)

    def all_files(self) -> dict[str, bytes]:
        """Return all files as they are now."""
        self.spend(self.files.count)
        return self.files.all()

    def entries(self) -> dict[str, bytes]:
        """Return all files and empty directories as they are now; the paths of directories end with a slash."""
        self.spend(self.files.count)
        return self.files.entries()

    def path(self, name: str) -> str:
        """Return a name as an absolute path."""
        return re.sub("^//", "/", posixpath.normpath(posixpath.join(self.directory, name)))

    def is_folder(self, path: str) -> bool:
        """Return whether a directory exists: that of a file, or one of the few that every container has."""
        if path not in FOLDERS:
            self.spend(1 + self.files.count)
        return self.files.is_folder(path, FOLDERS)

    def keep(self, path: str, data: bytes) -> None:
        """Write a file. Raises Exhausted when there is no room for it, or it is in a volume that is only read."""
        if path != "/dev/null":
            self._change(path, lambda: self.files.keep(path, data))

    def remove(self, path: str) -> None:
        """Remove a file. Raises Exhausted."""
        self._change(path, lambda: self.files.remove(path))

    def make_folder(self, path: str) -> None:
        """Make a directory. Raises Exhausted."""
        self._change(path, lambda: self.files.make_folder(path))

    def _change(self, path: str, change: Callable[[], None]) -> None:
        try:
            change()
        except ReadOnly:
            raise Exhausted(f"{path}: Read-only file system") from None
        except NoSpace:
            raise Exhausted(f"{path}: No space left on device") from None

    def names(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern, sorted; at most as many as a command takes."""
        entries = self.files.entries()
        self.spend(4 * len(entries) + 1)
        return file_names(entries, self.path(pattern), pattern)[:WORDS]

    # ------------------------------------------------------------------ running

    def run(self, words: Sequence[str], given: bytes = b"") -> Ran | None:
        """Run a program to its end; None if no program has that name."""
        if not words or not self.has(words[0]):
            return None
        out, err = Buffer(), Buffer()
        code = self.run_into(list(words), Streams(Input(given), out, err))
        return Ran(bytes(out.data), bytes(err.data), code)

    def has(self, name: str) -> bool:
        """Return whether a program, shell or function has that name."""
        return (
            name in SHELLS or name in self._functions or posixpath.basename(name) in self.programs
        )

    def run_to_end(self, words: list[str], streams: Streams) -> int:
        """Run a program as that of a container; return its exit code. Raises InputWanted, Forever and Exhausted."""
        return self._ended(lambda: self._program(words, streams))

    def run_into(self, words: list[str], streams: Streams) -> int:
        """Run a program to its end as the whole of a session; return its exit code."""
        name = posixpath.basename(words[0])
        try:
            return self._ended(lambda: self._program(words, streams))
        except OutOfWork as error:
            streams.err.write(f"{'sh' if words[0] in SHELLS else name}: {error}\n".encode())
        except Exhausted as error:
            streams.err.write(f"{name}: {error}\n".encode())
        return 1

    def script(self, text: str, given: bytes = b"") -> Ran:
        """Run the lines of a script."""
        out, err = Buffer(), Buffer()
        self.code = 0
        streams = Streams(Input(given), out, err)
        try:
            check_script(len(text))
            self._ended(lambda: self._commands_of(text, streams))
        except Exhausted as error:
            err.write(f"sh: {error}\n".encode())
            self.code = 1
        self.left = False
        return Ran(bytes(out.data), bytes(err.data), self.code)

    def line(self, text: str, given: bytes = b"") -> Ran:
        """Run one line of a session; a command that is not complete waits for the next lines."""
        out, err = Buffer(), Buffer()
        text = self._typed + text
        self._typed = ""
        try:
            check_script(len(text))
            streams = Streams(Input(given), out, err)
            self._ended(lambda: self._commands_of(text, streams, more=True))
        except Incomplete:
            self._typed = f"{text}\n"
        except Exhausted as error:
            err.write(f"sh: {error}\n".encode())
            self.code, self.left = 1, True
        return Ran(bytes(out.data), bytes(err.data), self.code)

    def interrupt(self) -> None:
        """Drop a command that is not complete."""
        self._typed = ""
        self.code = 130

    @property
    def continues(self) -> bool:
        """Return whether a command is not complete."""
        return bool(self._typed)

    def _ended(self, run: Callable[[], int]) -> int:
        """Run to the end, or to `exit`."""
        try:
            self.code = run()
        except (Exit, Return) as leaving:
            self.left = isinstance(leaving, Exit)
            self.code = int(leaving.args[0])
        except Jump:
            self.code = 0
        return self.code

    def _commands_of(self, text: str, streams: Streams, *, more: bool = False) -> int:
        """Run the commands of a script. With `more`, Incomplete is raised where lines are missing."""
        self.spend(1 + 2 * len(text))
        code = 0
        found = iter([*syntax.commands(text)]) if more else syntax.commands(text)
        while True:
            try:
                node = next(found, None)
            except (ShellSyntaxError, RecursionError) as error:
                if more and isinstance(error, Incomplete):
                    raise
                streams.err.write(f"sh: syntax error: {error}\n".encode())
                self.code = 2
                return 2
            if node is None:
                return code
            code = self.code = self.execute(node, streams)

    # ------------------------------------------------------------------ commands

    def execute(self, node: Node, streams: Streams) -> int:
        """Run a command; return its exit code, which `$?` is from then on."""
        self.spend(1)
        self.code = _EXECUTE[type(node)](self, node, streams)
        return self.code

    def _sequence(self, node: Commands, streams: Streams) -> int:
        code = 0
        for each, background in node.items:
            began = self.slept_ns
            code = self.execute(each, streams)
            if background:
                self._background_until = max(self._background_until, self.slept_ns)
                self.slept_ns, code = began, 0
        return code

    def wait(self) -> None:
        """Let time pass until the commands in the background have ended."""
        self.slept_ns = max(self.slept_ns, self._background_until)

    def _and_or(self, node: AndOr, streams: Streams) -> int:
        code = self._condition(node.first, streams)
        last = len(node.rest) - 1
        for at, (operator, each) in enumerate(node.rest):
            if (operator == "&&") == (code == 0):
                code = self.execute(each, streams) if at == last else self._condition(each, streams)
        return code

    def _condition(self, node: Node, streams: Streams) -> int:
        """Run a command whose failure does not end a script with `set -e`."""
        self._unchecked += 1
        try:
            return self.execute(node, streams)
        finally:
            self._unchecked -= 1

    def _pipeline(self, node: Pipeline, streams: Streams) -> int:
        given = streams.given
        code = 0
        self._unchecked += 1
        try:
            for at, each in enumerate(node.commands):
                last = at == len(node.commands) - 1
                out = streams.out if last else Buffer()
                with_pipe = Streams(given, out, streams.err)
                if len(node.commands) == 1:
                    code = self.execute(each, with_pipe)
                else:
                    code = self._apart(partial(self.execute, each, with_pipe))
                given = Input(bytes(out.data)) if isinstance(out, Buffer) else given
        finally:
            self._unchecked -= 1
        if node.negated:
            return int(not code)
        return self._checked(code)

    def _checked(self, code: int) -> int:
        """End the script after a failure, with `set -e`."""
        if code and self._errexit and not self._unchecked:
            raise Exit(code)
        return code

    def _apart(self, run: Callable[[], int]) -> int:
        """Run in a subshell: variables, functions and the directory are as before afterwards."""
        kept = dict(self.env), self.directory, self._given, dict(self._functions), self._errexit
        self.spend(1, 64 * len(self.env))
        try:
            return run()
        except (Exit, Return) as leaving:
            return int(leaving.args[0])
        except Jump:
            return 0
        finally:
            self.env, self.directory, self._given, self._functions, self._errexit = kept

    def substituted(self, script: str) -> str:
        """Return the output of a script, without newlines at its end."""
        out = Buffer()
        streams = Streams(Input(), out, Nothing())
        self.code = self._deeper(lambda: self._apart(lambda: self._commands_of(script, streams)))
        return out.data.decode("utf-8", "replace").rstrip("\n")

    def _deeper(self, run: Callable[[], int]) -> int:
        if self._depth >= _DEEPEST:
            raise Exhausted("shells within shells, too many")
        self._depth += 1
        try:
            return run()
        finally:
            self._depth -= 1

    def _if(self, node: If, streams: Streams) -> int:
        for condition, body in node.branches:
            if self._condition(condition, streams) == 0:
                return self.execute(body, streams)
        return 0 if node.otherwise is None else self.execute(node.otherwise, streams)

    def _loop(self, node: Loop, streams: Streams) -> int:
        code = 0
        while (self._condition(node.condition, streams) == 0) != node.until:
            try:
                code = self.execute(node.body, streams)
            except Jump as jump:
                if self._passed_on(jump):
                    break
        return code

    def _passed_on(self, jump: Jump) -> bool:
        """Return whether a jump ends this loop; raise it for the next outer loop."""
        if jump.levels > 1:
            raise Jump(again=jump.again, levels=jump.levels - 1)
        return not jump.again

    def _for(self, node: For, streams: Streams) -> int:
        if node.words is None:
            values = list(self._given)
        else:
            values = [each for word in node.words for each in self._expander.fields(word)]
        code = 0
        for value in values:
            self.set_variable(node.name, value)
            try:
                code = self.execute(node.body, streams)
            except Jump as jump:
                if self._passed_on(jump):
                    break
        return code

    def _case(self, node: Case, streams: Streams) -> int:
        word = self._expander.text(node.word)
        for patterns, body in node.arms:
            if any(matches(word, self._expander.pattern(each)) for each in patterns):
                return self.execute(body, streams)
        return 0

    def _group(self, node: Group, streams: Streams) -> int:
        def run(streams: Streams) -> int:
            if node.subshell:
                return self._apart(lambda: self.execute(node.body, streams))
            return self.execute(node.body, streams)

        return self._redirected(node.redirects, streams, run)

    def _function(self, node: Function, _streams: Streams) -> int:
        self._functions[node.name] = node.body
        return 0

    def _simple(self, node: Simple, streams: Streams) -> int:
        try:
            words = [each for word in node.words for each in self._expander.fields(word)]
            values = [
                (name, adds, self._expander.text(word)) for name, adds, word in node.assignments
            ]
            if len(words) > WORDS:
                raise Exhausted("Argument list too long")
            self.spend(COMMAND + 2 * len(words))
            before = {name: self.env.get(name) for name, _, _ in values} if words else {}
            for name, adds, value in values:
                self.set_variable(name, self.env.get(name, "") + value if adds else value)
            try:
                code = self._redirected(
                    node.redirects,
                    streams,
                    lambda each: self._program(words, each) if words else self._result(node),
                )
            finally:
                self._put_back(before)
        except OutOfWork:
            raise
        except ExpansionFailure as error:
            streams.err.write(f"sh: {error}\n".encode())
            raise Exit(2) from None
        except Exhausted as error:
            streams.err.write(f"sh: {error}\n".encode())
            code = 1
        return self._checked(code)

    def _put_back(self, before: dict[str, str | None]) -> None:
        """Undo assignments that were for one command only."""
        for name, value in before.items():
            if value is None:
                self.env.pop(name, None)
            else:
                self.env[name] = value

    def _result(self, node: Simple) -> int:
        """The code of a command of assignments alone: that of the last substitution."""
        return (
            self.code if any("$(" in word or "`" in word for _, _, word in node.assignments) else 0
        )

    def _redirected(
        self, redirects: Sequence[Redirect], streams: Streams, run: Callable[[Streams], int]
    ) -> int:
        if not redirects:
            return run(streams)
        given, sinks = streams.given, {1: streams.out, 2: streams.err}
        opened: list[ToFile] = []
        for each in redirects:
            if each.operator == "<<":
                given = Input(self._expander.document(each.document).encode())
                continue
            target = self._expander.text(each.target)
            if each.operator == "<":
                path = self.path(target)
                data = b"" if path == "/dev/null" else self.read(path)
                if data is None:
                    return self._refused(streams, f"can't open {target}: no such file")
                self.spend(1, len(data))
                given = Input(data)
            elif each.operator == ">&" and target.isdecimal() and int(target[:3]) in sinks:
                sinks[each.fd] = sinks[int(target[:3])]
            else:
                sink = self._sink(target, adds=each.operator == ">>", sinks=sinks)
                if isinstance(sink, ToFile):
                    if self.files.is_read_only(self.path(target)):
                        told = f"can't create {target}: Read-only file system"
                        return self._refused(streams, told)
                    opened.append(sink)
                sinks[each.fd] = sink
                if each.operator in ("&>", ">&"):
                    sinks[1] = sinks[2] = sink
        try:
            return run(Streams(given, sinks[1], sinks[2]))
        finally:
            for sink in opened:
                sink.close()

    def _refused(self, streams: Streams, text: str, *, code: int = 1) -> int:
        streams.err.write(f"{self._name}: {text}\n".encode())
        return code

    def _sink(self, target: str, *, adds: bool, sinks: dict[int, Sink]) -> Sink:
        path = self.path(target)
        if path == "/dev/null":
            return Nothing()
        if path in (
            "/dev/stdout",
            "/dev/stderr",
            "/proc/1/fd/1",
            "/proc/1/fd/2",
            "/proc/self/fd/2",
        ):
            return sinks[2 if path.endswith(("2", "err")) else 1]

        def keep(data: bytes) -> None:
            self.spend(1, len(data))
            self.keep(path, data)

        return ToFile((self.read(path) or b"") if adds else b"", keep)

    def command(self, words: list[str], streams: Streams) -> int:
        """Run a command that another one names."""
        return self._program(words, streams)

    def _program(self, words: list[str], streams: Streams) -> int:
        """Run a function, a shell, or a program."""
        name = words[0]
        function = self._functions.get(name)
        if function is not None:
            return self._call(function, words[1:], streams)
        if name in SHELLS:
            return self._deeper(lambda: self._shell(words, streams))
        program = self.programs.get(posixpath.basename(name))
        if program is None:
            streams.err.write(f"sh: {name}: not found\n".encode())
            return 127
        try:
            return program(self, words, streams)
        except OutOfWork:
            raise
        except Exhausted as error:
            streams.err.write(f"{posixpath.basename(name)}: {error}\n".encode())
            return 1

    def _call(self, function: Node, words: list[str], streams: Streams) -> int:
        kept, self._given = self._given, words
        try:
            return self._deeper(lambda: self.execute(function, streams))
        except Return as returned:
            return int(returned.args[0])
        finally:
            self._given = kept

    def _shell(self, words: list[str], streams: Streams) -> int:
        """`sh -c SCRIPT [NAME ARGUMENT...]`, `sh FILE`, or the script in the input."""
        flags = ""
        at = 1
        while at < len(words) and words[at].startswith(("-", "+")) and len(words[at]) > 1:
            flags += words[at][1:]
            at += 2 if words[at].endswith("o") else 1
        rest = words[at:]
        if "c" in flags:
            if not rest:
                return self._refused(streams, "-c requires an argument", code=2)
            text, name, given = rest[0], rest[1] if len(rest) > 1 else words[0], rest[2:]
        elif rest:
            data = self.read(self.path(rest[0]))
            if data is None:
                told = f"can't open '{rest[0]}': No such file or directory"
                return self._refused(streams, told, code=2)
            text, name, given = data.decode("utf-8", "replace"), rest[0], rest[1:]
        else:
            text, name, given = streams.given.rest().decode("utf-8", "replace"), words[0], []
        check_script(len(text))

        def run() -> int:
            self._given, self._name = given, name
            self._errexit = "e" in flags
            return self._commands_of(text, streams)

        self.processes.append(" ".join(words))
        kept = self._name
        try:
            return self._apart(run)
        finally:
            self._name = kept
            self.processes.pop()

    def source(self, text: str, streams: Streams) -> int:
        """Run a script in this very shell: `eval`, and `.`."""
        check_script(len(text))
        return self._deeper(lambda: self._commands_of(text, streams))

    def leave(self, code: int, *, function: bool = False) -> None:
        """End the script, or the function. Raises."""
        raise Return(code & 255) if function else Exit(code & 255)

    def jump(self, *, again: bool, levels: int) -> None:
        """End loops, or begin the next round of one. Raises."""
        raise Jump(again=again, levels=max(1, levels))


_EXECUTE: Final[dict[type, Callable[..., int]]] = {
    Simple: Shell._simple,
    Pipeline: Shell._pipeline,
    AndOr: Shell._and_or,
    Commands: Shell._sequence,
    If: Shell._if,
    Loop: Shell._loop,
    For: Shell._for,
    Case: Shell._case,
    Group: Shell._group,
    Function: Shell._function,
}
