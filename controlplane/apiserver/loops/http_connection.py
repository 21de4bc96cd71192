"""One client: HTTP/1.1 on a byte stream, request after request.

Keep-alive, chunked answers, streams that end when either side hangs up, and limits on everything a
client can make long. A malformed request gets 400 in plain text and the end of the connection.
Upstream: the limits and texts are those of Go's net/http server and of apiserver pkg/server/config.go.
"""

from __future__ import annotations

from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

import h11
import trio
from attrs import frozen

from controlplane.api.container_inside import Inside
from controlplane.apiserver.front.answering import HttpAnswer
from controlplane.apiserver.http import answer_bodies, cross_origin, origin
from controlplane.apiserver.http.authentication import ANONYMOUS, ignored_token
from controlplane.apiserver.http.message import CUT, StreamStart, packed, to_request
from controlplane.apiserver.http.query import parse_query
from controlplane.apiserver.loops import time_control as control
from controlplane.apiserver.loops.http_asked import Asked, Refused, bearer_of, is_set, is_websocket
from controlplane.apiserver.loops.http_host import PageStream
from controlplane.apiserver.loops.http_sink import COPIED, Sink, at_once, encoded
from controlplane.apiserver.loops.http_upgrade import Upgrade
from controlplane.apiserver.requests.authorization.rbac import MASTERS
from controlplane.apiserver.requests.routing import no_such_method, request_line
from controlplane.apiserver.schema.status import ApiError, internal_error, timeout, too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from controlplane.api.host_access import Reached
    from controlplane.api.request import User
    from controlplane.apiserver.http.answer_bodies import Chunk
    from controlplane.apiserver.http.streams import Streams
    from controlplane.apiserver.http.websocket import Socket
    from controlplane.apiserver.loops.http_guest import Guest
    from controlplane.apiserver.loops.http_host import Host
    from controlplane.apiserver.requests.routing import HttpRequest

    Wire = Socket | Streams

__all__ = ["Connection"]

JSON = "application/json"
READ_SIZE: Final = 65_536
NO_LIMIT: Final = 1 << 62
_NO_BODY = (204, 304)
_LONG = ("attach", "exec", "log", "portforward", "proxy")
_CLOSED = (trio.BrokenResourceError, trio.ClosedResourceError)


@frozen
class Entry:
    """The admission of a request into the world: as which user, with or without its body, or refused."""

    user: User
    refusal: HttpAnswer | None = None
    reads: bool = True


