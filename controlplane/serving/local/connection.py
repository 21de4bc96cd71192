"""Connections of clients to what pods on fake nodes lead to: logs, exec, attach and forwarded ports.

Errors are told as KWOK's server tells them: of a log as 400 before its first byte, of a session in its error channel.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

import trio
from attrs import evolve

from controlplane.api.host_access import LogFile, Ports, Program, Reached, Refusal
from controlplane.apiserver.http import channels
from controlplane.apiserver.http.channels import CLOSED, RESIZE, STDERR, STDIN, STDOUT, failed
from controlplane.apiserver.loops.http_asked import Asked, is_set, is_websocket
from controlplane.apiserver.loops.http_upgrade import Upgrade
from controlplane.apiserver.schema.status import bad_request
from controlplane.serving.local import programs
from controlplane.serving.local.files import copy_log
from controlplane.serving.local.forwarding import forward
from controlplane.serving.local.log_text import LogError

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.apiserver.loops.http_host import Host, LogPipe
    from controlplane.apiserver.loops.http_upgrade import Wire

__all__ = ["serve"]

ATTACHING: Final = "attaching to container"
WAITING: Final = 16
"""Pieces of input that wait for a program, at most."""


async def serve(pipe: LogPipe, host: Host, asked: Asked, reached: Reached) -> None:
    """Lead a client to what its request reaches, until either ends. Raises ApiError."""
    gone = False
    try:
        await _lead(pipe, host, asked, reached)
    except* (trio.BrokenResourceError, trio.ClosedResourceError):
        gone = True
    if gone:  # alone, as connections expect it
        raise trio.ClosedResourceError("the client has gone")


async def _lead(pipe: LogPipe, host: Host, asked: Asked, reached: Reached) -> None:
    if isinstance(reached, Ports):
        await forward(pipe, Upgrade(pipe, host), asked, reached)
    elif asked.path.endswith("/log"):
        assert isinstance(reached, LogFile)
        await _log(pipe, host, asked, reached)
    else:
        await _session(pipe, Upgrade(pipe, host), asked, reached)


async def _log(pipe: LogPipe, host: Host, asked: Asked, file: LogFile) -> None:
    if is_websocket(asked):
        await _log_over_websocket(pipe, host, asked, file)
        return
    begun = ended = False
    error: LogError | None = None

    async def write(_stream: str, data: bytes) -> None:
        nonlocal begun
        if not begun:
            begun = True
            await pipe.begin_log(asked)
        if data:
            await pipe.send_log(asked, data)

    async def copy(scope: trio.CancelScope) -> None:
        nonlocal ended, error
        try:
            await copy_log(file, write)
        except LogError as found:
            error = found
        ended = True
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pipe.until_hang_up, nursery.cancel_scope)
        nursery.start_soon(copy, nursery.cancel_scope)
    if not ended:
        raise trio.ClosedResourceError("the client has gone")
    if error is not None:
        if not begun:
            raise bad_request(str(error))
        await write("", str(error).encode())  # as upstream, behind what was sent
    await write("", b"")
    await pipe.end_log()


async def _log_over_websocket(pipe: LogPipe, host: Host, asked: Asked, file: LogFile) -> None:
    """Send a log in messages; the end of the connection is that of the log, and an error stands at its end."""
    upgrade = Upgrade(pipe, host)
    socket, message = await upgrade.log_socket(asked)

    async def write(_stream: str, data: bytes) -> None:
        if data:
            await pipe.send(message(data))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(upgrade.until_closed, socket, nursery.cancel_scope)
        try:
            await copy_log(file, write)
        except LogError as error:
            await write("", str(error).encode())
        await pipe.send(socket.closed())
        nursery.cancel_scope.cancel()
    await pipe.linger()


# -- exec and attach -------------------------------------------------------------------------------


class _Session:
    """The numbered channels of one client. Messages of several tasks leave one after the other."""

    def __init__(self, pipe: LogPipe, wire: Wire, protocol: str) -> None:
        self._pipe = pipe
        self._wire = wire
        self._text = "base64" in protocol
        self._framing = channels.Framing(protocol)
        self._turn = trio.Lock()

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel."""
        await self._leave([self._framing.message(channel, data)])

    async def finish(self, status: Tree) -> None:
        """End the session."""
        await self._leave(self._framing.finished(status), last=True)
        await self._pipe.linger()

    async def _leave(self, messages: list[bytes], *, last: bool = False) -> None:
        async with self._turn:
            data = self._wire.sent(messages, text=self._text)
            await self._pipe.send(data + self._wire.closed() if last else data)

    async def listen(
        self, said: list[bytes], given: trio.MemorySendChannel[tuple[int, bytes]]
    ) -> None:
        """Pass on what the client says until it leaves; `said` came with the request."""
        open_still = True
        messages = said
        async with given:
            while True:
                for message in messages:
                    content = self._framing.content(message)
                    if content is not None:
                        await given.send(content)
                if not open_still:
                    return
                data = await self._pipe.upgraded()
                messages, reply, open_still = self._wire.received(data)
                if reply:
                    async with self._turn:
                        await self._pipe.send(reply)


