"""Programs of the machine that clients run in containers, or reach through ports, of pods on fake nodes.

A program ends with its client: the process and those that it started are killed. Upstream: pkg/utils/exec,
pkg/kwok/server/debugging_exec*.go.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import trio

from controlplane.api.host_access import Program
from controlplane.api.validation import quote

__all__ = ["ProgramError", "Running", "started"]

BLOCK: Final = 32 * 1024
KEPT_ERRORS: Final = 64 * 1024
"""Bytes of standard error that are kept for an error where nothing else takes them."""
DRAIN_S: Final = 0.2
"""Real seconds in which a terminal is read on after its program has ended."""
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError, BrokenPipeError)
Write = Callable[[bytes], Awaitable[None]]


class ProgramError(Exception):
    """A program or an address that is not reached, or that failed; the text is the server's."""


class Running:
    """One program with its standard streams, or with a terminal in place of them."""

    def __init__(
        self, program: Program, process: trio.Process, terminal: trio.lowlevel.FdStream | None
    ) -> None:
        self._program = program
        self._process = process
        self._terminal = terminal

    async def give(self, data: bytes) -> None:
        """Write to its input; what it does not read any more is lost."""
        into = self._terminal or self._process.stdin
        if into is not None:
            with suppress(*_GONE):
                await into.send_all(data)

    async def give_end(self) -> None:
        """End its input; a terminal has no end."""
        if self._process.stdin is not None:
            with suppress(*_GONE):
                await self._process.stdin.aclose()

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of its terminal."""
        if self._terminal is None:
            return
        import fcntl
        import struct
        import termios

        size = struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0)
        with suppress(OSError):
            fcntl.ioctl(self._terminal.fileno(), termios.TIOCSWINSZ, size)

    async def finish(self, out: Write, err: Write | None = None) -> str:
        """Pass its output on until it ends; return how it failed, "" for success."""
        kept = bytearray()

        async def keep(data: bytes) -> None:
            kept.extend(data[: KEPT_ERRORS - len(kept)])

        async with trio.open_nursery() as nursery:
            if self._terminal is None:
                nursery.start_soon(_copy, self._process.stdout, out)
                nursery.start_soon(_copy, self._process.stderr, err or keep)
            else:
                nursery.start_soon(_copy, self._terminal, out)
            code = await self._process.wait()
            if self._terminal is not None:
                nursery.cancel_scope.deadline = trio.current_time() + DRAIN_S
        if not code:
            return ""
        how = f"exit status {code}" if code > 0 else f"signal: {_signal_name(-code)}"
        unheard = err is None and self._terminal is None
        more = f"\n{kept.decode('utf-8', 'replace')}" if unheard else ""
        return f"cmd wait: {_shown(self._program)}: {how}{more}"


async def _copy(source: trio.abc.ReceiveStream | None, write: Write) -> None:
    """Pass on what comes until its end; the end of a terminal is an error of its reader."""
    assert source is not None
    while True:
        try:
            data = await source.receive_some(BLOCK)
        except trio.BrokenResourceError:
            return
        if not data:
            return
        await write(bytes(data))


@asynccontextmanager
async def started(
    program: Program, *, stdin: bool, terminal: bool = False
) -> AsyncIterator[Running]:
    """Start a program, and kill it at the end. Raises ProgramError where it cannot be started."""
    options, path = await trio.to_thread.run_sync(_options, program)
    master = slave = -1
    if terminal:
        master, slave = os.openpty()
        options.update(stdin=slave, stdout=slave, stderr=slave)
    else:
        given = subprocess.PIPE if stdin else subprocess.DEVNULL
        options.update(stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        process = await _open(program, path, options)
    except ProgramError:
        if master >= 0:
            os.close(master)
        raise
    finally:
        if slave >= 0:
            os.close(slave)
    screen = trio.lowlevel.FdStream(master) if master >= 0 else None
    try:
        yield Running(program, process, screen)
    finally:
        await _end(process, screen)


async def _open(program: Program, path: str, options: dict[str, Any]) -> trio.Process:
    command = [path, *program.command[1:]]
    try:
        return await trio.lowlevel.open_process(command, **options)
    except (OSError, subprocess.SubprocessError) as error:
        # Python says of which file the system spoke, Go what it did with it.
        wrong = getattr(error, "filename", None)
        doing = "chdir" if program.directory and wrong == program.directory else "fork/exec"
        about = program.directory if doing == "chdir" else path
        text = os.strerror(getattr(error, "errno", None) or 1)
        why = f"{doing} {about}: {text[:1].lower()}{text[1:]}"
        raise ProgramError(f"cmd start: {_shown(program)}: {why}") from None


async def _end(process: trio.Process, screen: trio.lowlevel.FdStream | None) -> None:
    with trio.CancelScope(shield=True):
        with suppress(ProcessLookupError, PermissionError):
            # Its session, with all that it started; also what it has left behind.
            os.killpg(process.pid, signal.SIGKILL)
        if process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                process.kill()
            with trio.move_on_after(1):
                await process.wait()
        for stream in (process.stdin, process.stdout, process.stderr, screen):
            if stream is not None:
                await stream.aclose()


def _options(program: Program) -> tuple[dict[str, Any], str]:
    """Return how the program is started, and its path. Raises ProgramError."""
    options: dict[str, Any] = {"start_new_session": True, "cwd": program.directory or None}
    if program.env:
        options["env"] = {**os.environ, **dict(program.env)}
    if program.user is not None or program.group is not None:
        options.update(_user(program))
    if not program.command:
        raise ProgramError("no command")
    name = program.command[0]
    if "/" in name:
        return options, name
    path = shutil.which(name)
    if path is None:
        missing = f"exec: {quote(name)}: executable file not found in $PATH"
        raise ProgramError(f"cmd start: {_shown(program)}: {missing}")
    return options, path


def _user(program: Program) -> dict[str, Any]:
    """Return the user and the group of a program; without a group, that of the user. Raises ProgramError."""
    import grp
    import pwd

    user, group = program.user, program.group
    about = f"cmd set user: {_shown(program)}"
    if user is not None:
        try:
            entry = pwd.getpwuid(user)
        except KeyError:
            raise ProgramError(f"{about}: user: unknown userid {user}") from None
        if group is None:
            group = entry.pw_gid
        else:
            try:
                grp.getgrgid(group)
            except KeyError:
                raise ProgramError(f"{about}: group: unknown groupid {group}") from None
    return {"user": os.getuid() if user is None else user, "group": group, "extra_groups": ()}


def _shown(program: Program) -> str:
    """Return a command as errors name it: the program, a space, its words."""
    return f"{program.command[0]} {' '.join(program.command[1:])}"


def _signal_name(number: int) -> str:
    text = signal.strsignal(number) or f"signal {number}"
    return text[:1].lower() + text[1:]
