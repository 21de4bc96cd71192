"""Connections that go on in another protocol: WebSocket or SPDY, into a container or to a port of a pod."""

from __future__ import annotations

import base64
import posixpath
from typing import TYPE_CHECKING, Final

import trio

from controlplane.api.request import ADMIN
from controlplane.apiserver.http.message import StreamStart
from controlplane.apiserver.loops.http_asked import Asked, Refused, is_set, offered_protocols
from controlplane.apiserver.loops.http_sink import Sink, encoded
from controlplane.shell.programs import shell_of
from controlplane.shell.running import program_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.api.container_inside import Inside
    from controlplane.apiserver.http.channels import Session
    from controlplane.apiserver.http.streams import Streams
    from controlplane.apiserver.http.websocket import Socket
    from controlplane.apiserver.loops.http_host import Host, Pipe

    Wire = Socket | Streams


LOG_PROTOCOLS: Final = ("binary.k8s.io", "base64.binary.k8s.io")
LOG_MESSAGE: Final = 32 * 1024


def _log_protocol(offered: list[str]) -> str:
    """The first protocol of logs that a client offers; one that offers none of them, but others, is refused."""
    known = [each for each in offered if each in LOG_PROTOCOLS]
    if offered and not known:
        raise Refused(403, "Forbidden")
    return known[0] if known else ""


