"""The listening side: accepts connections, counts them, and hands their requests to the world."""

from __future__ import annotations

from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import trio
from attrs import field, frozen

from controlplane.api import identity
from controlplane.apiserver.http.message import attached, defect, gone, packed, written
from controlplane.apiserver.http.unauthenticated import UnauthenticatedConnections
from controlplane.apiserver.loops.defects import panic
from controlplane.apiserver.loops.http_connection import Connection
from controlplane.apiserver.loops.http_guest import Guest
from controlplane.apiserver.loops.http_host import Limits, admit_all
from controlplane.shell.files import Disks, Files

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

    from actors.inlet import Inlet
    from actors.pace import Pacer
    from controlplane.api.container_inside import Inside
    from controlplane.api.request import User
    from controlplane.apiserver.front.answering import HttpAnswer
    from controlplane.apiserver.http.authentication import Access
    from controlplane.apiserver.loops.http_host import AccessCheck, Local, Page

__all__ = ["Listener"]

BACKLOG = 1024
DATE_S = 0.1


def _address(stream: trio.SocketStream) -> str:
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return ""


@frozen
class Site:
    """Answers that a listener gives without the world, by path: `pages`, and `assets` without authentication.

    `disks`: the files of containers, which clients' sessions read. `origins`: those of pages of other sites that may
    ask this server. `body_limits`: by path, the bytes that a body may have where `Limits.body_bytes` does not hold.
    `local`: leads clients to files, programs and addresses of the machine.
    """

    pages: Mapping[str, Page] = field(factory=dict)
    assets: Mapping[str, HttpAnswer] = field(factory=dict)
    disks: Disks = field(factory=Disks)
    origins: tuple[str, ...] = ()
    body_limits: Mapping[str, int] = field(factory=dict)
    local: Local | None = None


