"""The addresses of the API servers, and the settings of this process's client library. Upstream: rest.Config.

A `RestConfig` is a value that a component is started with; it may name several servers behind one
address, and any release's library.

A process has one connection, shared by all its requests and watches (HTTP/2). Which server it leads
to when it is made is a choice ("endpoint"; option 0: the first one, after a loss the one after the
lost one). When nothing came over it for a while, a ping finds out whether it is dead.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from attrs import frozen

from actors import LinkBroken, Timeout
from controlplane.api.times import SECOND
from controlplane.client.features import PLAIN, ClientFeatures

if TYPE_CHECKING:
    from actors import Condition, Context, Mailbox, Message
    from controlplane.api.request import Request, Response

READ_IDLE_NS = 30 * SECOND
PING_NS = 15 * SECOND
REQUEST_NS = READ_IDLE_NS + PING_NS
"""After so long without an answer a request's connection has been found dead."""


@frozen
class Ping:
    """Asks a server whether it is there."""

    label: ClassVar[str] = "ping"


PING = Ping()


@frozen
class RestConfig:
    """The servers that a process may be connected to, and how its client library behaves.

    `pinned` names the server that the first connection of every incarnation leads to; without it
    that is a choice.
    """

    servers: tuple[str, ...] = ("apiserver",)
    features: ClientFeatures = PLAIN
    pinned: str = ""

    @property
    def direct(self) -> str | None:
        """The one server of the plain library, whose connection needs no care; None otherwise."""
        if len(self.servers) > 1 or not (self.features is PLAIN or self.features == PLAIN):
            return None
        return self.servers[0]


IN_CLUSTER: Final = RestConfig()
"""The default configuration of a component: the one server, and the library's defaults."""


def connection(ctx: Context, config: RestConfig) -> Connection:
    """The connection of this process, shared by all that speak to the same servers.

    Upstream: the cache of transports, client-go transport/cache.go.
    """
    key = (Connection, config.servers, config.pinned)
    found: Connection | None = ctx.process.get(key)
    if found is None:
        found = ctx.process[key] = Connection(config)
    return found


class Connection:
    """The target of a process's connection, and the state of the connection."""

    __slots__ = ("_current", "_heard_at", "_is_kept", "_lost", "_made", "config")

    def __init__(self, config: RestConfig) -> None:
        self.config = config
        self._current = self._lost = ""
        self._heard_at = 0
        self._is_kept = False
        """True while a task checks the health of the connection."""
        self._made: Condition | None = None
        """Wakes that task when a connection exists again."""

    def connected(self, ctx: Context) -> str:
        """The server that the connection leads to; a new one is made if there is none."""
        ctx.touches("connection")
        if not self._current:
            order = self._order()
            index = ctx.choose("endpoint", len(order), f"{ctx.actor} connects")
            self._current = order[index]
            if len(self.config.servers) > 1:
                ctx.log("client.connected", data={"server": self._current})
            self._heard_at = ctx.now
            if self._made is not None:
                self._made.notify_all()
        return self._current

    def _order(self) -> tuple[str, ...]:
        servers, pinned = self.config.servers, self.config.pinned
        if not self._lost:
            return (pinned,) if pinned else servers
        after = servers.index(self._lost) + 1
        return servers[after:] + servers[:after]

    def lost(self, server: str) -> None:
        """The connection to a server broke: the next request makes another."""
        if self._current == server:
            self._current, self._lost = "", server

    async def ask(self, ctx: Context, request: Request, timeout_ns: int | None = None) -> Response:
        """One request over the connection. Raises LinkBroken, or Timeout after the caller's limit.

        Either way the outcome is unknown.
        """
        server = self.connected(ctx)
        limit = REQUEST_NS if timeout_ns is None else min(timeout_ns, REQUEST_NS)
        try:
            answer: Response = await ctx.ask(server, request, limit, point=request.label)
        except LinkBroken:
            ctx.touches("connection")
            self.lost(server)
            raise
        except Timeout:
            if limit < REQUEST_NS:
                raise
            raise self._dead(ctx, server) from None
        ctx.touches("connection")
        self._heard_at = ctx.now
        return answer

    def open(self, ctx: Context, request: Request, name: str) -> Mailbox:
        """Open a stream over the connection. Raises LinkBroken when the server is down."""
        server = self.connected(ctx)
        try:
            stream = ctx.open(server, request, name=name)
        except LinkBroken:
            self.lost(server)
            raise
        if stream.peer is not None and not stream.peer.alive:
            ctx.close(stream)
            self.lost(server)
            raise LinkBroken(f"{server} is down")
        if len(self.config.servers) > 1 and not self._is_kept:
            self._is_kept = True  # who has nowhere else to go does not ask
            self._made = ctx.condition()
            ctx.spawn(self._keep, self._made, name="connection")
        return stream

    async def read(self, ctx: Context, stream: Mailbox) -> Message:
        """The next message of a stream. Raises LinkBroken, when the connection was found dead as well."""
        assert stream.peer is not None
        try:
            message = await stream.recv(idle=True)
        except LinkBroken:
            ctx.touches("connection")
            self.lost(stream.peer.name)
            raise
        ctx.touches("connection")
        self._heard_at = ctx.now
        return message

    async def _keep(self, ctx: Context, made: Condition) -> None:
        """Send a ping after a silence on the connection; close the connection if no answer arrives.

        One timer for all that uses the connection. Upstream: http2 ClientConn.healthCheck.
        """
        while True:
            ctx.touches("connection")
            server = self._current
            if not server:
                await made.wait(idle=True, point="client.idle")
                continue
            due = self._heard_at + READ_IDLE_NS
            if ctx.now < due:
                await ctx.sleep_until(due, idle=True, point="client.idle")
                continue
            with suppress(LinkBroken):
                await self._ping(ctx, server)

    async def _ping(self, ctx: Context, server: str) -> None:
        """Ask whether the server is there."""
        try:
            await ctx.ask(server, PING, PING_NS, point="client.ping")
        except LinkBroken:
            self.lost(server)
            raise
        except Timeout:
            raise self._dead(ctx, server) from None
        ctx.touches("connection")
        self._heard_at = ctx.now

    def _dead(self, ctx: Context, server: str) -> LinkBroken:
        """Nothing comes back from the server: everything on the connection ends with it."""
        ctx.touches("connection")
        self.lost(server)
        ctx.faults.break_link(ctx.actor, server)
        return LinkBroken(f"connection to {server} timed out")
