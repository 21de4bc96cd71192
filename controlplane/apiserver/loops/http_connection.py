"""One client: HTTP/1.1 on a byte stream, request after request.

Keep-alive, chunked answers, streams that end when either side hangs up, and limits on everything a
client can make long. A malformed request gets 400 in plain text and the end of the connection.
Upstream: the limits and texts are those of Go's net/http server and of apiserver pkg/server/config.go.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import h11
import trio

from controlplane.apiserver.http import answer_bodies
from controlplane.apiserver.loops.http_asked import Asked, Refused, asked_of
from controlplane.apiserver.loops.http_handler import CLOSED, Handler, failure
from controlplane.apiserver.loops.http_sink import COPIED, Sink, at_once
from controlplane.apiserver.schema.status import too_large

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.apiserver.http.answer_bodies import Chunk
    from controlplane.apiserver.loops.http_guest import Guest
    from controlplane.apiserver.loops.http_host import Host

__all__ = ["Connection"]

READ_SIZE: Final = 65_536
NO_LIMIT: Final = 1 << 62


class Connection:
    """The task that serves one stream until it ends. `host` gives it the world, the limits and authentication.

    `guest` holds whether its client has authenticated: one that has not gets little time and room.
    """

    def __init__(self, stream: trio.abc.Stream, host: Host, guest: Guest) -> None:
        self._stream = stream
        self._host = host
        self._guest = guest
        self._handler = Handler(host, guest)
        self._given = 0
        self._limits = host.limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=host.limits.header_bytes)
        self._early = b""
        self._body_limit = host.limits.body_bytes

    async def serve(self) -> None:
        """Request after request."""
        try:
            while await self._exchange():
                self._http.start_next_cycle()
        except CLOSED:
            pass
        except Refused as refusal:
            await self._refuse(refusal)
            await self.linger()

    async def _exchange(self) -> bool:
        """One request and its answer; False when the connection ends with it."""
        if not await self._wait_for_bytes():
            return False
        self._given = len(self._http.trailing_data[0])
        until = trio.current_time() + self._limits.read_s
        head = self._at_hand()
        if head is h11.NEED_DATA:
            with trio.move_on_at(until if self._guest.known else self._guest.deadline) as scope:
                limit = NO_LIMIT if self._guest.known else self._limits.unauthenticated_header_bytes
                while head is h11.NEED_DATA:
                    await self._more(limit)
                    head = self._at_hand()
            if scope.cancelled_caught:
                raise Refused(408, "Request Timeout")
        asked = self._head(head)
        if asked is None:
            return False
        self._body_limit = self._host.body_limits.get(asked.path, self._limits.body_bytes)
        entry = self._handler.let_in(asked)
        self._guest.wait_anew()
        answer, body = entry.refusal, b""
        if entry.reads or not asked.has_body:
            read = await self._body_until(until)
            if read is None:
                answer = failure(too_large(self._body_limit))
            else:
                body = read
        if answer is not None:
            await self._handler.answer(self, asked, answer)
        else:
            await self._handler.respond(self, asked, body, entry.user)
        self._guest.wait_anew()
        if self._http.their_state is not h11.DONE and self._http.our_state is h11.DONE:
            await self.linger()
            return False
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    # ------------------------------------------------------------------ reading

    async def _wait_for_bytes(self) -> bool:
        if self._http.trailing_data[0]:
            return True
        until = trio.current_time() + self._limits.idle_s
        if not self._guest.known:
            until = min(until, self._guest.deadline)
        data = await self._host.idle(until, self._receive)
        self._http.receive_data(data)
        return bool(data)

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(READ_SIZE))
        except trio.BrokenResourceError:  # TLS cut off without a goodbye
            return b""

    async def upgraded(self) -> bytes:
        """Return the next bytes of another protocol: first those that came right behind the request."""
        early, self._early = self._early, b""
        return early or await self._receive()

    def _at_hand(self) -> Any:
        """The next event, h11.NEED_DATA if it is not here yet."""
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise _refusal(error) from None

    async def _more(self, limit: int) -> None:
        """Read on, unless more than `limit` bytes were read before."""
        if self._http.they_are_waiting_for_100_continue:
            await self.send(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        if self._given > limit:
            raise Refused(431, "Request Header Fields Too Large")
        data = await self._receive()
        self._given += len(data)
        try:
            self._http.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise _refusal(error) from None

    def _head(self, event: Any) -> Asked | None:
        """Return the request; None after the last."""
        if not isinstance(event, h11.Request):
            return None
        if event.http_version not in (b"1.0", b"1.1"):
            raise Refused(505, "HTTP Version Not Supported: unsupported protocol version")
        headers = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers
        ]
        method, target = event.method.decode("latin-1"), event.target.decode("latin-1")
        streamed = event.http_version == b"1.1"
        asked = asked_of(method, target, headers, self._limits.header_bytes, streamed=streamed)
        length = asked.header("content-length").strip()
        asked.has_body = bool(asked.header("transfer-encoding")) or length.strip("0") != ""
        return asked

    async def _body_until(self, until: float) -> bytes | None:
        """The body, which must be there by a time; None when it is too long."""
        body = bytearray()
        if not self._is_whole(body):
            known = self._guest.known
            with trio.move_on_at(until if known else min(until, self._guest.deadline)) as scope:
                while not self._is_whole(body):
                    await self._more(NO_LIMIT)
            if scope.cancelled_caught:
                raise Refused(408, "Request Timeout")
        return None if len(body) > self._body_limit else bytes(body)

    def _is_whole(self, body: bytearray) -> bool:
        """Take what is here of the body; whether that was the end of it, or is too much."""
        while len(body) <= self._body_limit:
            event = self._at_hand()
            if isinstance(event, h11.Data):
                body += event.data
            elif event is h11.NEED_DATA:
                return False
            elif isinstance(event, h11.EndOfMessage):
                return True
            else:
                raise Refused(400, "Bad Request")
        return True

    # ------------------------------------------------------------------ answering

    def framing_headers(self, asked: Asked, headers: list[tuple[str, str]]) -> None:
        """Say that the connection ends with this answer, where it does."""
        # Two lengths for one body: another server on the way may take the other one (RFC 9112, 6.3).
        twice = asked.header("content-length") and asked.header("transfer-encoding")
        if self._http.their_state is not h11.DONE or twice:
            headers.append(("Connection", "close"))

    def pipe(self) -> Connection:
        """Return the connection itself, to go on in another protocol."""
        return self

    async def switch(self, headers: list[tuple[str, str]]) -> None:
        """Answer that another protocol is spoken from now on."""
        response = h11.InformationalResponse(status_code=101, headers=headers)
        await self.send(self._http.send(response))
        self._early = self._http.trailing_data[0]

    async def send_answer(
        self, code: int, headers: list[tuple[str, str]], chunks: Iterable[Chunk]
    ) -> None:
        """Small answers leave in one write; a long one goes on when the client has taken what was sent."""
        http = self._http
        data = _bytes(http.send(_response(code, headers)))
        for chunk in chunks:
            if not isinstance(
                chunks, tuple
            ):  # of what is compressed well much is made and little sent
                await trio.lowlevel.checkpoint()
            for part in self._framed(chunk) if chunk else ():
                if len(part) < COPIED:
                    data += part
                    continue
                await self.send(data)
                data = b""
                await self.send(part)
        await self.send(data + _bytes(http.send(h11.EndOfMessage())))

    def _framed(self, chunk: Chunk) -> list[bytes]:
        """A piece of a body with what HTTP puts around it, not copied."""
        data = h11.Data(data=chunk)  # type: ignore[arg-type]  # any bytes-like object will do
        return self._http.send_with_data_passthrough(data) or []

    async def send(self, data: Chunk | None) -> None:
        """Send bytes, within the time that a client has to take them."""
        if not data:
            return
        if len(data) > answer_bodies.PIECE:
            view = memoryview(data)
            for at in range(0, len(view), answer_bodies.PIECE):
                await self.send(view[at : at + answer_bodies.PIECE])
            return
        with trio.move_on_after(self._limits.write_s) as scope:
            await self._stream.send_all(data)
        if scope.cancelled_caught:
            raise trio.ClosedResourceError("the client does not read")

    async def begin_stream(self, headers: list[tuple[str, str]]) -> None:
        """Send the headers of an answer that goes on until one side ends it."""
        await self.send(self._http.send(_response(200, headers)))

    def feed_at_once(self, asked: Asked, sink: Sink) -> None:
        """Write short lines to the socket from where they are made, where that can be done without waiting."""
        write = self._host.write
        if asked.streamed and write is not None and isinstance(self._stream, trio.SocketStream):
            descriptor = self._stream.socket.fileno()
            sink.at_once = at_once(write, descriptor, lambda data: b"".join(self._framed(data)))

    async def send_rest(self, data: bytes) -> None:
        """Send what the socket did not take at once."""
        await self.send(data)

    async def send_chunk(self, asked: Asked, chunk: Chunk) -> None:
        """One piece of a stream, at once; h11 frames it if it is a chunk."""
        for part in self._joined(chunk) if asked.streamed else [chunk]:
            await self.send(part)

    async def end(self) -> None:
        """End the answer."""
        await self.send(self._http.send(h11.EndOfMessage()))

    def _joined(self, chunk: Chunk) -> list[Chunk]:
        """A piece as a chunk: short ones in one part, so that they leave in one write."""
        parts: list[Chunk] = [*self._framed(chunk)]
        return [b"".join(parts)] if len(chunk) < COPIED else parts

    async def until_hang_up(self, scope: trio.CancelScope) -> None:
        """Read on while a stream goes out: the end of input is the client's goodbye, as in net/http."""
        early = 0
        while True:
            data = await self._receive()
            early += len(data)
            if not data or early > READ_SIZE:
                scope.cancel()
                return
            self._http.receive_data(data)

    async def linger(self) -> None:
        """Read what is still on its way for a moment: closing at once would reset the answer away."""
        with trio.move_on_after(self._limits.linger_s):
            try:
                while await self._stream.receive_some(READ_SIZE):
                    pass
            except CLOSED:
                return

    async def _refuse(self, refusal: Refused) -> None:
        text = f"{refusal.code} {refusal}"
        raw = (
            f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Connection: close\r\n\r\n{text}"
        )
        with trio.move_on_after(self._limits.write_s):
            try:
                await self._stream.send_all(raw.encode("latin-1"))
            except CLOSED:
                return


def _refusal(error: h11.RemoteProtocolError) -> Refused:
    code = error.error_status_hint
    if code == 431:
        return Refused(431, "Request Header Fields Too Large")
    if code == 501:
        return Refused(501, "Not Implemented")
    return Refused(400, "Bad Request")


_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def _response(code: int, headers: list[tuple[str, str]]) -> h11.Response:
    return h11.Response(status_code=code, headers=headers, reason=_PHRASES.get(code, ""))


def _bytes(data: bytes | None) -> bytes:
    return data or b""
