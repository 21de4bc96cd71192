"""The server, as its connections see it, and the limits of clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import trio
from attrs import frozen

from actors.pace import Pacer
from controlplane.api.container_inside import Inside
from controlplane.api.host_access import Reached
from controlplane.api.request import User
from controlplane.apiserver.front.answering import HttpAnswer
from controlplane.apiserver.http.answer_bodies import Chunk
from controlplane.apiserver.http.authentication import Access
from controlplane.apiserver.loops.http_asked import Asked
from controlplane.apiserver.requests.routing import BODY_LIMIT, HttpRequest
from controlplane.shell.files import Files

__all__ = [
    "AccessCheck",
    "Host",
    "Limits",
    "Local",
    "LogPipe",
    "Page",
    "PageStream",
    "Pipe",
    "admit_all",
]


@frozen
class PageStream:
    """An answer of a page that goes on until one side ends it.

    `feed` is called with a function that sends what it is given: tuples of lines, and `END` at last. It is cancelled
    when the client is gone.
    """

    content_type: str
    feed: Callable[[Callable[[Any], None]], Awaitable[None]]


class Pipe(Protocol):
    """A connection after its request."""

    async def send(self, data: Chunk | None) -> None:
        """Send bytes, within the time that a client has to take them."""

    async def upgraded(self) -> bytes:
        """Return the next bytes of the other protocol; b"" at the end."""

    async def switch(self, headers: list[tuple[str, str]]) -> None:
        """Answer that another protocol is spoken from now on."""

    async def linger(self) -> None:
        """Read what is still on its way for a moment."""


class LogPipe(Pipe, Protocol):
    """A connection after its request that a log of the machine may be sent over."""

    async def begin_log(self, asked: Asked) -> None:
        """Send the head of an answer whose body comes piece by piece."""

    async def send_log(self, asked: Asked, data: bytes) -> None:
        """Send a piece of that body."""

    async def end_log(self) -> None:
        """End that body."""

    async def until_hang_up(self, scope: trio.CancelScope) -> None:
        """Cancel when the client has gone."""


Local = Callable[[LogPipe, "Host", Asked, Reached], Awaitable[None]]
"""Leads a client to what its request reaches on the machine; raises ApiError before the first byte."""
Page = Callable[[HttpRequest], HttpAnswer | PageStream | Awaitable[HttpAnswer | PageStream]]
"""Answers a request, or raises ApiError; no part of the world, so that nothing of it is recorded."""
AccessCheck = Callable[[HttpRequest], None]
"""Authorizes a request and its impersonation, or raises ApiError: called before its body is read."""


def admit_all(_http: HttpRequest) -> None:
    """Admit every request."""


@frozen
class Limits:
    """The limits of a client: bytes and real seconds."""

    connections: int = 4096
    """The number of authenticated connections."""
    unauthenticated: int = 256
    """Connections besides, of clients that have not: the oldest gives way to the newest."""
    unauthenticated_of_one: int = 192
    """The number of unauthenticated connections from one address."""
    unauthenticated_s: float = 5.0
    """They have so long for their handshake and to the end of their headers, and again for a body."""
    unauthenticated_header_bytes: int = 1 << 16
    header_bytes: int = 1 << 20
    body_bytes: int = BODY_LIMIT
    reads: int = 400
    """Requests under way that only read, of users that may not do everything."""
    writes: int = 200
    stream_events: int = 10_000
    """The number of events that a watch's client may be behind before the watch is ended."""
    idle_s: float = 90.0
    """Between two requests. Upstream: IdleTimeout of pkg/server/secure_serving.go."""
    read_s: float = 30.0
    write_s: float = 60.0
    answer_s: float = 60.0
    linger_s: float = 0.5
    http2_streams: int = 100
    """Concurrent streams of an HTTP/2 connection. Upstream: pkg/server/secure_serving.go."""


class Host(Protocol):
    """The entrance of requests into the world, with authentication and limits."""

    @property
    def access(self) -> Access:
        """Authentication."""

    @property
    def limits(self) -> Limits:
        """The limits of a client."""

    @property
    def pace(self) -> Pacer | None:
        """The pace that time control sets; None without time control."""

    @property
    def listening(self) -> str:
        """The configured address or name to listen on."""

    @property
    def access_check(self) -> AccessCheck:
        """Authorization of a request, called before its body is read."""

    def files(self, inside: Inside) -> Files:
        """Return the files of a container; what is written to them enters the world as input."""

    def attached(self, inside: Inside, text: str, code: int | None) -> None:
        """Let the world know what a client's session at the standard input of a container came to."""

    @property
    def pages(self) -> Mapping[str, Page]:
        """The answers given outside of the world, by path."""

    @property
    def assets(self) -> Mapping[str, HttpAnswer]:
        """The public answers, by path: they contain nothing of the cluster."""

    @property
    def body_limits(self) -> Mapping[str, int]:
        """By path, the bytes that a body may have where the limit of `limits` does not hold."""

    @property
    def local(self) -> Local | None:
        """Connect clients to files, programs and addresses of the serving machine; None if that is disabled."""

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins of pages of other sites that may ask this server."""

    @property
    def write(self) -> Callable[[int, bytes], int] | None:
        """The system's way of writing to a socket without waiting, where it has one."""

    async def idle(self, until: float, wait: Callable[[], Awaitable[bytes]]) -> bytes:
        """While a connection waits for its next request, it may be closed at any time: b"" then, or at that time."""

    def on_close(self, leave: Callable[[], None]) -> None:
        """Call `leave` when the server begins to close; at once if it has begun."""

    def off_close(self, leave: Callable[[], None]) -> None:
        """Forget what `on_close` was told."""

    def defect(self, error: Exception) -> None:
        """Count an exception of ours, and let the world's log have it."""

    def rebalances(self) -> bool:
        """Return whether the client of a request over HTTP/2 is to open another connection (`--goaway-chance`)."""

    def enter(self, lane: str) -> bool:
        """Return whether another request may begin; `leave` follows if so."""

    def leave(self, lane: str) -> None:
        """A request that entered has its answer."""

    def ask(
        self,
        method: str,
        path: str,
        query: dict[str, list[str]],
        headers: list[tuple[str, str]],
        body: bytes,
        user: User,
        answered: Callable[[Any], None],
    ) -> int:
        """Let a request enter the world; its number."""

    def hung_up(self, number: int) -> None:
        """Let the world know that the client of a stream is gone."""

    def audit_id(self) -> str:
        """A fresh id for an answer's Audit-Id header."""

    def date(self) -> str:
        """The time for an answer's Date header."""
