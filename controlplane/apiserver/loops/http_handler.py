"""Requests of a connection, whichever version of HTTP framed them: admission, the world's answer, its way out.

Upstream: the limits and texts are those of Go's net/http server and of apiserver pkg/server/config.go.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import trio
from attrs import frozen

from controlplane.api.container_inside import Inside
from controlplane.apiserver.front.answering import HttpAnswer
from controlplane.apiserver.http import answer_bodies, cross_origin, origin
from controlplane.apiserver.http.authentication import ANONYMOUS, ignored_token
from controlplane.apiserver.http.message import CUT, StreamStart, packed, to_request
from controlplane.apiserver.loops import time_control as control
from controlplane.apiserver.loops.http_asked import Asked, bearer_of, is_set, is_websocket
from controlplane.apiserver.loops.http_host import PageStream
from controlplane.apiserver.loops.http_sink import Sink, encoded
from controlplane.apiserver.loops.http_upgrade import Upgrade
from controlplane.apiserver.requests.authorization.rbac import MASTERS
from controlplane.apiserver.requests.routing import no_such_method
from controlplane.apiserver.schema.status import ApiError, internal_error, timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from controlplane.api.host_access import Reached
    from controlplane.api.request import User
    from controlplane.apiserver.http.answer_bodies import Chunk
    from controlplane.apiserver.loops.http_guest import Guest
    from controlplane.apiserver.loops.http_host import Host, Pipe
    from controlplane.apiserver.requests.routing import HttpRequest

__all__ = ["CLOSED", "Cut", "Entry", "Handler", "Wire", "failure"]

JSON = "application/json"
_NO_BODY = (204, 304)
_LONG = ("attach", "exec", "log", "portforward", "proxy")
CLOSED = (trio.BrokenResourceError, trio.ClosedResourceError)
"""The client is gone, or does not read."""


class Cut(trio.ClosedResourceError):
    """A plan cuts the connection."""


@frozen
class Entry:
    """The admission of a request into the world: as which user, with or without its body, or refused."""

    user: User
    refusal: HttpAnswer | None = None
    reads: bool = True


class Wire(Protocol):
    """The way back to the client of one request, in one version of HTTP. A client that is gone: one of `CLOSED`."""

    def framing_headers(self, asked: Asked, headers: list[tuple[str, str]]) -> None:
        """Add to the headers of an answer what the version of HTTP needs."""

    async def send_answer(
        self, code: int, headers: list[tuple[str, str]], chunks: Iterable[Chunk]
    ) -> None:
        """Send a whole answer. `chunks` that are no tuple take time to make."""

    async def begin_stream(self, headers: list[tuple[str, str]]) -> None:
        """Send the headers of an answer, code 200, that goes on until one side ends it."""

    def feed_at_once(self, asked: Asked, sink: Sink) -> None:
        """Let short lines of a stream leave without waking a task, where that can be done."""

    async def send_rest(self, data: bytes) -> None:
        """Send what `feed_at_once` left over."""

    async def send_chunk(self, asked: Asked, chunk: Chunk) -> None:
        """One piece of a stream, at once."""

    async def end(self) -> None:
        """End the answer."""

    async def until_hang_up(self, scope: trio.CancelScope) -> None:
        """Cancel `scope` when the client hangs up."""

    def pipe(self) -> Pipe:
        """Return the connection itself, to go on in another protocol."""


class Handler:
    """Handling of a connection's requests: admission, the answer, and its form, apart from the framing."""

    def __init__(self, host: Host, guest: Guest) -> None:
        self._host = host
        self._guest = guest
        self._limits = host.limits

    def let_in(self, asked: Asked) -> Entry:
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
            return Entry(ANONYMOUS, failure(error), reads=False)
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

    async def respond(self, wire: Wire, asked: Asked, body: bytes, user: User) -> None:
        """Answer a request that was let in."""
        host = self._host
        try:
            if asked.path == control.PATH and host.pace is not None:
                tree = await control.control(host.pace, asked.method, body)
                await self.answer(wire, asked, HttpAnswer(200, {"Content-Type": JSON}, tree))
                return
            page = host.pages.get(asked.path)
            if page is not None:
                found = page(_request(asked, body, user))
                if not isinstance(found, HttpAnswer | PageStream):
                    found = await found
                if isinstance(found, HttpAnswer):
                    await self.answer(wire, asked, found)
                else:
                    await self._stream_page(wire, asked, found)
                return
        except ApiError as error:
            await self.answer(wire, asked, failure(error))
            return
        lane = _lane(asked, user)
        if not host.enter(lane):
            await self.answer(wire, asked, _too_many())
            return
        try:
            await self._serve(wire, asked, body, user)
        finally:
            host.leave(lane)

    async def _serve(self, wire: Wire, asked: Asked, body: bytes, user: User) -> None:
        """Let the world answer."""
        host = self._host
        sink = Sink(self._limits.stream_events)
        number = host.ask(
            asked.method, asked.path, asked.query, asked.headers, body, user, sink.push
        )
        answered: Any = failure(timeout("request did not complete within the allotted timeout", 0))
        with trio.move_on_after(self._limits.answer_s):
            answered = await sink.first()
        if answered is CUT:
            raise Cut
        if isinstance(answered, StreamStart):
            if is_websocket(asked):
                await Upgrade(wire.pipe(), host).stream(asked, answered, number, sink)
                return
            await self._stream_out(
                wire, asked, answered.content_type, sink, lambda: host.hung_up(number)
            )
        elif isinstance(answered, HttpAnswer) and answered.entered is not None:
            if isinstance(answered.entered, Inside):
                await Upgrade(wire.pipe(), host).run(asked, answered.entered)
            else:
                await self._lead(wire, asked, answered.entered)
        elif isinstance(answered, HttpAnswer):
            if answered.code == 200 and asked.path.endswith("/log") and is_websocket(asked):
                pieces = answer_bodies.encoded(answered, pretty=False)
                await Upgrade(wire.pipe(), host).log(asked, bytes(await _joined(pieces)))
                return
            await self.answer(wire, asked, answered)
        else:
            await self.answer(wire, asked, failure(internal_error("the API server is down")))

    async def _lead(self, wire: Wire, asked: Asked, reached: Reached) -> None:
        """Lead the client to what its request reaches on the machine."""
        local = self._host.local
        try:
            if local is None:
                raise internal_error("nothing of the machine is reached from here")
            await local(_Led(wire, self._headers(asked)), self._host, asked, reached)
        except ApiError as error:
            await self.answer(wire, asked, failure(error))

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
        return found

    async def answer(self, wire: Wire, asked: Asked, answered: HttpAnswer) -> None:
        """Send an answer in the form that the client asks for."""
        headers = self._headers(asked)
        if "Cache-Control" in answered.headers:
            del headers[1]
        for name, value in answered.headers.items():
            for each in [value] if isinstance(value, str) else value:
                headers.append((name, _header_value(each)))
        wire.framing_headers(asked, headers)
        if asked.method == "HEAD" or answered.code in _NO_BODY:
            headers.append(("Content-Length", "0"))
            await wire.send_answer(answered.code, headers, ())
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
        await wire.send_answer(answered.code, headers, chunks)

    async def _stream_page(self, wire: Wire, asked: Asked, stream: PageStream) -> None:
        """A page's stream, which its feed fills meanwhile."""
        sink = Sink(self._limits.stream_events)
        cut = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.feed, sink.push)
            try:
                await self._stream_out(wire, asked, stream.content_type, sink, lambda: None)
            except CLOSED:  # kept, for a nursery would wrap it
                cut = True
            nursery.cancel_scope.cancel()
        if cut:
            raise trio.ClosedResourceError

    async def _stream_out(
        self, wire: Wire, asked: Asked, content_type: str, sink: Sink, hang_up: Callable[[], None]
    ) -> None:
        """A watch: headers at once, then what comes, until either side ends it."""
        headers = [*self._headers(asked), ("Content-Type", content_type)]
        ended = False
        try:
            await wire.begin_stream(headers)
            wire.feed_at_once(asked, sink)
            over = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wire.until_hang_up, nursery.cancel_scope)
                if seconds := _time_limit(asked):
                    nursery.start_soon(self._end_while_paused, seconds, over, nursery.cancel_scope)
                ended = await self._pump(wire, asked, sink)
                nursery.cancel_scope.cancel()
            if over.is_set():
                await wire.end()
        finally:
            sink.at_once = None
            if not ended:
                hang_up()
        if not ended and not over.is_set():
            raise Cut if sink.cut else trio.ClosedResourceError

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

    async def _pump(self, wire: Wire, asked: Asked, sink: Sink) -> bool:
        """Send what comes to its end; False when the client does not keep up or is gone."""
        try:
            while True:
                found = await sink.lines()
                if sink.rest:
                    rest, sink.rest = sink.rest, b""
                    await wire.send_rest(rest)
                if found is None:
                    break
                for chunk in answer_bodies.regrouped(encoded(found)):
                    await wire.send_chunk(asked, chunk)
            if not sink.overflowed and not sink.cut:
                await wire.end()
        except CLOSED:
            return False
        return not sink.overflowed and not sink.cut