class Connection:
    """The task that serves one stream until it ends. `host` gives it the world, the limits and authentication.

    `guest` holds whether its client has authenticated: one that has not gets little time and room.
    """

    def __init__(self, stream: trio.abc.Stream, host: Host, guest: Guest) -> None:
        self._stream = stream
        self._host = host
        self._guest = guest
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
        except _CLOSED:
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
        entry = self._let_in(asked)
        self._guest.wait_anew()
        answer, body = entry.refusal, b""
        if entry.reads or not asked.has_body:
            read = await self._body_until(until)
            if read is None:
                answer = _failure(too_large(self._body_limit))
            else:
                body = read
        if answer is not None:
            await self._answer(asked, answer)
        else:
            await self._respond(asked, body, entry.user)
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
        size = sum([len(name) + len(value) for name, value in headers])
        if size + len(target) > self._limits.header_bytes:
            raise Refused(431, "Request Header Fields Too Large")
        if target.startswith(("http://", "https://")):
            target = "/" + target.split("/", 3)[3] if target.count("/") > 2 else "/"
        raw_path, _, raw_query = target.partition("?")
        path = _unquoted(raw_path)
        if not path.startswith("/"):
            raise Refused(400, "Bad Request")
        query = parse_query(raw_query) if raw_query else {}
        first = dict(reversed(headers))
        streamed = event.http_version == b"1.1"
        length = first.get("content-length", "0").strip()
        has_body = "transfer-encoding" in first or length.strip("0") != ""
        return Asked(request_line(method, path), query, headers, streamed, has_body, first)

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

    def _let_in(self, asked: Asked) -> Entry:
        """Return the user, and whether to read the body: decided before a byte of it is kept.

        A request that the roles do not allow enters the world without its body, and is refused there.
        """
        host = self._host
        anybody = not host.access.tokens
        site = asked.header("origin")
        invited = cross_origin.is_allowed(site, host.origins)
        # A browser sends no such header with a WebSocket; libraries of Go name some origin in each.
        program = not anybody and is_websocket(asked) and bool(asked.header("authorization"))
        foreign = "" if invited or program else site
        try:
            reason = origin.refusal(asked.header("host"), foreign, host.listening, anybody=anybody)
            if reason:
                raise ApiError(403, "Forbidden", reason)
            if invited and _is_preflight(asked):
                told = cross_origin.preflight_headers(
                    asked.header("access-control-request-headers")
                )
                return Entry(ANONYMOUS, HttpAnswer(204, told), reads=False)
            if asked.path in host.assets:
                return Entry(ANONYMOUS, _asset(asked, host.assets[asked.path]), reads=False)
            user = host.access.user(asked.header("authorization") or bearer_of(asked))
            if user is not ANONYMOUS:
                self._guest.introduce()
            if self._is_page(asked):
                host.access_check(_request(asked, b"", user))
                return Entry(user)
        except ApiError as error:
            return Entry(ANONYMOUS, _failure(error), reads=False)
        if asked.has_body and MASTERS not in user.groups:
            try:
                host.access_check(_request(asked, b"", user))
            except ApiError:
                return Entry(user, reads=False)
        return Entry(user)

    def _is_page(self, asked: Asked) -> bool:
        """Return whether the request is answered outside of the world."""
        timed = asked.path == control.PATH and self._host.pace is not None
        return timed or asked.path in self._host.pages

    async def _respond(self, asked: Asked, body: bytes, user: User) -> None:
        host = self._host
        try:
            if asked.path == control.PATH and host.pace is not None:
                tree = await control.control(host.pace, asked.method, body)
                await self._answer(asked, HttpAnswer(200, {"Content-Type": JSON}, tree))
                return
            page = host.pages.get(asked.path)
            if page is not None:
                found = page(_request(asked, body, user))
                if not isinstance(found, HttpAnswer | PageStream):
                    found = await found
                if isinstance(found, HttpAnswer):
                    await self._answer(asked, found)
                else:
                    await self._stream_page(asked, found)
                return
        except ApiError as error:
            await self._answer(asked, _failure(error))
            return
        lane = _lane(asked, user)
        if not host.enter(lane):
            await self._answer(asked, _too_many())
            return
        try:
            await self._serve(asked, body, user)
        finally:
            host.leave(lane)

    async def _serve(self, asked: Asked, body: bytes, user: User) -> None:
        """Let the world answer."""
        host = self._host
        sink = Sink(self._limits.stream_events)
        number = host.ask(
            asked.method, asked.path, asked.query, asked.headers, body, user, sink.push
        )
        answered: Any = _failure(timeout("request did not complete within the allotted timeout", 0))
        with trio.move_on_after(self._limits.answer_s):
            answered = await sink.first()
        if answered is CUT:
            raise trio.ClosedResourceError("a plan cuts the connection")
        if isinstance(answered, StreamStart):
            if is_websocket(asked):
                await Upgrade(self, host).stream(asked, answered, number, sink)
                return
            await self._stream_out(asked, answered.content_type, sink, lambda: host.hung_up(number))
        elif isinstance(answered, HttpAnswer) and answered.entered is not None:
            if isinstance(answered.entered, Inside):
                await Upgrade(self, host).run(asked, answered.entered)
            else:
                await self._lead(asked, answered.entered)
        elif isinstance(answered, HttpAnswer):
            if answered.code == 200 and asked.path.endswith("/log") and is_websocket(asked):
                pieces = answer_bodies.encoded(answered, pretty=False)
                await Upgrade(self, host).log(asked, bytes(await _joined(pieces)))
                return
            await self._answer(asked, answered)
        else:
            await self._answer(asked, _failure(internal_error("the API server is down")))

    async def _lead(self, asked: Asked, reached: Reached) -> None:
        """Lead the client to what its request reaches on the machine."""
        local = self._host.local
        try:
            if local is None:
                raise internal_error("nothing of the machine is reached from here")
            await local(self, self._host, asked, reached)
        except ApiError as error:
            await self._answer(asked, _failure(error))

    async def begin_log(self, asked: Asked) -> None:
        """Send the head of an answer whose body comes piece by piece."""
        headers = [*self._headers(asked), ("Content-Type", "text/plain")]
        await self.send(self._http.send(_response(200, headers)))

    async def send_log(self, asked: Asked, data: bytes) -> None:
        """Send a piece of that body."""
        await self._send_chunk(data, chunked=asked.streamed)

    async def end_log(self) -> None:
        """End that body."""
        await self.send(self._http.send(h11.EndOfMessage()))

    async def switch(self, headers: list[tuple[str, str]]) -> None:
        """Answer that another protocol is spoken from now on."""
        response = h11.InformationalResponse(status_code=101, headers=headers)
        await self.send(self._http.send(response))
        self._early = self._http.trailing_data[0]

    def _headers(self, asked: Asked) -> list[tuple[str, str]]:
        audit = asked.header("audit-id")
        plain = audit.isascii() and audit.isprintable()
        found = [
            ("Audit-Id", audit if audit and plain else self._host.audit_id()),
            ("Cache-Control", "no-cache, private"),
            ("Date", self._host.date()),
        ]
        if cross_origin.is_allowed(asked.header("origin"), self._host.origins):
            found += cross_origin.headers(asked.header("origin"))
        if warning := ignored_token(asked.header("authorization")):
            found.append(("Warning", f'299 - "{warning}"'))
        if asked.header("content-length") and asked.header("transfer-encoding"):
            # Two lengths for one body: another server on the way may take the other one (RFC 9112, 6.3).
            found.append(("Connection", "close"))
        return found

    async def _answer(self, asked: Asked, answered: HttpAnswer) -> None:
        headers = self._headers(asked)
        if "Cache-Control" in answered.headers:
            del headers[1]
        for name, value in answered.headers.items():
            for each in [value] if isinstance(value, str) else value:
                headers.append((name, _header_value(each)))
        if self._http.their_state is not h11.DONE and ("Connection", "close") not in headers:
            headers.append(("Connection", "close"))
        if asked.method == "HEAD" or answered.code in _NO_BODY:
            headers.append(("Content-Length", "0"))
            await self._send_answer(answered.code, headers, ())
            return
        pretty = answer_bodies.pretty_wanted(asked.query, asked.header("user-agent"))
        if answered.unpacked:
            for _ in answered.pack():
                await trio.lowlevel.checkpoint()
            headers = [each for each in headers if each[0] != "Content-Type"]
            headers.append(("Content-Type", str(answered.headers["Content-Type"])))
        pieces = answer_bodies.encoded(answered, pretty=pretty)
        if answered.whole:
            pieces = iter((await _joined(pieces),))
        first, chunks = _peeked(pieces)
        if first >= answer_bodies.GZIP_FROM and "gzip" in asked.header("accept-encoding"):
            if asked.method == "GET":
                headers += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
                chunks = answer_bodies.compressed(chunks)
        if isinstance(chunks, tuple):
            headers.append(("Content-Length", str(first)))
        await self._send_answer(answered.code, headers, chunks)

    async def _send_answer(
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

    async def _stream_page(self, asked: Asked, stream: PageStream) -> None:
        """A page's stream, which its feed fills meanwhile."""
        sink = Sink(self._limits.stream_events)
        cut = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.feed, sink.push)
            try:
                await self._stream_out(asked, stream.content_type, sink, lambda: None)
            except _CLOSED:  # kept, for a nursery would wrap it
                cut = True
            nursery.cancel_scope.cancel()
        if cut:
            raise trio.ClosedResourceError

    async def _stream_out(
        self, asked: Asked, content_type: str, sink: Sink, hang_up: Callable[[], None]
    ) -> None:
        """A watch: headers at once, then what comes, until either side ends it."""
        headers = [*self._headers(asked), ("Content-Type", content_type)]
        ended = False
        try:
            await self.send(self._http.send(_response(200, headers)))
            write = self._host.write
            if asked.streamed and write is not None and isinstance(self._stream, trio.SocketStream):
                descriptor = self._stream.socket.fileno()
                sink.at_once = at_once(write, descriptor, lambda data: b"".join(self._framed(data)))
            over = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.until_hang_up, nursery.cancel_scope)
                if seconds := _time_limit(asked):
                    nursery.start_soon(self._end_while_paused, seconds, over, nursery.cancel_scope)
                ended = await self._pump(sink, chunked=asked.streamed)
                nursery.cancel_scope.cancel()
            if over.is_set():
                await self.send(self._http.send(h11.EndOfMessage()))
        finally:
            sink.at_once = None
            if not ended:
                hang_up()
        if not ended and not over.is_set():
            raise trio.ClosedResourceError

    async def _end_while_paused(
        self, seconds: float, over: trio.Event, scope: trio.CancelScope
    ) -> None:
        """End a watch at its time limit in wall time if virtual time stands still: its client counts on an end."""
        pace = self._host.pace
        if pace is None:
            return
        await trio.sleep(seconds)
        while not pace.paused:
            await trio.sleep(1)
        over.set()
        scope.cancel()

    async def _pump(self, sink: Sink, *, chunked: bool) -> bool:
        """Send what comes to its end; False when the client does not keep up or is gone."""
        try:
            while True:
                found = await sink.lines()
                if sink.rest:
                    rest, sink.rest = sink.rest, b""
                    await self.send(rest)
                if found is None:
                    break
                for chunk in answer_bodies.regrouped(encoded(found)):
                    await self._send_chunk(chunk, chunked=chunked)
            if not sink.overflowed and not sink.cut:
                await self.send(self._http.send(h11.EndOfMessage()))
        except _CLOSED:
            return False
        return not sink.overflowed and not sink.cut

    async def _send_chunk(self, chunk: Chunk, *, chunked: bool) -> None:
        """One piece of a stream, at once; h11 frames it if it is a chunk."""
        for part in self._joined(chunk) if chunked else [chunk]:
            await self.send(part)

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
            except _CLOSED:
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
            except _CLOSED:
                return


