"""A client that speaks HTTP/2 frame by frame, over TLS, to a served cluster."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection

from tests.apiserver.http.session import Session

SECONDS = 60


def trusting(*protocols: str) -> ssl.SSLContext:
    """TLS without a check of the certificate, for a server of our own."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    return context


class Received:
    """What came on a stream."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self.reset: int | None = None

    @property
    def code(self) -> int:
        return int(self.headers[":status"])

    @property
    def tree(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection. `closed` once the server has ended it; `goaway` is the code that it gave."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.http = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.streams: dict[int, Received] = {}
        self.pings = 0
        self.goaway: int | None = None
        self.closed = False
        self.widens = True

    async def flush(self) -> None:
        await self.stream.send_all(self.http.data_to_send())

    def begin(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        last: bool = True,
        **headers: str,
    ) -> int:
        """Frame a request; the number of its stream."""
        number = self.http.get_next_available_stream_id()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        fields = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
            *given.items(),
        ]
        self.streams[number] = Received()
        self.http.send_headers(number, fields, end_stream=body is None)
        if body is not None:
            self.http.send_data(number, body, end_stream=last)
        return number

    async def more(self) -> None:
        """Take what comes next."""
        try:
            data = await self.stream.receive_some(65536)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            self.closed = True
            return
        for event in self.http.receive_data(data):
            self._take(event)
        await self.flush()

    def _take(self, event: Any) -> None:
        if isinstance(event, events.PingAckReceived):
            self.pings += 1
        elif isinstance(event, events.ConnectionTerminated):
            self.goaway = int(event.error_code)
        stream = self.streams.get(getattr(event, "stream_id", 0) or 0)
        if stream is None:
            return
        if isinstance(event, events.ResponseReceived):
            stream.headers = dict(event.headers)
        elif isinstance(event, events.DataReceived):
            stream.body += event.data
            if self.widens:
                self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, events.StreamEnded):
            stream.ended = True
        elif isinstance(event, events.StreamReset):
            stream.reset = int(event.error_code)

    async def until(self, done: Any) -> None:
        """Take what comes until `done()`."""
        with trio.fail_after(SECONDS):
            while not done():
                assert not self.closed, "the connection was ended"
                await self.more()

    async def answer(self, number: int) -> Received:
        """The whole answer of a stream."""
        await self.flush()
        found = self.streams[number]
        await self.until(lambda: found.ended or found.reset is not None)
        return found

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Received:
        """One request, its body as the server's windows allow, and its whole answer."""
        if body is None:
            return await self.answer(self.begin(method, path, **headers))
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        number = self.begin(method, path, data[:16384], last=len(data) <= 16384, **headers)
        for at in range(16384, len(data), 16384):
            piece = data[at : at + 16384]
            await self.flush()
            await self.until(
                lambda: self.http.local_flow_control_window(number) >= len(piece)  # noqa: B023
            )
            self.http.send_data(number, piece, end_stream=at + 16384 >= len(data))
        return await self.answer(number)

    async def until_closed(self) -> None:
        """Read to the end of the connection."""
        with trio.fail_after(SECONDS):
            while not self.closed:
                try:
                    await self.more()
                except trio.BrokenResourceError:
                    self.closed = True


@asynccontextmanager
async def raw(session: Session, *protocols: str) -> AsyncIterator[Any]:
    """A TLS connection with these protocols offered."""
    socket = await trio.open_tcp_stream("127.0.0.1", session.port)
    stream = trio.SSLStream(
        socket, trusting(*protocols or ("h2",)), server_hostname="localhost", https_compatible=True
    )
    try:
        await stream.do_handshake()
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


@asynccontextmanager
async def connected(session: Session) -> AsyncIterator[Client]:
    """A client that has sent its preface."""
    async with raw(session) as stream:
        assert stream.selected_alpn_protocol() == "h2"
        client = Client(stream)
        client.http.initiate_connection()
        await client.flush()
        yield client
