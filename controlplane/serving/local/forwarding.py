"""Forwarded ports of pods on fake nodes: connections to addresses of the machine, or to programs' standard streams.

Each connection is a task of its own, so that a slow one holds up no other.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

import trio

from controlplane.api.host_access import Address, Ports, Refusal
from controlplane.apiserver.http import forwarding, tunnels
from controlplane.apiserver.http.tunnels import Begun, Data, Dropped, Event
from controlplane.serving.local import programs

if TYPE_CHECKING:
    from controlplane.apiserver.http.tunnels import Tunnels
    from controlplane.apiserver.loops.http_asked import Asked
    from controlplane.apiserver.loops.http_host import Pipe
    from controlplane.apiserver.loops.http_upgrade import Upgrade

__all__ = ["forward"]

BLOCK: Final = 32 * 1024
WAITING: Final = 16
"""Pieces of data that wait for a connection, at most."""
DIAL_S: Final = 30.0
"""Real seconds in which an address has to answer."""


async def forward(pipe: Pipe, upgrade: Upgrade, asked: Asked, ports: Ports) -> None:
    """Pass data between a client and what the ports of a pod lead to, until the client leaves."""
    wire = await _wire(upgrade, asked)
    client = _Client(pipe, wire, ports)
    async with trio.open_nursery() as nursery:
        await client.serve(nursery)
        nursery.cancel_scope.cancel()
    await pipe.linger()


async def _wire(upgrade: Upgrade, asked: Asked) -> Tunnels:
    if upgrade.wants_spdy(asked):
        await upgrade.switch_to_spdy(asked, forwarding.VERSION)
        return tunnels.Streams()
    protocol = await upgrade.switch_to_forwarding(asked)
    if protocol == forwarding.TUNNEL:
        return tunnels.Tunnelled()
    return tunnels.Channels(forwarding.ports_of(asked.query))


class _Client:
    """One client with its connections, by number."""

    def __init__(self, pipe: Pipe, wire: Tunnels, ports: Ports) -> None:
        self._pipe = pipe
        self._wire = wire
        self._ports = ports
        self._given: dict[int, trio.MemorySendChannel[bytes]] = {}
        self._scopes: dict[int, trio.CancelScope] = {}
        self._turn = trio.Lock()

    async def serve(self, nursery: trio.Nursery) -> None:
        """Read what the client says until it leaves."""
        events, first = self._wire.begin()
        await self._send(first)
        open_still = True
        while True:
            for event in events:
                await self._take(event, nursery)
            if not open_still:
                return
            events, reply, open_still = self._wire.receive(await self._pipe.upgraded())
            await self._send(reply)

    async def _send(self, data: bytes) -> None:
        if data:
            async with self._turn:
                await self._pipe.send(data)

    async def _take(self, event: Event, nursery: trio.Nursery) -> None:
        if isinstance(event, Begun):
            send, receive = trio.open_memory_channel[bytes](WAITING)
            self._given[event.number] = send
            nursery.start_soon(self._connection, event, receive)
        elif isinstance(event, Dropped):
            if (scope := self._scopes.get(event.number)) is not None:
                scope.cancel()
        elif isinstance(event, Data) and (given := self._given.get(event.number)) is not None:
            try:
                if event.data:
                    await given.send(event.data)
                if event.ended:
                    await given.aclose()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the other side has ended; the client is told so

    async def _connection(self, begun: Begun, given: trio.MemoryReceiveChannel[bytes]) -> None:
        """Serve one connection to its end, and tell the client how it ended."""
        error = ""
        with trio.CancelScope() as scope:
            self._scopes[begun.number] = scope
            async with given:
                try:
                    await self._reach(begun, given)
                except programs.ProgramError as found:
                    pod = self._ports.pod
                    error = f"error forwarding port {begun.port} to pod {pod}, uid : {found}"
        del self._scopes[begun.number]
        self._given.pop(begun.number, None)
        await self._send(self._wire.finished(begun.number, error))

    async def _reach(self, begun: Begun, given: trio.MemoryReceiveChannel[bytes]) -> None:
        async def write(data: bytes) -> None:
            await self._send(self._wire.sent(begun.number, data))

        target = self._ports.at(begun.port)
        if isinstance(target, Refusal):
            raise programs.ProgramError(target.text)
        if isinstance(target, Address):
            await _connected(target, given, write)
            return
        async with programs.started(target, stdin=True) as running, trio.open_nursery() as nursery:
            nursery.start_soon(_pass_input, running, given)
            failure = await running.finish(write)
            nursery.cancel_scope.cancel()
        if failure:
            raise programs.ProgramError(failure)


async def _pass_input(running: programs.Running, given: trio.MemoryReceiveChannel[bytes]) -> None:
    async for data in given:
        await running.give(data)
    await running.give_end()


async def _connected(
    address: Address, given: trio.MemoryReceiveChannel[bytes], write: programs.Write
) -> None:
    """Pass data between a client and an address until the address has said all. Raises ProgramError."""
    stream = await _dialled(address)
    async with stream, trio.open_nursery() as nursery:
        nursery.start_soon(_pass_on, stream, given)
        while data := await _next(stream):
            await write(data)
        nursery.cancel_scope.cancel()


async def _next(stream: trio.SocketStream) -> bytes:
    """Return what an address says next; b"" when it has said all, or broken off."""
    try:
        return bytes(await stream.receive_some(BLOCK))
    except trio.BrokenResourceError:
        return b""


async def _pass_on(stream: trio.SocketStream, given: trio.MemoryReceiveChannel[bytes]) -> None:
    try:
        async for data in given:
            await stream.send_all(data)
        await stream.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # what the address still says is read to its end


async def _dialled(address: Address) -> trio.SocketStream:
    host = f"[{address.host}]" if ":" in address.host else address.host
    place = f"{host}:{address.port}"
    try:
        with trio.fail_after(DIAL_S):
            return await trio.open_tcp_stream(address.host, address.port)
    except trio.TooSlowError:
        why = "i/o timeout"
    except (OSError, UnicodeError, ValueError) as error:
        why = _why(error)
    raise programs.ProgramError(f"failed to dial {place}: dial tcp {place}: {why}")


def _why(error: BaseException) -> str:
    """Return a connection's error as Go tells it: the system's call, and its text."""
    cause = error.__cause__ or error
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, socket.gaierror):
        return "lookup failed: no such host"
    number = getattr(cause, "errno", None)
    if number is None:
        return str(cause)
    text = os.strerror(number)
    return f"connect: {text[:1].lower()}{text[1:]}"