class Upgrade:
    """One upgraded connection."""

    def __init__(self, pipe: Pipe, host: Host) -> None:
        self._pipe = pipe
        self._host = host
        self._limits = host.limits

    async def run(self, asked: Asked, inside: Inside) -> None:
        """Speak WebSocket or SPDY from now on, for a program in a container or a port of a pod."""
        if asked.path.endswith("/portforward"):
            await self._forward(asked, inside)
            return
        from controlplane.apiserver.http import channels

        opened = await self.channels(asked)
        if opened is None:
            return
        wire, protocol, said = opened
        if asked.path.endswith("/attach"):
            if inside.waits:
                await self._take_over(inside, protocol, wire, said)
            else:
                await self._attach(asked, inside, protocol, wire)
            return
        session = channels.Session(
            shell_of(inside, self._host.files(inside), processes=[_process_one(inside)]),
            asked.query.get("command") or [],
            protocol,
            stdin=is_set(asked, "stdin"),
            tty=is_set(asked, "tty"),
        )
        text = "base64" in protocol
        await self._converse(session, wire, said, text=text)

    async def channels(self, asked: Asked) -> tuple[Wire, str, list[bytes]] | None:
        """Go on in numbered channels: wire, protocol, and what came with the request; None if the client left."""
        from controlplane.apiserver.http import channels, streams, websocket

        wire: Wire
        said: list[bytes] = []
        if self.wants_spdy(asked):
            protocol = channels.PROTOCOLS[0]
            await self.switch_to_spdy(asked, streams.PROTOCOL)
            names = ("stdin", "stdout", "stderr", "tty")
            expected = 1 + sum(is_set(asked, name) for name in names)
            wire = streams.Streams(expected)
            while not wire.ready:
                messages, reply, open_still = wire.received(await self._pipe.upgraded())
                said += messages  # with the last stream there may be data already
                await self._pipe.send(reply)
                if not open_still:
                    return None
        else:
            protocol = channels.chosen_protocol(asked.header("sec-websocket-protocol"))
            await self.switch_to_websocket(asked, protocol)
            wire = websocket.Socket()
        return wire, protocol, said

    async def _converse(
        self, session: Session, wire: Wire, said: list[bytes], *, text: bool
    ) -> None:
        """Pass messages between the client and a session until either ends; `said` came with the request."""
        first = [*session.begin(), *(each for message in said for each in session.receive(message))]
        await self._pipe.send(wire.sent(first, text=text))
        while not session.done:
            messages, reply, open_still = wire.received(await self._pipe.upgraded())
            answers: list[bytes] = []
            for message in messages:
                answers += session.receive(message)
                if session.done:
                    break
                await trio.lowlevel.checkpoint()  # each message may take as long as a request
            await self._pipe.send(wire.sent(answers, text=text) + reply if open_still else reply)
            if not open_still:
                await self._pipe.linger()
                return
        await self._pipe.send(wire.closed())
        await self._pipe.linger()

    async def stream(self, asked: Asked, start: StreamStart, number: int, sink: Sink) -> None:
        """Send a watch or a followed log over WebSocket: a message for each event, or for what was written.

        A watch needs an Origin and accepts at most one protocol, as golang.org/x/net/websocket does; a log's protocol
        says whether its messages are base64. Upstream: endpoints/handlers/watch.go, apimachinery
        pkg/util/httpstream/wsstream/stream.go.
        """
        from controlplane.apiserver.http import websocket

        is_log = asked.path.endswith("/log")
        offered = offered_protocols(asked)
        accept = websocket.accepted(asked.header("sec-websocket-key"))
        protocol = offered[0] if offered else ""
        ended = False
        try:
            if not accept:
                raise Refused(400, "Bad Request")
            if is_log:
                protocol = _log_protocol(offered)
            elif not asked.header("origin"):
                raise Refused(403, "Forbidden")
            elif len(offered) > 1:
                raise Refused(400, "Bad Request")
            await self.accept_websocket(accept, protocol)
            socket = websocket.Socket()
            text = not is_log and start.content_type.startswith("application/json")
            in_base64 = is_log and protocol == LOG_PROTOCOLS[1]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.until_closed, socket, nursery.cancel_scope)
                while (found := await sink.lines()) is not None:
                    for line in found:
                        data = b"".join(bytes(part) for part in encoded([line]))
                        if in_base64:
                            data = base64.b64encode(data)
                        await self._pipe.send(socket.sent([data], text=text or in_base64))
                ended = not sink.overflowed
                if ended:
                    await self._pipe.send(socket.closed())
                nursery.cancel_scope.cancel()
        finally:
            if not ended:
                self._host.hung_up(number)
        await self._pipe.linger()

    async def log(self, asked: Asked, text: bytes) -> None:
        """Send a log that is not followed over WebSocket, in messages of at most 32 KiB, and close."""
        socket, message = await self.log_socket(asked)
        for at in range(0, len(text), LOG_MESSAGE):
            await self._pipe.send(message(text[at : at + LOG_MESSAGE]))
        await self._pipe.send(socket.closed())
        await self._pipe.linger()

    async def log_socket(self, asked: Asked) -> tuple[Socket, Callable[[bytes], bytes]]:
        """Go on in WebSocket for a log: the socket, and what makes a message of data."""
        from controlplane.apiserver.http import websocket

        accept = websocket.accepted(asked.header("sec-websocket-key"))
        if not accept:
            raise Refused(400, "Bad Request")
        protocol = _log_protocol(offered_protocols(asked))
        await self.accept_websocket(accept, protocol)
        socket = websocket.Socket()
        in_base64 = protocol == LOG_PROTOCOLS[1]

        def message(data: bytes) -> bytes:
            sent = base64.b64encode(data) if in_base64 else data
            return socket.sent([sent], text=in_base64)

        return socket, message

    def wants_spdy(self, asked: Asked) -> bool:
        """Return whether the client asks to go on in SPDY."""
        return asked.header("upgrade").lower().startswith("spdy")

    async def switch_to_spdy(self, asked: Asked, version: str) -> None:
        """Go on in SPDY, with this version of the streams."""
        offered = [
            each.strip()
            for name, value in asked.headers
            if name == "x-stream-protocol-version"
            for each in value.split(",")
        ]
        if version not in offered:
            raise Refused(403, "Forbidden: unable to upgrade: unable to negotiate protocol")
        headers = [
            ("Upgrade", "SPDY/3.1"),
            ("Connection", "Upgrade"),
            ("X-Stream-Protocol-Version", version),
        ]
        await self._pipe.switch(headers)

    async def switch_to_websocket(self, asked: Asked, protocol: str) -> None:
        """Go on in WebSocket with a protocol, "" for one that is unknown."""
        from controlplane.apiserver.http import websocket

        accept = websocket.accepted(asked.header("sec-websocket-key"))
        if not protocol or not accept:
            raise Refused(400, "Bad Request")
        await self.accept_websocket(accept, protocol)

    async def accept_websocket(self, accept: str, protocol: str) -> None:
        """Answer a client's key, and the protocol that was chosen, if any."""
        headers = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", accept),
        ]
        if protocol:
            headers.append(("Sec-WebSocket-Protocol", protocol))
        await self._pipe.switch(headers)

    async def _forward(self, asked: Asked, inside: Inside) -> None:
        """Connections to ports of a pod, until the client goes."""
        from controlplane.apiserver.http import forwarding, spdy, websocket

        if self.wants_spdy(asked):
            await self.switch_to_spdy(asked, forwarding.VERSION)
            session = forwarding.StreamForwarding(inside)
            data = await self._pipe.upgraded()
            while data and session.open:
                try:
                    await self._pipe.send(session.receive(data))
                except spdy.SpdyError:
                    return
                data = await self._pipe.upgraded()
            return
        protocol = await self.switch_to_forwarding(asked)
        socket = websocket.Socket()
        tunnel = forwarding.StreamForwarding(inside)
        plain = forwarding.ChannelForwarding(inside, forwarding.ports_of(asked.query))
        tunnelled = protocol == forwarding.TUNNEL
        if not tunnelled:
            await self._pipe.send(socket.sent(plain.begin()))
        open_still = True
        while open_still and tunnel.open:
            messages, reply, open_still = socket.received(await self._pipe.upgraded())
            try:
                for message in messages:
                    answers = [tunnel.receive(message)] if tunnelled else plain.receive(message)
                    reply += socket.sent(each for each in answers if each)
            except spdy.SpdyError:
                reply += socket.broken()
                open_still = False
            await self._pipe.send(reply)
        await self._pipe.linger()

    async def switch_to_forwarding(self, asked: Asked) -> str:
        """Go on in WebSocket for forwarded ports; return the protocol."""
        from controlplane.apiserver.http import forwarding

        offered = [each.strip() for each in asked.header("sec-websocket-protocol").split(",")]
        known = (forwarding.TUNNEL, *forwarding.CHANNELS)
        protocol = next((each for each in offered if each in known), "")
        await self.switch_to_websocket(asked, protocol)
        return protocol

    async def _take_over(
        self, inside: Inside, protocol: str, wire: Wire, said: list[bytes]
    ) -> None:
        """Run the program of a container that waits for its input, until it ends or the client leaves."""
        from controlplane.apiserver.http import channels

        command = program_of(inside)
        session = channels.Session(
            shell_of(inside, self._host.files(inside)),
            command,
            protocol,
            stdin=True,
            tty=inside.tty,
            attached=True,
        )
        try:
            await self._converse(session, wire, said, text="base64" in protocol)
        finally:
            text = session.transcript.decode("utf-8", "replace")
            if session.done or text:
                self._host.attached(inside, text, session.code if session.done else None)

    async def _attach(self, asked: Asked, inside: Inside, protocol: str, socket: Wire) -> None:
        """Send the output of a container from now on, until it ends or the client leaves."""
        from controlplane.apiserver.http import channels

        path = asked.path.removesuffix("attach") + "log"
        query = {
            "follow": ["true"],
            **({} if inside.stdin else {"tailLines": ["0"]}),
            "container": [inside.key.partition("/")[2]],
        }
        sink = Sink(self._limits.stream_events)
        number = self._host.ask("GET", path, query, [], b"", ADMIN, sink.push)
        session = channels.Session(shell_of(inside), (), protocol)
        text = "base64" in protocol
        started = isinstance(await sink.first(), StreamStart)
        ended = not started
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.until_closed, socket, nursery.cancel_scope)
                while started and (found := await sink.lines()) is not None:
                    data = b"".join(bytes(chunk) for chunk in encoded(found))
                    await self._pipe.send(socket.sent([session.written(data)], text=text))
                ended = True
                await self._pipe.send(socket.sent(session.end(), text=text) + socket.closed())
                nursery.cancel_scope.cancel()
        finally:
            if not ended:
                self._host.hung_up(number)
        await self._pipe.linger()

    async def until_closed(self, socket: Wire, scope: trio.CancelScope) -> None:
        """Read on until the client says goodbye; what it types goes nowhere."""
        still_open = True
        while still_open:
            _, reply, still_open = socket.received(await self._pipe.upgraded())
            await self._pipe.send(reply)
        scope.cancel()


def _process_one(inside: Inside) -> str:
    """The command line of a container's program; the name of its image where only the image knows it."""
    return (
        " ".join(program_of(inside))
        or posixpath.basename(inside.image.partition("@")[0]).partition(":")[0]
    )