async def _session(pipe: LogPipe, upgrade: Upgrade, asked: Asked, reached: Reached) -> None:
    opened = await upgrade.channels(asked)
    if opened is None:
        return
    wire, protocol, said = opened
    session = _Session(pipe, wire, protocol)
    attached = asked.path.endswith("/attach")
    doing = ATTACHING if attached else channels.EXECUTING
    status: Tree | None = None
    send, receive = trio.open_memory_channel[tuple[int, bytes]](WAITING)

    async def carry_out(scope: trio.CancelScope) -> None:
        nonlocal status
        await session.send(STDOUT, b"")
        try:
            if isinstance(reached, LogFile):
                await _follow(session, asked, reached, receive)
            elif isinstance(reached, Program):
                await _execute(session, asked, reached, receive)
            elif isinstance(reached, Refusal):
                raise programs.ProgramError(reached.text)
            status = channels.SUCCESS
        except (LogError, programs.ProgramError) as error:
            status = failed(doing, str(error))
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_until_left, session, said, send, nursery.cancel_scope)
        nursery.start_soon(carry_out, nursery.cancel_scope)
    if status is not None:
        await session.finish(status)


async def _until_left(
    session: _Session,
    said: list[bytes],
    given: trio.MemorySendChannel[tuple[int, bytes]],
    scope: trio.CancelScope,
) -> None:
    try:
        await session.listen(said, given)
    except trio.BrokenResourceError:  # nothing takes input any more
        return
    scope.cancel()


async def _follow(
    session: _Session,
    asked: Asked,
    file: LogFile,
    given: trio.MemoryReceiveChannel[tuple[int, bytes]],
) -> None:
    """Send what a container writes from now on; what the client types goes nowhere."""
    numbers = {"stdout": STDOUT, "stderr": STDERR}
    wanted = {name for name in numbers if is_set(asked, name)}
    if is_set(asked, "tty"):
        wanted.discard("stderr")

    async def write(stream: str, data: bytes) -> None:
        if data and stream in wanted:
            await session.send(numbers[stream], data)

    error: LogError | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_ignore, given)
        try:
            await copy_log(file, write)
        except LogError as found:  # kept, for a nursery would wrap it
            error = found
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error


async def _ignore(given: trio.MemoryReceiveChannel[tuple[int, bytes]]) -> None:
    async for _ in given:
        pass


async def _execute(
    session: _Session,
    asked: Asked,
    program: Program,
    given: trio.MemoryReceiveChannel[tuple[int, bytes]],
) -> None:
    """Run a command of a client. Raises ProgramError."""
    tty = is_set(asked, "tty")
    command = tuple(asked.query.get("command") or ())
    if any("\0" in word for word in command):
        raise programs.ProgramError("a word of the command has a NUL")
    program = evolve(program, command=command)
    stdin = is_set(asked, "stdin")

    def to(channel: int) -> programs.Write:
        return partial(session.send, channel)

    errors = to(STDERR) if is_set(asked, "stderr") else None
    async with (
        programs.started(program, stdin=stdin, terminal=tty) as running,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(_pass_input, running, given)
        failure = await running.finish(to(STDOUT), errors)
        nursery.cancel_scope.cancel()
    if failure:
        raise programs.ProgramError(failure)


async def _pass_input(
    running: programs.Running, given: trio.MemoryReceiveChannel[tuple[int, bytes]]
) -> None:
    async for channel, data in given:
        if channel == STDIN:
            await running.give(data)
        elif channel == CLOSED and data[:1] == bytes([STDIN]):
            await running.give_end()
        elif channel == RESIZE:
            rows, columns = _size(data)
            if rows:
                running.resize(rows, columns)


def _size(data: bytes) -> tuple[int, int]:
    """Return rows and columns of a message such as `{"Width":80,"Height":24}`; zeros for anything else."""
    try:
        tree = json.loads(data)
        return int(tree["Height"]), int(tree["Width"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 0, 0