def _request(asked: Asked, body: bytes, user: User) -> HttpRequest:
    """A request as the world would see it."""
    return to_request(packed(0, asked.method, asked.path, asked.query, asked.headers, body, user))


def _is_preflight(asked: Asked) -> bool:
    """Return whether a browser asks whether a page may send its request."""
    return asked.method == "OPTIONS" and asked.header("access-control-request-method") != ""


def _asset(asked: Asked, answer: HttpAnswer) -> HttpAnswer:
    """A file of a page. ApiError 405."""
    if asked.method not in ("GET", "HEAD"):
        raise no_such_method()
    return answer


def _lane(asked: Asked, user: User) -> str:
    """Return the limit of requests under way that holds for this one: "reads", "writes", or "" for none.

    Upstream: pkg/server/filters/maxinflight.go; privileged users and long-running requests are exempt.
    """
    if MASTERS in user.groups:
        return ""
    if asked.line.writes:
        return "writes"
    target = asked.line.target
    watch = is_set(asked, "watch")
    if target is not None and (watch or target.watch or target.subresource in _LONG):
        return ""
    return "reads"


def _time_limit(asked: Asked) -> float:
    """Return the time limit of a watch in seconds, 0 for none."""
    text = next(iter(asked.query.get("timeoutSeconds") or ()), "")
    return float(text) if text.isdecimal() and len(text) < 10 else 0.0


