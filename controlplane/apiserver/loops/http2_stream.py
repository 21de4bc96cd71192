"""One stream of an HTTP/2 connection: a request's body as it comes, and the way of its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import trio
from h2.exceptions import ProtocolError

from controlplane.apiserver.http.http2_frames import data_frames
from controlplane.apiserver.loops.http_sink import Line, Sink, short_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h2.connection import H2Connection

    from controlplane.apiserver.http.answer_bodies import Chunk
    from controlplane.apiserver.loops.http_asked import Asked

__all__ = ["Carrier", "Stream", "UpgradeNeeded"]

FULL: Final = 256 * 1024
"""Bytes that wait to be sent on a connection before its streams wait."""

FRAME: Final = 64 * 1024
"""The largest frame that is sent."""


class UpgradeNeeded(Exception):
    """The request can only be served by another protocol, which HTTP/2 does not lead to."""


class Carrier(Protocol):
    """The connection, as its streams see it."""

    @property
    def http(self) -> H2Connection:
        """The state of the connection."""

    @property
    def waiting(self) -> int:
        """The bytes that wait to be sent."""

    @property
    def write_s(self) -> float:
        """The seconds that a client has to take what it is sent."""

    def send(self) -> None:
        """Let what was framed leave."""

    def put(self, frames: bytearray) -> None:
        """Let frames leave behind what was framed before."""

    def leave(self) -> None:
        """Take no more requests (GOAWAY), and end with those under way."""

    async def drained(self) -> None:
        """Wait until something has left."""


class Stream:
    """A request's body and the wire of its answer."""

    def __init__(self, carrier: Carrier, number: int, limit: int) -> None:
        self._carrier = carrier
        self._http = carrier.http
        self.number = number
        self.limit = limit
        self.body = bytearray()
        self.reads = True
        """Its body is kept."""
        self.declared: int | None = None
        """The bytes that the client has announced; None where it has not."""
        self._received = 0
        self.parts = False
        """The connection gets GOAWAY after this response, or after the headers of a watch."""
        self.whole = trio.Event()
        """The body is here, or more of it than may be, or the stream has ended."""
        self.received = False
        """The client has ended its part."""
        self.sent = False
        """The answer has ended."""
        self.gone = False
        """The client has reset the stream, or the connection has ended."""
        self._window = trio.Event()
        self._hung_up: trio.CancelScope | None = None

    # ------------------------------------------------------------------ what the client sends

    def take(self, data: bytes) -> bool:
        """Another part of the body; return whether it is no more than was announced."""
        self._received += len(data)
        if self.declared is not None and self._received > self.declared:
            return False
        if self.reads:
            self.body += data
            if self.too_large:
                self.reads = False
                self.whole.set()
        return True

    @property
    def missing(self) -> str:
        """The error of a body that is shorter than its Content-Length, "" for any other body."""
        if not self.received or self.declared in (None, self._received):
            return ""
        return (
            f"request declared a Content-Length of {self.declared} but only wrote "
            f"{self._received} bytes"
        )

    @property
    def too_large(self) -> bool:
        """Return whether the body has more bytes than it may have."""
        return len(self.body) > self.limit

    def close(self) -> None:
        """The client has ended its part."""
        self.received = True
        self.whole.set()

    def widen(self) -> None:
        """There may be room for more of the answer."""
        self._window.set()

    def reset(self) -> None:
        """Wake all tasks that wait for the stream: the client has reset it."""
        self.gone = True
        self.whole.set()
        self._window.set()
        if self._hung_up is not None:
            self._hung_up.cancel()

    # ------------------------------------------------------------------ the answer

    def framing_headers(self, asked: Asked, headers: list[tuple[str, str]]) -> None:
        """HTTP/2 needs none."""

    async def send_answer(
        self, code: int, headers: list[tuple[str, str]], chunks: Iterable[Chunk]
    ) -> None:
        """A whole answer; a long one goes on when the client has taken what was sent."""
        whole = isinstance(chunks, tuple)
        if whole and not any(chunks):
            self._headers(code, headers, last=True)
            return
        self._headers(code, headers)
        for chunk in chunks:
            if not whole:  # of what is compressed well much is made and little sent
                await trio.lowlevel.checkpoint()
            await self._send(chunk, last=whole)
        if not whole:
            await self.end()

    async def begin_stream(self, headers: list[tuple[str, str]]) -> None:
        """Send the headers of an answer that goes on until one side ends it."""
        self._headers(200, headers)
        self._carrier.send()
        if self.parts:
            self._carrier.leave()

    def feed_at_once(self, asked: Asked, sink: Sink) -> None:
        """Frame short lines from where they are made, if the client has room for them."""

        def frame(lines: Iterable[Line]) -> bytes | None:
            data = short_lines(lines)
            if not data:
                return data
            if self.gone or self._carrier.waiting > FULL or self._room() < len(data):
                return None
            self._frame(data, last=False)
            self._carrier.send()
            return b""

        sink.at_once = frame

    async def send_rest(self, data: bytes) -> None:
        """Nothing is ever left over."""

    async def send_chunk(self, asked: Asked, chunk: Chunk) -> None:
        """One piece of a stream, at once."""
        await self._send(chunk, last=False)

    async def end(self) -> None:
        """End the answer."""
        self._frame(b"", last=True)
        self._carrier.send()

    async def until_hang_up(self, scope: trio.CancelScope) -> None:
        """Cancel `scope` when the client resets the stream."""
        if self.gone:
            scope.cancel()
        self._hung_up = scope
        await trio.sleep_forever()

    def pipe(self) -> NoReturn:
        """Refuse: clients choose HTTP/1.1 to go on in another protocol."""
        raise UpgradeNeeded

    # ------------------------------------------------------------------ frames

    def _headers(self, code: int, headers: list[tuple[str, str]], *, last: bool = False) -> None:
        if self.gone:
            raise trio.BrokenResourceError
        try:
            self._http.send_headers(self.number, [(":status", str(code)), *headers], last)
        except ProtocolError as error:
            raise trio.BrokenResourceError from error
        self.sent = last
        if last:
            self._carrier.send()

    async def _send(self, data: Chunk, *, last: bool) -> None:
        """Data, as far as the client's windows are open; then as they open."""
        view = memoryview(data)
        at, size = 0, len(view)
        while at < size:
            while self._carrier.waiting > FULL:
                self._carrier.send()
                await self._carrier.drained()
            room = min(self._room(), size - at, FULL)
            if room <= 0:
                await self._opened()
                continue
            frame = min(self._http.max_outbound_frame_size, FRAME)
            many = (room - 1) // frame * frame
            if many:
                self._put(view[at : at + many], frame)
            self._frame(view[at + many : at + room], last=last and at + room == size)
            at += room
        self._carrier.send()

    def _room(self) -> int:
        """The bytes that the client's windows allow."""
        if self.gone:
            raise trio.BrokenResourceError
        try:
            return self._http.local_flow_control_window(self.number)
        except ProtocolError as error:
            raise trio.BrokenResourceError from error

    def _frame(self, data: Chunk, *, last: bool) -> None:
        if self.gone:
            raise trio.BrokenResourceError
        try:
            self._http.send_data(self.number, data, last)  # type: ignore[arg-type]
        except ProtocolError as error:
            raise trio.BrokenResourceError from error
        self.sent = last

    def _put(self, data: memoryview, frame: int) -> None:
        """Frame all but the last of some frames ourselves: h2 takes 25 us for each, and a page has dozens."""
        self._http.streams[self.number].outbound_flow_control_window -= len(data)
        self._http.outbound_flow_control_window -= len(data)
        self._carrier.put(data_frames(self.number, data, frame))

    async def _opened(self) -> None:
        """Wait for a window to open, within the time that a client has to take what it is sent."""
        self._carrier.send()
        self._window = trio.Event()
        with trio.move_on_after(self._carrier.write_s) as scope:
            await self._window.wait()
        if scope.cancelled_caught:
            raise trio.ClosedResourceError("the client does not read")
