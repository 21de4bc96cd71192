"""The run of a container's own program by the emulated shell: its length, its exit code and its output over time.

The run is computed when the container starts, as far as its work is bounded; `sleep` takes virtual time, and what the
program writes to files after it is written when that time comes. A program that the shell does not know is not run:
its container behaves as the emulation's annotations and defaults say. A program that reads its standard input, of a
container with `stdin: true`, waits for a client to attach.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Final

from attrs import define, field, frozen

from controlplane.api.container_inside import Inside
from controlplane.api.container_output import Line, Lines, Output
from controlplane.shell import syntax
from controlplane.shell.files import Files
from controlplane.shell.programs import PROGRAMS, shell_of
from controlplane.shell.shell import SHELLS, Shell
from controlplane.shell.streams import (
    Buffer,
    Exhausted,
    Forever,
    Input,
    InputWanted,
    OutOfWork,
    Streams,
)
from controlplane.shell.syntax import Function, ShellSyntaxError, Simple, nodes
from controlplane.shell.words import ExpansionFailure, unquoted

__all__ = [
    "FileWrite",
    "Life",
    "Outcome",
    "WORK_LIMIT",
    "is_interactive",
    "knows",
    "life_of",
    "outcome_of",
    "program_of",
]

WORK_LIMIT: Final = 60_000
"""Steps of work for the program of a container, of about a microsecond each; one that has more runs until stopped."""
LINES: Final = 10_000
"""The maximum number of lines of output that are kept of a run."""
BYTES: Final = 1 << 20
"""The limit, in bytes, of output that is kept of a run."""
MESSAGE_FILE: Final = 4096
"""The bytes of a termination message that are read from its file."""
MESSAGE_LINES: Final = 80
MESSAGE_OUTPUT: Final = 2048
"""The lines and bytes of output that a termination message falls back to."""
OUTCOME_BYTES: Final = 10 << 10
"""The bytes of the output of a probe's command that are kept."""
START_NS: Final = 10_000_000
"""The time that a program takes besides what it sleeps."""


@frozen
class FileWrite:
    """A file that a program writes or (None) removes, so long after its start; place and path as of `files.Disks`."""

    at: int
    place: str
    path: str
    data: bytes | None = field(repr=False)
    hides: bool = False


@frozen
class Outcome:
    """The outcome of a command in a container: its exit code, its output, and whether it took too long."""

    code: int
    said: str
    timed_out: bool = False


@define
class Life:
    """One run of a container's program.

    `run_ns` is its length, None when it runs until it is stopped; `lines` are its lines of output with the time since
    its start, in nanoseconds; `waits`: it waits for a client at its standard input.
    """

    run_ns: int | None = None
    code: int = 0
    lines: list[tuple[int, str]] = field(factory=list)
    waits: bool = False
    started: int = 0
    """Nanoseconds since 1970."""
    cut: bool = False
    """The last line has no newline."""
    left: str = ""
    """The end of the file at the termination message path."""
    env: dict[str, str] = field(factory=dict, repr=False)
    """The variables that the program was started with."""
    writes: deque[FileWrite] = field(factory=deque, repr=False)
    """Files that it writes later, in the order of time."""
    falls_back: bool = False
    """The termination message of a failure is the end of the output where that file is empty."""

    def message(self, code: int) -> str:
        """Return the termination message of a run that ended with a code.

        Upstream: `getTerminationMessage` of pkg/kubelet/kuberuntime/kuberuntime_container.go.
        """
        if self.left or not self.falls_back or code == 0:
            return self.left
        last = [text for _, text in self.lines[-MESSAGE_LINES:]]
        text = "\n".join(last) + ("\n" if last and not self.cut else "")
        return text.encode()[-MESSAGE_OUTPUT:].decode("utf-8", "replace")

    @property
    def size(self) -> int:
        """About the bytes that it takes in memory."""
        kept = sum(200 + len(each.data or b"") for each in self.writes)
        return 400 + kept + sum(60 + len(text) for _, text in self.lines)

    def output(self, now: int, *, ended: bool, until: int | None = None) -> Output:
        """Return the output until a time (nanoseconds since 1970)."""
        last = now if until is None else until
        count = bisect_right(self.lines, last - self.started, key=lambda line: line[0])
        found = [Line(self.started + at, text) for at, text in self.lines[:count]]
        return Output(0, Lines(found), ended)

    def tell(self, at: int, text: str) -> None:
        """Add output that a client's session caused, at a time since 1970."""
        kept = sum(len(each) for _, each in self.lines)
        for line in text.splitlines():
            kept += len(line)
            if len(self.lines) >= LINES or kept > BYTES:
                return
            self.lines.append((at - self.started, line))


def program_of(inside: Inside) -> tuple[str, ...]:
    """Return the words of a container's program; a shell where a terminal is asked for and no program is named."""
    if not inside.command and inside.stdin and inside.tty:
        return ("sh",)
    return inside.command