def _too_many() -> HttpAnswer:
    headers: dict[str, str | list[str]] = {
        "Content-Type": "text/plain; charset=utf-8",
        "Retry-After": "1",
    }
    return HttpAnswer(429, headers, text="Too many requests, please try again later.\n")


def _refusal(error: h11.RemoteProtocolError) -> Refused:
    code = error.error_status_hint
    if code == 431:
        return Refused(431, "Request Header Fields Too Large")
    if code == 501:
        return Refused(501, "Not Implemented")
    return Refused(400, "Bad Request")


def _failure(error: ApiError) -> HttpAnswer:
    return HttpAnswer(error.code, {"Content-Type": JSON}, error.tree)


def _unquoted(raw: str) -> str:
    """A path without percent signs; a malformed escape is refused, as Go's URL parser does."""
    if "%" not in raw and raw.isascii():
        return raw
    for at, char in enumerate(raw):
        if char == "%":
            digits = raw[at + 1 : at + 3]
            if len(digits) != 2 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise Refused(400, "Bad Request")
    return unquote_to_bytes(raw.encode("latin-1")).decode("utf-8", "replace")


_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def _response(code: int, headers: list[tuple[str, str]]) -> h11.Response:
    return h11.Response(status_code=code, headers=headers, reason=_PHRASES.get(code, ""))


def _header_value(text: str) -> str:
    """A text as a header can carry it."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in text)


def _bytes(data: bytes | None) -> bytes:
    return data or b""


async def _joined(pieces: Iterator[Chunk]) -> Chunk:
    """All pieces as one."""
    body = bytearray()
    for piece in pieces:
        body += piece
        await trio.lowlevel.checkpoint()
    return body


def _peeked(chunks: Iterator[Chunk]) -> tuple[int, Iterable[Chunk]]:
    """Return the length of the first chunk, and all chunks; a tuple when there is only one."""
    head = next(chunks, b"")
    second = next(chunks, None)
    if second is None:
        return len(head), (head,)
    return len(head), chain((head, second), chunks)