class Listener:
    """Serves HTTP for one API server of a world.

    Args:
        inlet, actor: where requests enter.
        access: authentication.
        pace: enables time control.
        tls: None for plain HTTP.
        limits: of connections, requests and bodies.
        write: the system's way of writing to an open socket without waiting, where it has one.
        site: what is answered without the world.
        access_check: asked before a body is read.
        goaway_chance: the share of requests over HTTP/2 after which the client is told to open another connection.
    """

    def __init__(
        self,
        inlet: Inlet,
        actor: str,
        access: Access,
        *,
        pace: Pacer | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        write: Callable[[int, bytes], int] | None = None,
        site: Site | None = None,
        access_check: AccessCheck = admit_all,
        goaway_chance: float = 0.0,
    ) -> None:
        self.access = access
        self.write = write
        self.pace = pace
        site = site or Site()
        self.pages, self.assets = site.pages, site.assets
        self.origins = site.origins
        self.body_limits = site.body_limits
        self.local = site.local
        self.limits = limits or Limits()
        self.access_check = access_check
        self._goaway_chance = goaway_chance
        self._draws = 0
        self.listening = ""
        self.connections = 0
        self._known = 0
        self._unauthenticated: UnauthenticatedConnections[int] = UnauthenticatedConnections(
            self.limits.unauthenticated, self.limits.unauthenticated_of_one
        )
        self._under_way = {"reads": 0, "writes": 0}
        self._inlet = inlet
        self._actor = actor
        self._tls = tls
        self._number = 0
        self._answers = 0
        self._date = ""
        self._date_until = 0.0
        self._idle: dict[int, trio.CancelScope] = {}
        self._closing = False
        self._leaving: dict[Callable[[], None], None] = {}
        self._accepting = trio.CancelScope()
        self._sockets: list[trio.SocketListener] = []
        self._disks = site.disks
        self._pending: dict[tuple[str, str], bytes | None] = {}
        self.defects = 0
        """Connections that ended with an exception of ours; the world's log has each with its traceback."""

    async def open(self, host: str, port: int) -> int:
        """Bind; the port that was got. OSError when it cannot be had."""
        self.listening = host
        self._sockets = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
        bound: int = self._sockets[0].socket.getsockname()[1]
        return bound

    async def serve(self) -> None:
        """Accept connections until `close`, and see them to their end."""
        async with trio.open_nursery() as nursery:
            with self._accepting:
                await trio.serve_listeners(self._connection, self._sockets, handler_nursery=nursery)

    async def close(self, grace_s: float = 1.0) -> None:
        """Take no more requests; let those under way end within `grace_s` real seconds."""
        self._closing = True
        self._accepting.cancel()
        for scope in list(self._idle.values()):
            scope.cancel()
        for leave in list(self._leaving):
            leave()
        with trio.move_on_after(grace_s):
            while self.connections:
                await trio.sleep(0.01)

    async def _connection(self, stream: trio.SocketStream) -> None:
        if self._closing:
            await trio.aclose_forcefully(stream)
            return
        self.connections += 1
        guest = Guest(self, _address(stream))
        try:
            with guest.scope:
                await self._serve_one(stream, guest)
        except Exception as error:
            self.defect(error)
        finally:
            self.connections -= 1
            guest.depart()

    async def _serve_one(self, socket: trio.SocketStream, guest: Guest) -> None:
        stream: trio.abc.Stream = socket
        if self._tls is not None:
            secure: trio.SSLStream[Any] = trio.SSLStream(
                socket, self._tls, server_side=True, https_compatible=True
            )
            stream = secure
            try:
                with trio.fail_at(guest.deadline):
                    await secure.do_handshake()
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                await trio.aclose_forcefully(socket)
                return
            except trio.Cancelled:
                socket.socket.close()
                raise
        try:
            if self._tls is not None and secure.selected_alpn_protocol() == "h2":
                from controlplane.apiserver.loops.http2_connection import Http2Connection

                await Http2Connection(stream, self, guest).serve()
            else:
                await Connection(stream, self, guest).serve()
        finally:
            if guest.scope.cancel_called:
                socket.socket.close()
            else:
                with trio.move_on_after(1, shield=True):
                    await stream.aclose()

    def trust(self) -> bool:
        """Return whether there is room for another authenticated client, and count it."""
        if self._known >= self.limits.connections:
            return False
        self._known += 1
        return True

    def forget(self) -> None:
        """Such a client has gone."""
        self._known -= 1

    @property
    def unauthenticated(self) -> UnauthenticatedConnections[int]:
        """The connections of clients that have not."""
        return self._unauthenticated

    # ------------------------------------------------------------------ for connections

    async def idle(self, until: float, wait: Callable[[], Awaitable[bytes]]) -> bytes:
        """While a connection waits for its next request, it may be closed at any time: b"" then, or at that time."""
        with trio.CancelScope(deadline=until) as scope:
            if self._closing:
                scope.cancel()
            self._idle[id(scope)] = scope
            try:
                return await wait()
            finally:
                del self._idle[id(scope)]
        return b""

    def on_close(self, leave: Callable[[], None]) -> None:
        """Call `leave` when the server begins to close; at once if it has begun."""
        if self._closing:
            leave()
        else:
            self._leaving[leave] = None

    def off_close(self, leave: Callable[[], None]) -> None:
        """Forget what `on_close` was told."""
        self._leaving.pop(leave, None)

    def defect(self, error: Exception) -> None:
        """Count an exception of ours, and let the world's log have it."""
        self.defects += 1
        self._inlet.put(self._actor, defect(panic("a connection", error)))

    def rebalances(self) -> bool:
        """Draw whether the client of a request over HTTP/2 is to open another connection.

        Upstream: WithProbabilisticGoaway of pkg/server/filters/goaway.go. Nothing of that is part of the world.
        """
        if not self._goaway_chance:
            return False
        self._draws += 1
        return identity.share(self._draws) < self._goaway_chance

    def enter(self, lane: str) -> bool:
        """Return whether another request may begin; `leave` follows if so.

        `lane` is "reads", "writes", or "" where no limit holds.
        """
        if not lane:
            return True
        limit = self.limits.reads if lane == "reads" else self.limits.writes
        if self._under_way[lane] >= limit:
            return False
        self._under_way[lane] += 1
        return True

    def leave(self, lane: str) -> None:
        """A request that entered has its answer."""
        if lane:
            self._under_way[lane] -= 1

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
        self._number = number = self._number + 1
        self._inlet.put(
            self._actor, packed(number, method, path, query, headers, body, user), answered
        )
        return number

    def hung_up(self, number: int) -> None:
        """Let the world know that the client of a stream is gone."""
        self._inlet.put(self._actor, gone(number))

    def files(self, inside: Inside) -> Files:
        """Return the files of a container; what is written to them enters the world as input."""
        return Files(inside, self._disks, self._wrote, self._pending)

    def _wrote(self, place: str, path: str, data: bytes | None, hides: bool) -> None:
        def taken(_: Any) -> None:
            if self._pending.get((place, path), self) is data:
                del self._pending[place, path]

        self._inlet.put(self._actor, written(place, path, data, hides=hides), taken)

    def attached(self, inside: Inside, text: str, code: int | None) -> None:
        """Let the world know what a client's session at the standard input of a container came to."""
        self._inlet.put(self._actor, attached(inside, text, code))

    def audit_id(self) -> str:
        """A fresh id for an answer's Audit-Id header."""
        self._answers += 1
        return identity.uid((1 << 63) + self._answers)

    def date(self) -> str:
        """The time for an answer's Date header, which has no fractions: at most `DATE_S` behind."""
        now = trio.current_time()
        if now >= self._date_until:
            self._date = formatdate(usegmt=True)
            self._date_until = now + DATE_S
        return self._date