def is_interactive(words: Sequence[str]) -> bool:
    """Return whether a command is a shell without a script."""
    return (
        bool(words)
        and words[0] in SHELLS
        and all(word.startswith("-") and "c" not in word for word in words[1:])
    )


def knows(words: Sequence[str], *, stdin: bool = False, tty: bool = False) -> bool:
    """Return whether the shell runs a program of these words; without any a terminal asks for a shell."""
    return _is_known(words) if words else stdin and tty


def life_of(inside: Inside, files: Files) -> Life | None:
    """Run the program of a container; None for one that the shell does not know."""
    words = program_of(inside)
    if not words or not _is_known(words):
        return None
    if is_interactive(words) and (inside.stdin or inside.tty):
        return Life(waits=True, started=inside.now)
    shell = shell_of(inside, files, as_program=True, work_limit=WORK_LIMIT)
    if words[0] not in SHELLS:
        shell.processes.append(" ".join(words))
    life = Life(started=inside.now, env=inside.env)
    out = _Recorder(shell, life)
    later: list[FileWrite] = []
    files.changed = partial(_write, shell, files, later)
    streams = Streams(Input(wanted=inside.stdin), out, out)
    try:
        life.code = shell.run_to_end(list(words), streams)
        shell.wait()
        life.run_ns = shell.slept_ns + START_NS
    except InputWanted:
        life.waits = True
    except Forever as forever:
        for data in forever.args:
            out.write(data)
    except (OutOfWork, RecursionError):
        pass
    except Exhausted as error:
        out.write(f"{words[0]}: {error}\n".encode())
        life.code, life.run_ns = 1, shell.slept_ns + START_NS
    except ExpansionFailure:
        life.code, life.run_ns = 2, shell.slept_ns + START_NS
    out.end()
    life.writes.extend(sorted(later, key=attrgetter("at")))
    return life


def _write(
    shell: Shell,
    files: Files,
    later: list[FileWrite],
    place: str,
    path: str,
    data: bytes | None,
    hides: bool,
) -> None:
    """Write a file at once as long as no time has passed, else note when."""
    if shell.slept_ns:
        later.append(FileWrite(shell.slept_ns, place, path, data, hides))
    else:
        files.disks.put(place, path, data, hides=hides)


def outcome_of(inside: Inside, files: Files, words: Sequence[str], limit_ns: int) -> Outcome:
    """Run a command beside the program of a container, as an exec probe does; `limit_ns` is how long it may take."""
    shell = shell_of(inside, files, as_program=True, work_limit=WORK_LIMIT)
    shell.processes.append(" ".join(program_of(inside)))
    out = Buffer()
    try:
        code = shell.run_to_end(list(words), Streams(Input(), out, out))
    except (Forever, OutOfWork, RecursionError):
        return Outcome(1, "", timed_out=True)
    except Exhausted as error:
        code = 1
        out.write(f"{words[0]}: {error}\n".encode())
    except ExpansionFailure:
        code = 2
    said = bytes(out.data[:OUTCOME_BYTES]).decode("utf-8", "replace")
    return Outcome(code, said, timed_out=shell.slept_ns > limit_ns)


class _Recorder:
    """Takes output line by line, each with its time."""

    def __init__(self, shell: Shell, life: Life) -> None:
        self._shell = shell
        self._life = life
        self._partial = b""
        self._left = BYTES

    def write(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            return
        *whole, self._partial = (self._partial + data).split(b"\n")
        for line in whole:
            self._add(line)

    def _add(self, line: bytes) -> None:
        if len(self._life.lines) < LINES:
            self._life.lines.append((self._shell.slept_ns, line.decode("utf-8", "replace")))

    def end(self) -> None:
        if self._partial:
            self._add(self._partial)
            self._life.cut = True


def _is_known(words: Sequence[str]) -> bool:
    """Return whether the shell has all programs of a command, as far as their names are written out."""
    if words[0] not in SHELLS:
        return posixpath.basename(words[0]) in PROGRAMS
    flags, at = "", 1
    while at < len(words) and words[at].startswith("-") and len(words[at]) > 1:
        flags += words[at][1:]
        at += 2 if words[at].endswith("o") else 1
    if "c" not in flags or at >= len(words):
        return "c" not in flags and at >= len(words)
    if len(words[at]) > 1 << 16:
        return False
    names: list[str] = []
    own: set[str] = set()
    try:
        for command in syntax.commands(words[at]):
            for node in nodes(command):
                if isinstance(node, Function):
                    own.add(node.name)
                elif isinstance(node, Simple) and node.words:
                    names.append(node.words[0])
    except (ShellSyntaxError, RecursionError):
        return True
    known = (unquoted(name) for name in names)
    return all(
        name is None or name in own or name in SHELLS or posixpath.basename(name) in PROGRAMS
        for name in known
    )
