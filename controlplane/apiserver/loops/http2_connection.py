"""One client over HTTP/2: many requests at once on a stream of bytes, framed by the library h2.

One task reads, one writes, and each request has a task of its own from its headers to the end of its answer. What is
malformed as a request ends its stream, what is malformed as a frame the connection. Limits: concurrent streams, and
requests that were reset before they were answered (they count until then); headers; time.
Upstream: golang.org/x/net http2/server.go, apiserver pkg/server/secure_serving.go.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import trio
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from controlplane.apiserver.http.authentication import ANONYMOUS
from controlplane.apiserver.http.http2_frames import goaway
from controlplane.apiserver.http.http2_headers import (
    LengthHidingDecoder,
    LiteralEncoder,
    Malformed,
    declared_length,
    head_of,
)
from controlplane.apiserver.loops.http2_stream import FULL, Stream, UpgradeNeeded
from controlplane.apiserver.loops.http_asked import Refused, asked_of
from controlplane.apiserver.loops.http_handler import CLOSED, Cut, Handler, failure
from controlplane.apiserver.schema.status import bad_request, plain_error, too_large

if TYPE_CHECKING:
    from controlplane.apiserver.loops.http_asked import Asked
    from controlplane.apiserver.loops.http_guest import Guest
    from controlplane.apiserver.loops.http_handler import Entry
    from controlplane.apiserver.loops.http_host import Host

__all__ = ["Http2Connection"]

READ_SIZE: Final = 65_536
SLICE: Final = 2048
"""Bytes that are looked at in one go: as many frames as fit may be requests."""
WINDOW: Final = 256 * 1024
"""The window of a stream, and the largest frame. Upstream: MaxUploadBufferPerStream, MaxReadFrameSize."""
FIELD: Final = 32
"""Overhead of one header field in the size of a header list (RFC 9113, 6.5.2); Go adds it for ten fields."""
EARLY_RESETS: Final = 4
"""Times the streams of a connection: requests that wait because those that were reset are still under way."""


class State(H2Connection):
    """The state of a connection, which remembers fewer of the streams that were closed: each takes memory."""

    MAX_CLOSED_STREAMS = 1024


class Ended(Exception):
    """The connection ends."""


class Http2Connection:
    """The tasks that serve one connection until it ends."""

    def __init__(self, stream: trio.abc.Stream, host: Host, guest: Guest) -> None:
        self._stream = stream
        self._host = host
        self._guest = guest
        self._limits = limits = host.limits
        self._handler = Handler(host, guest)
        self.http = State(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_inbound_headers=False,  # ours ends the stream, not the connection
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.http.encoder = LiteralEncoder()
        self.http.decoder = LengthHidingDecoder()
        self.http.decoder.max_header_list_size = limits.header_bytes * 5 // 4
        self.write_s = limits.write_s
        self._streams: dict[int, Stream] = {}
        self._running = 0
        self._unstarted: deque[tuple[Stream, Asked, Entry]] = deque()
        self._out = bytearray()
        self._sending = 0
        self._wake = trio.Event()
        self._drained = trio.Event()
        self._reading = trio.CancelScope()
        self._silent = 0
        self._leaving = self._over = False
        self._acknowledged = False
        self._nursery: trio.Nursery

    async def serve(self) -> None:
        """Serve requests until the client goes, the server closes, or a frame is malformed."""
        self._begin()
        self._host.on_close(self.leave)
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._write)
                await self._read()
                await self._finish()
                self._nursery.cancel_scope.cancel()
        finally:
            self._host.off_close(self.leave)

    def leave(self) -> None:
        """Take no more requests (GOAWAY), and end with those under way."""
        if not self._leaving:
            self._leaving = True
            self._goaway(ErrorCodes.NO_ERROR)
            self._rest()

    # ------------------------------------------------------------------ bytes out

    @property
    def waiting(self) -> int:
        """The bytes that wait to be sent."""
        return len(self._out) + self._sending

    def send(self) -> None:
        """Let what was framed leave."""
        self._out += self.http.data_to_send()
        if self._out:
            self._wake.set()

    def put(self, frames: bytes | bytearray) -> None:
        """Let frames leave behind what was framed before."""
        self._out += self.http.data_to_send()
        self._out += frames
        self._wake.set()

    async def drained(self) -> None:
        """Wait until something has left."""
        await self._drained.wait()

    async def _write(self) -> None:
        """Send what is framed; a client that does not take it within its time ends the connection."""
        try:
            while self._out or not self._over:
                if not self._out:
                    self._wake = trio.Event()
                    await self._wake.wait()
                    continue
                data, self._out = self._out, bytearray()
                self._sending = len(data)
                with trio.fail_after(self.write_s):
                    await self._stream.send_all(data)
                self._sending = 0
                self._drained.set()
                self._drained = trio.Event()
        except (*CLOSED, trio.TooSlowError):
            self._nursery.cancel_scope.cancel()

    def _goaway(self, code: int) -> None:
        """Frame GOAWAY by hand: after h2's own nothing more could be sent, and requests are under way."""
        self.put(goaway(self.http.highest_inbound_stream_id, code))

    def _begin(self) -> None:
        limits, http = self._limits, self.http
        initial: dict[SettingCodes, int] = {
            SettingCodes.MAX_FRAME_SIZE: WINDOW,
            SettingCodes.MAX_CONCURRENT_STREAMS: limits.http2_streams,
            SettingCodes.MAX_HEADER_LIST_SIZE: limits.header_bytes + 10 * FIELD,
            SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
        }
        http.local_settings = settings = Settings(client=False, initial_values=initial)
        http.max_inbound_frame_size = WINDOW
        http.initiate_connection()
        http.increment_flow_control_window(WINDOW * limits.http2_streams)
        settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 1 << 31
        settings.acknowledge()  # h2's limit ends the connection, ours a stream
        self.send()

    async def _finish(self) -> None:
        """Let the last frames leave, and what is still on its way come in."""
        self._over = True
        for stream in list(self._streams.values()):
            stream.reset()
        self._wake.set()
        with trio.move_on_after(self._limits.linger_s):
            while self.waiting:
                await self._drained.wait()
            while await self._receive():
                pass

    # ------------------------------------------------------------------ bytes in

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(READ_SIZE))
        except CLOSED:
            return b""

    async def _read(self) -> None:
        self._rest()
        with self._reading:
            while data := await self._receive():
                try:
                    for at in range(0, len(data), SLICE):
                        self._take(data[at : at + SLICE])
                        if at + SLICE < len(data):
                            await trio.lowlevel.checkpoint()
                        while self.waiting > 2 * FULL:  # of answers to PING and the like, too
                            await self._drained.wait()
                except Ended:
                    return
        if not self._leaving:
            self._goaway(ErrorCodes.NO_ERROR)

    def _take(self, data: bytes) -> None:
        """Some bytes of the client. Raises Ended."""
        try:
            found = self.http.receive_data(data)
        except ProtocolError:
            self.send()
            raise Ended from None
        self._silent = 0 if found else self._silent + len(data)
        known = self._guest.known
        most = self._limits.header_bytes if known else self._limits.unauthenticated_header_bytes
        if (
            self._silent > max(most, WINDOW if known else 0) + SLICE
        ):  # a header block without an end
            self._goaway(ErrorCodes.ENHANCE_YOUR_CALM)
            raise Ended
        for event in found:
            handle = _HANDLERS.get(type(event))
            if handle is not None:
                handle(self, event)
        self.send()

    def _rest(self) -> None:
        """With no request under way the connection may rest for a while, or is done."""
        if self._streams or self._unstarted:
            self._reading.deadline = math.inf
            return
        now = trio.current_time()
        until = now + self._limits.idle_s
        if not self._guest.known:
            until = min(until, self._guest.deadline)
        self._reading.deadline = -math.inf if self._leaving else until

    def _settled(self, _event: events.Event) -> None:
        """The client has our settings, and so the limit of streams."""
        self._acknowledged = True

    def _resized(self, event: Any) -> None:
        """A window of the client is wider."""
        number = getattr(event, "stream_id", 0)
        if number:
            if number in self._streams:
                self._streams[number].widen()
            return
        for stream in self._streams.values():
            stream.widen()

    def _data(self, event: events.DataReceived) -> None:
        self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is not None and not stream.take(event.data):
            self._give_up(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
            self._forget(event.stream_id)

    def _closed(self, event: events.StreamEnded) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.close()

    def _reset(self, event: events.StreamReset) -> None:
        self._forget(event.stream_id)

    def _forget(self, number: int) -> None:
        """Drop a stream that has been reset, and wake the tasks that wait for it."""
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.reset()
            self._rest()

    # ------------------------------------------------------------------ requests

    def _request(self, event: events.RequestReceived) -> None:
        number = event.stream_id
        if self._leaving:
            self._give_up(number, ErrorCodes.REFUSED_STREAM)
            return
        if len(self._streams) >= self._limits.http2_streams:
            known = self._acknowledged
            self._give_up(number, ErrorCodes.PROTOCOL_ERROR if known else ErrorCodes.REFUSED_STREAM)
            return
        try:
            head = head_of(event.headers)
        except Malformed:
            self._give_up(number, ErrorCodes.PROTOCOL_ERROR)
            return
        stream = Stream(self, number, self._limits.body_bytes)
        self._streams[number] = stream
        self._rest()
        try:
            if head.refusal:
                raise Refused(400, head.refusal)
            asked = asked_of(head.method, head.target, head.headers, self._limits.header_bytes)
        except Refused as refusal:
            stream.reads = False
            self._refuse(stream, refusal)
            return
        asked.has_body = event.stream_ended is None
        length = asked.header("content-length")
        if asked.has_body and length:
            stream.declared = declared_length(length)
        stream.limit = self._host.body_limits.get(asked.path, self._limits.body_bytes)
        entry = self._handler.let_in(asked)
        stream.reads = entry.reads and asked.has_body
        if self._running < self._limits.http2_streams:
            self._start(stream, asked, entry)
            return
        if len(self._unstarted) > EARLY_RESETS * self._limits.http2_streams:
            self._goaway(ErrorCodes.ENHANCE_YOUR_CALM)
            raise Ended
        self._unstarted.append((stream, asked, entry))

    def _start(self, stream: Stream, asked: Asked, entry: Entry) -> None:
        self._running += 1
        self._nursery.start_soon(self._run, stream, asked, entry)

    async def _run(self, stream: Stream, asked: Asked, entry: Entry) -> None:
        """One request, from its body to the end of its answer."""
        try:
            await self._exchange(stream, asked, entry)
        except Refused as refusal:
            self._refuse(stream, refusal)
        except Cut:
            self._nursery.cancel_scope.cancel()
        except CLOSED:
            pass
        except Exception as error:
            self._host.defect(error)
        finally:
            self._running -= 1
            self._done(stream)

    async def _exchange(self, stream: Stream, asked: Asked, entry: Entry) -> None:
        answer = entry.refusal
        if answer is None and stream.reads and not stream.whole.is_set():
            await self._body(stream, asked)
        self._guest.wait_anew()
        if answer is None and stream.too_large:
            answer = failure(too_large(stream.limit))
        if answer is None and entry.reads and stream.missing:
            answer = failure(plain_error(stream.missing))
        if stream.gone:
            return
        stream.parts = self._host.rebalances()
        try:
            if answer is None:
                await self._handler.respond(stream, asked, bytes(stream.body), entry.user)
            else:
                await self._handler.answer(stream, asked, answer)
        except UpgradeNeeded:
            needed = failure(bad_request("Upgrade request required"))
            await self._handler.answer(stream, asked, needed)
        if stream.parts:
            self.leave()
        if entry.user is ANONYMOUS and (entry.refusal is None or entry.refusal.code == 401):
            # As upstream (UnauthenticatedHTTP2DOSMitigation): no second request of a client that is not known.
            self.leave()

    async def _body(self, stream: Stream, asked: Asked) -> None:
        """Wait for the body. Raises Refused for one that is late."""
        if asked.header("expect").lower() == "100-continue":
            self.http.send_headers(stream.number, [(":status", "100")])
            self.send()
        until = trio.current_time() + self._limits.read_s
        if not self._guest.known:
            until = min(until, self._guest.deadline)
        with trio.move_on_at(until) as scope:
            await stream.whole.wait()
        if scope.cancelled_caught:
            raise Refused(408, "Request Timeout")

    def _refuse(self, stream: Stream, refusal: Refused) -> None:
        """Answer in plain text, as far as the client's window allows, and end the stream."""
        text = f"{refusal.code} {refusal}"
        headers = [
            (":status", str(refusal.code)),
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(text))),
        ]
        if not stream.gone:
            try:
                self.http.send_headers(stream.number, headers)
                if self.http.local_flow_control_window(stream.number) >= len(text):
                    self.http.send_data(stream.number, text.encode("latin-1"), end_stream=True)
                    stream.sent = True
            except ProtocolError:
                stream.gone = True
        if stream.number in self._streams and not stream.whole.is_set():
            stream.whole.set()
        self._done(stream)

    def _done(self, stream: Stream) -> None:
        """The request is over: nothing of the stream stays, and one that waits may begin."""
        if self._streams.pop(stream.number, None) is not None and not stream.gone:
            if not stream.sent:
                self._give_up(stream.number, ErrorCodes.INTERNAL_ERROR)
            elif not stream.received:
                self._give_up(stream.number, ErrorCodes.NO_ERROR)
        stream.gone = True
        self.send()
        while self._unstarted and self._running < self._limits.http2_streams:
            self._start(*self._unstarted.popleft())
        self._rest()

    def _give_up(self, number: int, code: ErrorCodes) -> None:
        try:
            self.http.reset_stream(number, code)
        except ProtocolError:  # the client has ended it meanwhile
            return


_HANDLERS: Final[dict[type, Any]] = {
    events.RequestReceived: Http2Connection._request,
    events.DataReceived: Http2Connection._data,
    events.StreamEnded: Http2Connection._closed,
    events.StreamReset: Http2Connection._reset,
    events.WindowUpdated: Http2Connection._resized,
    events.RemoteSettingsChanged: Http2Connection._resized,
    events.SettingsAcknowledged: Http2Connection._settled,
}