class _Led:
    """The way back to a client that is led to the machine (`LogPipe`)."""

    def __init__(self, wire: Wire, headers: list[tuple[str, str]]) -> None:
        self._wire = wire
        self._headers = headers
        self.until_hang_up = wire.until_hang_up

    async def begin_log(self, asked: Asked) -> None:
        """Send the head of an answer whose body comes piece by piece."""
        await self._wire.begin_stream([*self._headers, ("Content-Type", "text/plain")])

    async def send_log(self, asked: Asked, data: bytes) -> None:
        """Send a piece of that body."""
        await self._wire.send_chunk(asked, data)

    async def end_log(self) -> None:
        """End that body."""
        await self._wire.end()

    async def send(self, data: Chunk | None) -> None:
        """Send bytes of another protocol."""
        await self._wire.pipe().send(data)

    async def upgraded(self) -> bytes:
        """Return the next bytes of the other protocol; b"" at the end."""
        return await self._wire.pipe().upgraded()

    async def switch(self, headers: list[tuple[str, str]]) -> None:
        """Answer that another protocol is spoken from now on."""
        await self._wire.pipe().switch(headers)

    async def linger(self) -> None:
        """Read what is still on its way for a moment."""
        await self._wire.pipe().linger()


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


def failure(error: ApiError) -> HttpAnswer:
    """The answer that an error is."""
    return HttpAnswer(error.code, {"Content-Type": JSON}, error.tree)


def _header_value(text: str) -> str:
    """A text as a header can carry it."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in text)


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
